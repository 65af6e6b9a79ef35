"""A job as its owner has seen it: what was said once must stand."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

View = dict[str, Any]

_ORDER = {"validating_files": 0, "queued": 1, "running": 2}
_OVER = 3


@dataclass
class WatchedJob:
    """One job of one's own.

    Attributes:
        id: the job's.
        view: the newest; empty before the first.
        wrong: what was said otherwise later.
    """

    id: str
    view: View = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return bool(self.view) and rank(self.view) == _OVER

    @property
    def is_paused(self) -> bool:
        """Whether it waits for its owner."""
        return not self.is_over and self.view["market"]["state"] == "paused"

    def see(self, view: View) -> None:
        """Compare an answer with those before it."""
        if self.view:
            self.wrong += [f"{self.id}: {what}" for what in changed(self.view, view)]
        self.view = view


def changed(before: View, after: View) -> Iterator[str]:
    """What an earlier answer said, and a later one takes back."""
    for name in ("id", "created_at", "model", "training_file", "metadata", "seed"):
        if before[name] != after[name]:
            yield f"{name} was {before[name]}, and is {after[name]}"
    if rank(after) < rank(before) or (rank(before) == _OVER and _end(before) != _end(after)):
        yield f"it was {_end(before)}, and is {_end(after)}"
    sooner, later = before["market"], after["market"]
    fixed = ["zone", "alternatives"]
    if sooner["decision"] is not None:
        fixed += ["decision", "reason", "bid", "deadline"]
        # What is metered is paid when it is over.
        fixed += [] if sooner["metered"] else ["payment"]
    for name in fixed:
        if sooner[name] != later[name]:
            yield f"{name} was {sooner[name]}, and is {later[name]}"
    for name in ("rows", "steps", "tokens"):
        if _progress(sooner, name) > _progress(later, name):
            yield f"{name} went back: {sooner['progress']}, {later['progress']}"
    if sooner["metered"]:
        yield from _meter(sooner["metered"], later["metered"])


def rank(view: View) -> int:
    """How far a job has come: no answer takes it back."""
    return _ORDER.get(view["status"], _OVER)


def _end(view: View) -> tuple[Any, ...]:
    return view["status"], view["result_files"], view["error"], view["market"]["refunded"]


def _progress(part: View, name: str) -> int:
    return 0 if part["progress"] is None else int(part["progress"][name])


def _meter(sooner: View, later: View) -> Iterator[str]:
    for name in ("max_cost", "estimate"):
        if sooner[name] != later[name]:
            yield f"{name} was {sooner[name]}, and is {later[name]}"
    if Decimal(sooner["cost"]) > Decimal(later["cost"]):
        yield f"its cost went back: {sooner['cost']}, {later['cost']}"
    if Decimal(later["cost"]) > Decimal(later["max_cost"]):
        yield f"it costs {later['cost']}, above {later['max_cost']}"
