"""Decisions of the edge as JSON lines; docs/reference/edge-files.md.

Money that was paid is rounded, to 4 decimals; utilities and surpluses are written as they were
computed, to the last bit.
"""

from collections.abc import Iterable
from typing import Any, TextIO

from auctune.domain import Reason, parse_money
from auctune.edge.decision import EdgeDecision, EdgePlan, Move, SlotPlan
from auctune.files.json_file import write_line


def edge_decision_json(decision: EdgeDecision) -> dict[str, Any]:
    """One line, keys in that order."""
    return {
        "job": decision.job,
        "admitted": decision.admitted,
        "payment": float(decision.payment) if decision.admitted else 0,
        "utility": decision.utility,
        "surplus": decision.surplus,
        "finish": decision.finish,
        "plan": slots_json(decision.plan) if decision.plan else [],
        "reason": decision.reason,
    }


def write_edge_decisions(decisions: Iterable[EdgeDecision], file: TextIO) -> None:
    """Write a line a decision."""
    for decision in decisions:
        write_line(edge_decision_json(decision), file)


def parse_edge_decision(data: Any) -> EdgeDecision:
    """Return the decision that `edge_decision_json` gave.

    Raises:
        ValueError, LookupError, TypeError: if it is none.
    """
    parts = parse_slots(data["plan"])
    return EdgeDecision(
        data["job"],
        admitted=data["admitted"],
        payment=parse_money(data["payment"], "payment"),
        plan=EdgePlan(parts) if parts else None,
        utility=data["utility"],
        surplus=data["surplus"],
        reason=None if data["reason"] is None else Reason(data["reason"]),
    )


def slots_json(plan: EdgePlan) -> list[dict[str, Any]]:
    """Return the slots of a plan."""
    return [slot_json(part) for part in plan.slots]


def parse_slots(data: Any) -> tuple[SlotPlan, ...]:
    """Return the slots that `slots_json` gave.

    Raises:
        LookupError, TypeError: if they are none.
    """
    return tuple(
        SlotPlan(
            part["slot"],
            dict(part["workers"]),
            part["server"],
            tuple(Move(*move) for move in part["moves"]),
        )
        for part in data
    )


def slot_json(part: SlotPlan) -> dict[str, Any]:
    """One slot of a plan."""
    return {
        "slot": part.slot,
        "workers": dict(part.workers),
        "server": part.server,
        "moves": [list(move) for move in part.moves],
    }
