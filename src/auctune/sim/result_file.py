"""OUT.jsonl and OUT.json: what was decided, and what it came to; docs/reference/simulate.md.

Money that was paid is rounded, to 4 decimals; values and surpluses are written as they were
computed, to the last bit.
"""

from typing import Any, TextIO

from auctune.domain import Decision
from auctune.files.json_file import write_line
from auctune.sim.engine import SimulationResult
from auctune.sim.outages import Change


def decision_json(decision: Decision) -> dict[str, Any]:
    """One line of OUT.jsonl, keys in that order."""
    schedule = decision.schedule
    return {
        "task": decision.task,
        "admitted": decision.admitted,
        "vendor": None if schedule is None else schedule.vendor,
        "payment": float(decision.payment) if decision.admitted else 0,
        "value": decision.value,
        "surplus": decision.surplus,
        "schedule": [
            {"slot": slot, "node": node} for slot, node in (schedule.cells if schedule else ())
        ],
        "reason": decision.reason,
    }


def final_json(decision: Decision, change: Change | None) -> dict[str, Any]:
    """A line of OUT.jsonl where outages were played: the plan as it ended, and the refund."""
    data = decision_json(decision) | {"refund": 0}
    if change is not None:
        data["schedule"] = [{"slot": slot, "node": node} for slot, node in change.cells]
        data["refund"] = data["payment"] if change.refunded else 0
    return data


def write_decisions(result: SimulationResult, file: TextIO) -> None:
    """Write OUT.jsonl, plans as they ended where outages were played."""
    if result.changes is None:
        for decision in result.decisions:
            write_line(decision_json(decision), file)
        return
    last = {change.task.id: change for change in result.changes}
    for decision in result.decisions:
        write_line(final_json(decision, last.get(decision.task)), file)
