"""Looking at data sets, mending them and packing results: in a process of its own."""

from auctune.run.data.archive import Archived
from auctune.run.data.client import DataClient, DataError
from auctune.run.data.facts import Appraisal, DataFacts, Offer

__all__ = ["Appraisal", "Archived", "DataClient", "DataError", "DataFacts", "Offer"]
