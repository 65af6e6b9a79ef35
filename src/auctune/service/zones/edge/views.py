"""What readers see of edge jobs: the market's part of them, and how they are told of."""

from collections.abc import Mapping
from typing import Any

from auctune.service.zones.clock import SlotClock
from auctune.service.zones.edge.event import EdgeKind
from auctune.service.zones.edge.job_rows import why_rejected
from auctune.service.zones.event import Kind
from auctune.service.zones.fixed_price import least_bid
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.told import COMMON, Told

Shown = dict[str, Any]


class EdgeViews:
    """Of all edge zones."""

    @property
    def told(self) -> Mapping[str, Told]:
        """How events are told to a job's owner, by kind."""
        return _TOLD

    def market(self, row: JobRow, clock: SlotClock) -> Shown:
        """The market's part of a job."""
        body = row.body
        decision, training = body["decision"], body["training"]
        admitted = decision is not None and decision["admitted"]
        earliest, left = body["earliest"], body["budget_left"]
        return {
            "zone": row.zone,
            "state": body["state"],
            "decision": None if decision is None else ("admitted" if admitted else "rejected"),
            "reason": None if decision is None else decision["reason"],
            "bid": body["request"]["bid"],
            "payment": decision["payment"] if admitted else None,
            "least_bid": least_bid(decision),
            "price": None if left is None else decision["price"],
            "budget_left": left,
            "deadline": body["request"]["deadline"],
            "earliest_deadline": None if earliest is None else clock.ends(earliest),
            "refunded": body["refunded"],
            "plan": _plan(body, clock),
            "progress": body["progress"],
            "notes": body["notes"],
            "lora": {name: training[name] for name in ("learning_rate", "weight_decay")},
            "edge": _edge(body, clock),
        }

    def finish(self, row: JobRow, clock: SlotClock) -> float | None:
        """When the last slot of its plan ends."""
        plan = row.body["plan"]
        return clock.ends(plan[-1]["slot"]) if plan else None


def _plan(body: Shown, clock: SlotClock) -> Shown | None:
    """A cell for each site that has workers in a slot."""
    slots = body["plan"]
    if not slots:
        return None
    cells = [
        {"slot": part["slot"], "node": site, "begins_at": clock.begins(part["slot"])}
        for part in slots
        for site, workers in part["workers"].items()
        if workers
    ]
    return {
        "cells": cells,
        "vendor": None,
        "start": clock.begins(slots[0]["slot"]),
        "finish": clock.ends(slots[-1]["slot"]),
    }


def _edge(body: Shown, clock: SlotClock) -> Shown | None:
    facts = body["facts"]
    if facts is None:
        return None
    return {
        "samples": facts["samples"],
        "sites": body["request"]["sites"],
        "slots": [
            {
                **part,
                "begins_at": clock.begins(part["slot"]),
                "trained": part["slot"] in body["trained"],
            }
            for part in body["plan"]
        ],
        "torn": body["torn"],
        "crossed_mb": body["crossed_mb"],
    }


def _decided(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    if decision["admitted"]:
        return f"Admitted for {decision['payment']}"
    least = least_bid(dict(decision))
    why = f"Rejected ({decision['reason']}): {why_rejected(body)}"
    return why + (f"; {least} would do" if least else "")


def _replanned(body: Mapping[str, Any]) -> str:
    return f"Planned anew, at the price that was agreed: {body['why']}"


_TOLD: Mapping[str, Told] = {
    **COMMON,
    Kind.DECIDED: Told(_decided),
    Kind.FINISHED: Told(lambda _: "The model is ready"),
    EdgeKind.REPLANNED: Told(_replanned, "warn"),
}
