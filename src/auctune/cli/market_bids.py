"""The bids of a market file, sent to a service as they arrive.

A market file counts slots from 0, and a bid that arrives in slot a may run in it. A service sells
from the next slot on. So the file's slot 0 is the service's next slot; a bid that arrives in slot a
is sent a slots from now, and its deadline d is the end of the service's slot now + 1 + d.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from auctune.cli.work_options import send
from auctune.client import Terms, Work
from auctune.client.work import SETTINGS
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.client import Client, Job
    from auctune.run.market.market_file import BidEntry, MarketFile

# A slot that is nearly over leaves no time to send what arrives in it.
_ENOUGH = 0.5
# Seconds: a deadline is met by the slot that ends at it, whatever became of its last digits.
_GRACE = 0.001
_LOOK_SECONDS = 60.0
# Waits of so many seconds and more are told.
_TELL_SECONDS = 10.0


def market_bids(
    market: "MarketFile", folder: Path, client: "Client", model: str | None, zone: str | None
) -> "Iterator[tuple[str, Job | InputError]]":
    """Send bids in the order in which they arrive; their names, and jobs as they were decided.

    A bid that the service does not take leaves the others as they are.

    Args:
        market: the file.
        folder: that its paths start from.
        client: of the service.
        model, zone: as of `Terms`; the file's own base and nodes do not count.

    Raises:
        InputError: if a file cannot be read.
    """
    chosen = client.zone(zone, model)
    base, zone = model or chosen["model"], chosen["id"]
    files: dict[str, str] = {}
    for bid in market.bids:
        for name in (bid.data, bid.validation):
            if name is not None and name not in files:
                files[name] = send(str(folder / name), client)
    _await_files(client, files)
    start = _beginning(client, zone)
    for bid in sorted(market.bids, key=lambda bid: bid.arrival):
        now = _await_slot(client, zone, start + bid.arrival, bid)
        left = start + 1 + bid.deadline - now["slot"]
        end = now["slot_ends_at"] + left * now["slot_seconds"] + _GRACE
        deadline = datetime.fromtimestamp(end, UTC).isoformat()
        terms = Terms(base, zone, str(bid.bid), deadline)
        try:
            yield bid.id, client.submit(_work(bid, files), terms)
        except InputError as error:
            yield bid.id, error


def _await_files(client: "Client", files: dict[str, str]) -> None:
    """Give the service time to look at uploads: their bids are then decided at once."""
    end = time.monotonic() + _LOOK_SECONDS
    for file in files.values():
        while not client.is_looked_at(file) and time.monotonic() < end:
            time.sleep(0.1)


def _work(bid: "BidEntry", files: dict[str, str]) -> Work:
    settings = {name: getattr(bid, name) for name in SETTINGS}
    settings["target_modules"] = list(bid.target_modules)
    validation = None if bid.validation is None else files[bid.validation]
    return Work(files[bid.data], validation, settings, bid.repair, bid.id)


def _beginning(client: "Client", zone: str) -> int:
    """The slot that the file's bids are counted from: this one, or the next if it is half over."""
    now = client.zone(zone)
    has_time = now["slot_ends_at"] - time.time() > _ENOUGH * now["slot_seconds"]
    return int(now["slot"]) + (0 if has_time else 1)


def _await_slot(client: "Client", zone: str, slot: int, bid: "BidEntry") -> dict[str, Any]:
    """The zone, once a slot has begun there."""
    now = client.zone(zone)
    if (left := _seconds_to(slot, now)) > _TELL_SECONDS:
        typer.echo(f"{bid.id} arrives in {left:.0f} s", err=True)
    while now["slot"] < slot:
        # Its clock need not be ours, so that it is asked again before the slot is believed.
        time.sleep(min(max(_seconds_to(slot, now), 0.05), now["slot_seconds"]))
        now = client.zone(zone)
    return now


def _seconds_to(slot: int, now: dict[str, Any]) -> float:
    between = (slot - now["slot"] - 1) * now["slot_seconds"]
    return float(now["slot_ends_at"] + between - time.time())
