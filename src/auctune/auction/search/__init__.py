"""Exact search for the least-cost schedule of one task."""

from auctune.auction.search.schedule_search import Found, ScheduleSearch

__all__ = ["Found", "ScheduleSearch"]
