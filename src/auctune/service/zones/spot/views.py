"""What readers see of rented jobs: the market's part of them, and how they are told of."""

from collections.abc import Mapping
from typing import Any

from auctune.service.zones.clock import SlotClock
from auctune.service.zones.event import Kind
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.market_part import market_part
from auctune.service.zones.metered.event import MeteredKind
from auctune.service.zones.metered.shown import metered_part
from auctune.service.zones.spot.event import SpotKind
from auctune.service.zones.spot.job_rows import ROWS
from auctune.service.zones.told import COMMON, Told

Shown = dict[str, Any]


class SpotViews:
    """Of all rented zones."""

    @property
    def messages(self) -> Mapping[str, Told]:
        """How events are told to a job's owner, by kind."""
        return _TOLD

    def market(self, row: JobRow, clock: SlotClock) -> Shown:
        """The market's part of a job."""
        metered, payment = metered_part(row), None
        if metered is not None and row.body["finished_at"] is not None:
            payment = metered["cost"] if row.body["decision"]["admitted"] else None
        return {**market_part(row), "payment": payment, "metered": metered}

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
        return f"Rejected ({decision['reason']}): {ROWS.rejection_reason(body)}"
    found = decision["estimate"]
    return (
        f"Admitted: {found['expected_cost']} expected, {found['p90_cost']} at p90, "
        f"{body['held']} at most; risk of being late {found['risk']:.0%}"
    )


def _metered(body: Mapping[str, Any]) -> str:
    if body["missed"]:
        return f"Slot {body['at']} skipped: the job's process was not running yet; nothing charged"
    held = f"{body['on_demand']} on-demand and {body['spot']} spot instances"
    return f"Slot {body['at']}: {held}, {body['amount']}"


_FACTS = ("amount", "at", "price", "on_demand", "spot", "missed")

_TOLD: Mapping[str, Told] = {
    **COMMON,
    Kind.DECIDED: Told(_decided),
    MeteredKind.METERED: Told(_metered, data_fields=_FACTS),
    SpotKind.ENDED: Told(lambda _: "All is trained; the adapter is being packed"),
}
