"""The data process: measures and repairs data sets, and archives results."""

from auctune.engine.data.client import DataClient, DataError
from auctune.engine.data.process import DataFuture
from auctune.engine.messages.data import Appraisal, Archived, DataFacts, Offer

__all__ = ["Appraisal", "Archived", "DataClient", "DataError", "DataFacts", "DataFuture", "Offer"]
