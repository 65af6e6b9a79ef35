"""What readers see of edge jobs: the market's part of them, and how they are told of."""

from collections.abc import Mapping
from typing import Any

from auctune.service.zones import fixed_price
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.edge.event import EdgeKind
from auctune.service.zones.edge.job_rows import ROWS
from auctune.service.zones.event import Kind
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.market_part import market_part
from auctune.service.zones.told import COMMON, Told

Shown = dict[str, Any]

_TRAINED_BY = ("learning_rate", "weight_decay")


class EdgeViews:
    """Of all edge zones."""

    @property
    def messages(self) -> Mapping[str, Told]:
        """How events are told to a job's owner, by kind."""
        return _TOLD

    def market(self, row: JobRow, clock: SlotClock) -> Shown:
        """The market's part of a job."""
        return {
            **market_part(row, _TRAINED_BY),
            **fixed_price.price_part(row, clock),
            "plan": _plan(row.body, clock),
            "edge": _edge(row.body, clock),
        }

    def finish(self, row: JobRow, clock: SlotClock) -> float | None:
        """When the last slot of its plan ends."""
        plan = row.body["plan"]
        return clock.slot_end(plan[-1]["slot"]) if plan else None


def _plan(body: Shown, clock: SlotClock) -> Shown | None:
    """A cell for each site that has workers in a slot."""
    slots = body["plan"]
    if not slots:
        return None
    cells = [
        {"slot": part["slot"], "node": site, "begins_at": clock.slot_start(part["slot"])}
        for part in slots
        for site, workers in part["workers"].items()
        if workers
    ]
    return {
        "cells": cells,
        "vendor": None,
        "start": clock.slot_start(slots[0]["slot"]),
        "finish": clock.slot_end(slots[-1]["slot"]),
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
                "begins_at": clock.slot_start(part["slot"]),
                "trained": part["slot"] in body["trained"],
            }
            for part in body["plan"]
        ],
        "torn": body["torn"],
        "crossed_mb": body["crossed_mb"],
    }


def _decided(body: Mapping[str, Any]) -> str:
    return fixed_price.told(body, ROWS.rejection_reason)


_TOLD: Mapping[str, Told] = {
    **COMMON,
    Kind.DECIDED: Told(_decided),
    Kind.FINISHED: Told(lambda _: "The model is ready"),
    EdgeKind.REPLANNED: Told(fixed_price.told_replanned, "warn"),
}
