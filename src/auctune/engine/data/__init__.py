"""The data process: measures and repairs data sets, and archives results."""

from auctune.engine.data.archive import Archived
from auctune.engine.data.client import DataClient, DataError
from auctune.engine.data.facts import Appraisal, DataFacts, Offer

__all__ = ["Appraisal", "Archived", "DataClient", "DataError", "DataFacts", "Offer"]
