"""Events of a run as plain JSON values; `auctune.run.edge.state` reads them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from auctune.edge.decision import EdgeDecision, EdgeReplanned
from auctune.run.edge.state import SlotOutcome
from auctune.run.event_log import EventRecord
from auctune.sim.edge.decision_file import edge_decision_json, slots_json


def offered_event(slot: int, job: str, decision: EdgeDecision) -> EventRecord:
    """A bid was answered."""
    return {"type": "offered", "slot": slot, "job": job, "decision": edge_decision_json(decision)}


def trained_event(slot: int, job: str, outcome: SlotOutcome) -> EventRecord:
    """A job's slot is trained."""
    return {"type": "trained", "slot": slot, "job": job, "outcome": asdict(outcome)}


def site_lost_event(
    site: str, now: int, found: Sequence[EdgeReplanned], torn: set[str]
) -> EventRecord:
    """A site is gone from slot `now` on, and its jobs have new plans."""
    replanned: list[dict[str, Any]] = [
        {
            "job": one.job.id,
            "torn": one.job.id in torn,
            "found": None if one.found is None else slots_json(one.found),
        }
        for one in found
    ]
    return {"type": "site_lost", "site": site, "now": now, "replanned": replanned}
