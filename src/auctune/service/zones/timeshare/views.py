"""What readers see of a timeshare zone's jobs, and how they are told of."""

from collections.abc import Mapping
from typing import Any

from auctune.service.zones.clock import SlotClock
from auctune.service.zones.event import Kind
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.market_part import market_part
from auctune.service.zones.metered.event import MeteredKind
from auctune.service.zones.metered.shown import metered_part
from auctune.service.zones.timeshare.event import TimeshareKind
from auctune.service.zones.timeshare.job_rows import ROWS
from auctune.service.zones.told import COMMON, Told

Shown = dict[str, Any]


class TimeshareViews:
    """Of all of them."""

    @property
    def messages(self) -> Mapping[str, Told]:
        """How events are told to a job's owner, by kind."""
        return _TOLD

    def market(self, row: JobRow, clock: SlotClock) -> Shown:
        """The market's part of a job."""
        target = _target(row.body, row.body["request"], clock)
        return {**market_part(row), "metered": metered_part(row), "target": target}

    def finish(self, row: JobRow, clock: SlotClock) -> float | None:
        """When its loss will be reached if its share stays; none if nobody knows."""
        target = row.body["target"]
        return None if target is None else _time(target["finish_unit"], clock)


def _target(body: Shown, request: Shown, clock: SlotClock) -> Shown:
    found = body["target"]
    known = {} if found is None else found
    return {
        "target_loss": request["target_loss"],
        "best_loss": known.get("best_loss"),
        "share": known.get("share", 0.0),
        "finish": _time(known.get("finish_unit"), clock),
        "verdict": known.get("verdict"),
        "pool_seconds": known.get("pool_seconds", 0.0),
        "curve": known.get("curve", []),
    }


def _time(unit: float | None, clock: SlotClock) -> float | None:
    return None if unit is None else clock.epoch + unit * clock.slot_seconds


def _decided(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    if not decision["admitted"]:
        return f"Rejected ({decision['reason']}): {ROWS.rejection_reason(body)}"
    chance = decision["estimate"]["success_probability"]
    return (
        f"Admitted for at most {decision['max_cost']}, without a promise: "
        f"the target is met with a probability of {chance:.2f}, as far as can be told"
    )


def _metered(body: Mapping[str, Any]) -> str:
    what = "" if body["batches"] else " to load the job, or for a batch that was stopped"
    return f"{body['seconds']:.1f} s of the pool{what}, for {body['amount']}"


def _trained(body: Mapping[str, Any]) -> str:
    result = body["result"]
    loss = f"loss {result['losses'][-1][3]:.4g}" if result["losses"] else "no loss"
    return f"{result['steps']} batches trained, {loss}"


def _left(body: Mapping[str, Any]) -> str:
    ways = {
        "reached": "The target loss is reached",
        "missed": "The deadline has passed before the target loss was reached",
        "ended": "The cost has reached max_cost",
        "slow": "A batch took longer than a job may hold the pool",
    }
    return ways.get(body["how"], "It has left the pool") + "; what it learned best is packed"


_FACTS = ("amount", "unit", "seconds", "share")

_TOLD: Mapping[str, Told] = {
    **COMMON,
    Kind.DECIDED: Told(_decided),
    MeteredKind.METERED: Told(_metered, data_fields=_FACTS),
    Kind.TRAINED: Told(_trained),
    TimeshareKind.JOINED: Told(lambda _: "It has joined the pool"),
    TimeshareKind.LEFT: Told(_left),
    TimeshareKind.SETTLED: Told(
        lambda _: "The pool has dropped it; what was set aside is released"
    ),
}
