"""The metered part of a job as readers see it: `MeteredPart` of the API."""

from typing import Any

from auctune.service.zones.job_row import JobRow
from auctune.service.zones.metered.estimate import estimate_view
from auctune.service.zones.metered.meter import Meter

METERED_ROW: dict[str, Any] = {"meter": None}
"""Keys of the rows of metered jobs, with nothing in them: what the meter stands at."""


def metered_part(row: JobRow) -> dict[str, Any] | None:
    """Of a job that was decided on; none before that.

    Its row's decision has max_cost, estimate, and least_max_cost where it was rejected for its cap;
    its `meter` is a record of one; its `worth`, if it has one, says what was `reached`.
    """
    decision, meter = row.body["decision"], row.body["meter"]
    if decision is None:
        return None
    found = None if meter is None else Meter.from_record(meter)
    estimate = decision["estimate"]
    return {
        "max_cost": decision["max_cost"],
        "least_max_cost": decision.get("least_max_cost"),
        "cost": "0.0000" if found is None else str(found.charged),
        "held": "0.0000" if found is None else str(found.remaining),
        "slots": 0 if found is None else found.next_slot,
        "value": (row.body.get("worth") or {}).get("reached"),
        "estimate": None if estimate is None else estimate_view(estimate, decision["max_cost"]),
    }
