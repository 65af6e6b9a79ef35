"""What readers see of an auction's jobs: the market's part of them, and how they are told of."""

from collections.abc import Mapping
from typing import Any

from auctune.service.zones.auction.event import AuctionKind
from auctune.service.zones.auction.job_rows import why_rejected
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.event import Kind
from auctune.service.zones.fixed_price import least_bid
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.told import COMMON, Told

Shown = dict[str, Any]


class AuctionViews:
    """Of all auctions."""

    @property
    def told(self) -> Mapping[str, Told]:
        """How events are told to a job's owner, by kind."""
        return _TOLD

    def market(self, row: JobRow, clock: SlotClock) -> Shown:
        """The market's part of a job."""
        return _market(row, row.body, clock)

    def finish(self, row: JobRow, clock: SlotClock) -> float | None:
        """When the last cell of its plan ends."""
        cells = row.body["cells"]
        return clock.ends(cells[-1]["slot"]) if cells else None


def _market(row: JobRow, body: Shown, clock: SlotClock) -> Shown:
    decision, task, training = body["decision"], body["task"], body["training"]
    admitted = decision is not None and decision["admitted"]
    reason = None if decision is None else decision["reason"]
    earliest, left = body.get("earliest"), body.get("budget_left")
    return {
        "zone": row.zone,
        "state": body["state"],
        "decision": None if decision is None else ("admitted" if admitted else "rejected"),
        "reason": reason,
        "bid": task["bid"] if task else body["request"]["bid"],
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
        "lora": {
            name: training[name]
            for name in ("rank", "alpha", "dropout", "target_modules", "learning_rate")
        },
    }


def _plan(body: Shown, clock: SlotClock) -> Shown | None:
    cells, decision = body["cells"], body["decision"]
    if not cells or decision is None or decision["schedule"] is None:
        return None
    return {
        "cells": [{**cell, "begins_at": clock.begins(cell["slot"])} for cell in cells],
        "vendor": body["vendor"],
        "start": clock.begins(cells[0]["slot"]),
        "finish": clock.ends(cells[-1]["slot"]),
    }


def _decided(body: Mapping[str, Any]) -> str:
    decision = body["decision"]
    if decision["admitted"]:
        return f"Admitted for {decision['payment']}"
    least = least_bid(decision)
    why = f"Rejected ({decision['reason']}): {why_rejected(body)}"
    return why + (f"; {least} would do" if least else "")


def _repaired(body: Mapping[str, Any]) -> str:
    return f"The data were repaired; {body['size']['rows']} rows remain"


def _vendor_changed(body: Mapping[str, Any]) -> str:
    return f"{body['why']}; {body['repair']['vendor']} does it instead, at no charge"


def _replanned(body: Mapping[str, Any]) -> str:
    return f"Planned anew, at the price that was agreed: {body['why']}"


_TOLD: Mapping[str, Told] = {
    **COMMON,
    Kind.DECIDED: Told(_decided),
    AuctionKind.REPAIRED: Told(_repaired),
    AuctionKind.VENDOR_CHANGED: Told(_vendor_changed, "warn"),
    AuctionKind.REPLANNED: Told(_replanned, "warn"),
}
