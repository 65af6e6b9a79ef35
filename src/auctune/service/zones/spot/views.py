"""What readers see of rented jobs: the market's part of them, and how they are told of."""

from collections.abc import Mapping
from typing import Any

from auctune.service.zones.clock import SlotClock
from auctune.service.zones.event import Kind
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.metered.event import MeteredKind
from auctune.service.zones.metered.shown import metered_part
from auctune.service.zones.spot.event import SpotKind
from auctune.service.zones.spot.job_rows import why_rejected
from auctune.service.zones.told import COMMON, Told

Shown = dict[str, Any]


class SpotViews:
    """Of all rented zones."""

    @property
    def told(self) -> Mapping[str, Told]:
        """How events are told to a job's owner, by kind."""
        return _TOLD

    def market(self, row: JobRow, clock: SlotClock) -> Shown:
        """The market's part of a job."""
        body = row.body
        decision, training = body["decision"], body["training"]
        admitted = decision is not None and decision["admitted"]
        metered = metered_part(row)
        is_over = body["finished_at"] is not None
        return {
            "zone": row.zone,
            "state": body["state"],
            "decision": None if decision is None else ("admitted" if admitted else "rejected"),
            "reason": None if decision is None else decision["reason"],
            "bid": body["request"]["bid"],
            "payment": metered["cost"] if admitted and is_over and metered is not None else None,
            "least_bid": None,
            "price": None,
            "budget_left": None,
            "deadline": body["request"]["deadline"],
            "earliest_deadline": None,
            "refunded": body["refunded"],
            "plan": None,
            "progress": body["progress"],
            "notes": body["notes"],
            "lora": {
                name: training[name]
                for name in ("rank", "alpha", "dropout", "target_modules", "learning_rate")
            },
            "metered": metered,
        }

    def finish(self, row: JobRow, clock: SlotClock) -> float | None:
        """When it was thought to be done when it was decided on."""
        decision = row.body["decision"]
        if decision is None or not decision["admitted"]:
            return None
        finish: float = decision["estimate"]["finish"]
        return finish


def _decided(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    if not decision["admitted"]:
        return f"Rejected ({decision['reason']}): {why_rejected(body)}"
    found = decision["estimate"]
    return (
        f"Admitted: {found['expected_cost']} expected, {found['p90_cost']} at p90, "
        f"{body['held']} at most; risk of being late {found['risk']:.0%}"
    )


def _metered(body: Mapping[str, Any]) -> str:
    if body["missed"]:
        return f"Slot {body['at']} passed while nobody was there; nothing was held"
    held = f"{body['on_demand']} on-demand and {body['spot']} spot instances"
    return f"Slot {body['at']}: {held}, {body['amount']}"


_FACTS = ("amount", "at", "price", "on_demand", "spot", "missed")

_TOLD: Mapping[str, Told] = {
    **COMMON,
    Kind.DECIDED: Told(_decided),
    MeteredKind.METERED: Told(_metered, facts=_FACTS),
    SpotKind.ENDED: Told(lambda _: "All is trained; the adapter is being packed"),
}
