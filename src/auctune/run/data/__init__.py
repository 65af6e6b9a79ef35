"""The data process: measures and repairs data sets, and archives results."""

from auctune.run.data.archive import Archived
from auctune.run.data.client import DataClient, DataError
from auctune.run.data.facts import Appraisal, DataFacts, Offer

__all__ = ["Appraisal", "Archived", "DataClient", "DataError", "DataFacts", "Offer"]
