"""OUT.jsonl and OUT.json: what was decided, and what it came to; docs/reference/simulate.md.

Money that was paid is rounded, to 4 decimals; values and surpluses are written as they were
computed, to the last bit.
"""

import json
from typing import Any, TextIO

from auctune.domain import Decision
from auctune.sim.metrics import SimulationReport


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


def write_decision(decision: Decision, file: TextIO) -> None:
    """Add a decision to OUT.jsonl."""
    json.dump(decision_json(decision), file, ensure_ascii=False, allow_nan=False)
    file.write("\n")


def write_report(report: SimulationReport, file: TextIO) -> None:
    """Write OUT.json."""
    json.dump(report.to_json(), file, indent=2, allow_nan=False)
    file.write("\n")
