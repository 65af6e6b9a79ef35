"""A job as its owner observes it: later responses must not contradict earlier ones."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from auctune.service.zones.core.job import SLOWER_THAN_SOLD

JobView = dict[str, Any]

_STAGES = {"validating_files": 0, "queued": 1, "running": 2}
_ENDED = 3


@dataclass
class ObservedJob:
    """A job in the responses to its owner.

    Attributes:
        id: of the job.
        view: the newest one; empty before the first.
        violations: contradictions between responses.
    """

    id: str
    view: JobView = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        """Whether the newest view has a final status."""
        return bool(self.view) and _stage(self.view) == _ENDED

    @property
    def is_paused(self) -> bool:
        """Whether it waits for its owner to resume it."""
        return not self.has_ended and self.view["market"]["state"] == "paused"

    def observe(self, view: JobView) -> None:
        """Compare a view with the one before."""
        if self.view:
            self.violations += [f"{self.id}: {one}" for one in contradictions(self.view, view)]
        self.view = view


def contradictions(before: JobView, after: JobView) -> Iterator[str]:
    """Yield what a view contradicts in an earlier one."""
    fixed = ("id", "created_at", "model", "training_file", "metadata", "seed")
    yield from _changes(before, after, fixed)
    stages = _stage(before), _stage(after)
    if stages[1] < stages[0] or (stages[0] == _ENDED and _outcome(before) != _outcome(after)):
        yield f"outcome changed from {_outcome(before)} to {_outcome(after)}"
    market, market_after = before["market"], after["market"]
    yield from _changes(market, market_after, ("zone", "alternatives"))
    if market["decision"] is not None:
        yield from _changes(market, market_after, ("decision", "reason", "bid", "deadline"))
        # The payment of a metered job is final when it ends.
        if not market["metered"]:
            yield from _changes(market, market_after, ("payment",))
    for name in ("rows", "steps", "tokens"):
        if _progress(market, name) > _progress(market_after, name):
            yield f"{name} decreased: {market['progress']}, {market_after['progress']}"
    if market["metered"]:
        meter, meter_after = market["metered"], market_after["metered"]
        yield from _changes(meter, meter_after, ("max_cost", "estimate"))
        # A slot that was slower than sold is charged, and refunded once that is known.
        is_slowed = SLOWER_THAN_SOLD in market_after["notes"]
        if Decimal(meter["cost"]) > Decimal(meter_after["cost"]) and not is_slowed:
            yield f"cost decreased from {meter['cost']} to {meter_after['cost']}"
        if Decimal(meter_after["cost"]) > Decimal(meter_after["max_cost"]):
            yield f"cost {meter_after['cost']} exceeds the cap of {meter_after['max_cost']}"


def _changes(before: JobView, after: JobView, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        if before[name] != after[name]:
            yield f"{name} changed from {before[name]} to {after[name]}"


def _stage(view: JobView) -> int:
    return _STAGES.get(view["status"], _ENDED)


def _outcome(view: JobView) -> tuple[Any, ...]:
    return view["status"], view["result_files"], view["error"], view["market"]["refunded"]


def _progress(market: JobView, name: str) -> int:
    return 0 if market["progress"] is None else int(market["progress"][name])
