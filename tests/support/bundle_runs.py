"""Runs of bundles that no file describes, and what their reports say of them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from auctune.engine.pool.bundle import Bundle
from auctune.engine.pool.events import JobOutlook, OnEvent, PoolEvent
from auctune.engine.pool.report import Figures
from auctune.service.storage import EventLog, open_readonly
from auctune.service.storage.event_log import ZoneEvent
from auctune.service.zones.core.snapshots import read_event
from auctune.standalone import timeshare
from auctune.standalone.timeshare import ZONE, BundleFolder
from auctune.timeshare.allocator import BundleOutcome, count_switches


def ignore(event: PoolEvent, outlooks: Sequence[JobOutlook]) -> None:
    """Ignore an event."""


def run_bundle(bundle: Bundle, folder: Path, on_event: OnEvent = ignore) -> Figures:
    """Run a bundle into a new folder; return its report."""
    file = folder.parent / f"{folder.name}.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return timeshare.run_bundle(bundle, file, BundleFolder(folder), on_event)


def resume_bundle(bundle: Bundle, folder: Path, on_event: OnEvent = ignore) -> Figures:
    """Resume the run of a bundle; return its report."""
    return timeshare.resume_bundle(BundleFolder(folder), lambda *_: bundle, on_event)


def outcome_of(figures: Figures) -> BundleOutcome:
    """Return the outcome of a run as simulations return it."""
    threads = figures["threads"]

    def column(name: str) -> np.ndarray:
        rows = [[unit[name] for unit in thread["losses"]] for thread in threads]
        return np.array(rows, dtype=np.float64).T

    return BundleOutcome(
        done=np.array([thread["done"] for thread in threads]),
        finish=np.array([thread["finish"] if thread["done"] else np.inf for thread in threads]),
        samples=np.array([thread["batches"] for thread in threads], dtype=np.float64),
        shares=column("share"),
        losses=column("loss"),
        switches=count_switches(column("batches") > 0),
    )


def read_log(folder: Path) -> list[ZoneEvent]:
    """Return the events of a run."""
    with open_readonly(BundleFolder(folder).state) as reader:
        return [*map(read_event, EventLog(reader).read_zone(ZONE))]
