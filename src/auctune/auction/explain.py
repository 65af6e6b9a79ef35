"""What a plan costs and what others would have cost, asked of any mechanism that sells cells."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from auctune.auction.book import Book
from auctune.domain import Decision, Explanation, InputError, PricedPlan, Schedule, Task

Meets = Callable[[int], PricedPlan | None]


class Market(Protocol):
    """What it asks of a mechanism."""

    book: Book

    def find_plan(self, task: Task, now: int, *, with_room: bool = False) -> PricedPlan | None:
        """The best plan of a task, by the mechanism's own rule or among cells with room."""
        ...

    def price_plan(self, task: Task, schedule: Schedule, now: int) -> PricedPlan | None:
        """What a given plan costs; none if the task could not run by it."""
        ...


def explain(market: Market, task: Task, asked: Decision | Schedule, now: int) -> Explanation:
    """`Admission.explain`, for slot `now`, which has begun.

    Some thirty searches: one for each vendor and node type, and a bisection each for the earliest
    finish and the next cheaper deadline.
    """
    schedule = asked.schedule if isinstance(asked, Decision) else asked
    if schedule is None:
        chosen = market.find_plan(task, now)
    else:
        chosen = market.price_plan(task, schedule, now)
        if chosen is None:
            raise InputError("schedule", "the task could not run by it", "a plan for this task")
    return Explanation(
        task.id,
        chosen,
        _by_vendor(market, task, chosen, now),
        _by_node_type(market, task, now),
        _earlier(market, task, chosen, now),
        _later(market, task, chosen, now),
        _earliest(market, task, now),
    )


def _by_vendor(
    market: Market, task: Task, chosen: PricedPlan | None, now: int
) -> dict[str, PricedPlan | None]:
    own = None if chosen is None else chosen.schedule.vendor
    return {
        quote.vendor: market.find_plan(replace(task, quotes=(quote,)), now)
        for quote in task.quotes
        if quote.vendor != own
    }


def _by_node_type(market: Market, task: Task, now: int) -> dict[str, PricedPlan | None]:
    if len(task.throughput) == 1:
        return {}
    return {
        name: market.find_plan(replace(task, throughput={name: samples}), now)
        for name, samples in task.throughput.items()
    }


def _earlier(market: Market, task: Task, chosen: PricedPlan | None, now: int) -> PricedPlan | None:
    if chosen is None or chosen.schedule.finish <= max(now, task.arrival):
        return None
    return market.find_plan(replace(task, deadline=chosen.schedule.finish - 1), now)


def _later(market: Market, task: Task, chosen: PricedPlan | None, now: int) -> PricedPlan | None:
    price = None if chosen is None else chosen.price
    if price is None:
        return None

    def cheaper(deadline: int) -> PricedPlan | None:
        plan = market.find_plan(replace(task, deadline=deadline), now)
        return plan if plan is not None and plan.price is not None and plan.price < price else None

    return _first(cheaper, task.deadline + 1, market.book.horizon.last)


def _earliest(market: Market, task: Task, now: int) -> PricedPlan | None:
    def fits(deadline: int) -> PricedPlan | None:
        return market.find_plan(replace(task, deadline=deadline), now, with_room=True)

    return _first(fits, max(now, task.arrival), market.book.horizon.last)


def _first(meets: Meets, low: int, high: int) -> PricedPlan | None:
    """The plan of the first deadline in low..high that has one; every later one has one too."""
    plan = meets(high) if low <= high else None
    if plan is None:
        return None
    high = max(low, plan.schedule.finish)
    while low < high:
        middle = (low + high) // 2
        found = meets(middle)
        if found is None:
            low = middle + 1
        else:
            plan, high = found, max(low, found.schedule.finish)
    return plan
