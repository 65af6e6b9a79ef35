"""Exact search for the least-cost schedule of one task."""

from auctune.auction.search.schedule_search import BestSchedule, ScheduleSearch

__all__ = ["BestSchedule", "ScheduleSearch"]
