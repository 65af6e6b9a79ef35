"""What readers see of an auction's jobs: the market's part of them, and how they are told of."""

from collections.abc import Mapping
from typing import Any

from auctune.service.zones import fixed_price
from auctune.service.zones.auction.event import AuctionKind
from auctune.service.zones.auction.job_rows import ROWS
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.event import Kind
from auctune.service.zones.job_row import JobRow
from auctune.service.zones.market_part import market_part
from auctune.service.zones.told import COMMON, Told

Shown = dict[str, Any]


class AuctionViews:
    """Of all auctions."""

    @property
    def messages(self) -> Mapping[str, Told]:
        """How events are told to a job's owner, by kind."""
        return _TOLD

    def market(self, row: JobRow, clock: SlotClock) -> Shown:
        """The market's part of a job."""
        body, task = row.body, row.body["task"]
        return {
            **market_part(row),
            **fixed_price.price_part(row, clock),
            "bid": task["bid"] if task else body["request"]["bid"],
            "plan": _plan(body, clock),
        }

    def finish(self, row: JobRow, clock: SlotClock) -> float | None:
        """When the last cell of its plan ends."""
        cells = row.body["cells"]
        return clock.slot_end(cells[-1]["slot"]) if cells else None


def _plan(body: Shown, clock: SlotClock) -> Shown | None:
    cells, decision = body["cells"], body["decision"]
    if not cells or decision is None or decision["schedule"] is None:
        return None
    return {
        "cells": [{**cell, "begins_at": clock.slot_start(cell["slot"])} for cell in cells],
        "vendor": body["vendor"],
        "start": clock.slot_start(cells[0]["slot"]),
        "finish": clock.slot_end(cells[-1]["slot"]),
    }


def _decided(body: Mapping[str, Any]) -> str:
    return fixed_price.told(body, ROWS.rejection_reason)


def _repaired(body: Mapping[str, Any]) -> str:
    return f"The data were repaired; {body['size']['rows']} rows remain"


def _vendor_changed(body: Mapping[str, Any]) -> str:
    return f"{body['why']}; {body['repair']['vendor']} does it instead, at no charge"


_TOLD: Mapping[str, Told] = {
    **COMMON,
    Kind.DECIDED: Told(_decided),
    AuctionKind.REPAIRED: Told(_repaired),
    AuctionKind.VENDOR_CHANGED: Told(_vendor_changed, "warn"),
    AuctionKind.REPLANNED: Told(fixed_price.told_replanned, "warn"),
}
