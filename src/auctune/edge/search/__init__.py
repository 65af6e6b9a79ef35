"""The search for a job's plans."""

from auctune.edge.search.search import Offer, offers

__all__ = ["Offer", "offers"]
