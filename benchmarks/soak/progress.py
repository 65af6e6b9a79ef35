"""A line every few seconds: what is left, what was done, what broke, how jobs stand."""

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from soak.client import Client
from soak.log import jobs_by_status, num_events
from soak.stage import Stage

_EVERY_SECONDS = 15.0


class Progress(threading.Thread):
    """Tells how it goes until it is over.

    Args:
        stage: that is soaked.
        clients: that bid.
        data: folder of the service.
        until: when no more is asked for, by the monotonic clock.
    """

    def __init__(self, stage: Stage, clients: Sequence[Client], data: Path, until: float) -> None:
        super().__init__(daemon=True)
        self._stage = stage
        self._clients = clients
        self._data = data
        self._until = until
        self._newest = ""
        self._told: set[str] = set()
        self._done = threading.Event()

    def run(self) -> None:
        """See `threading.Thread`."""
        while not self._done.wait(_EVERY_SECONDS):
            self._tell()

    def note(self, fault: str) -> None:
        """Something breaks."""
        self._newest = f", last: {fault} {time.strftime('%H:%M:%S')}"

    def close(self) -> None:
        """Tell a last time."""
        self._done.set()
        self.join()
        self._tell()

    def _tell(self) -> None:
        left = max(0, round(self._until - time.monotonic()))
        sent = sum(len(client.diary.requests) for client in self._clients)
        known = sum(len(client.diary.jobs) for client in self._clients)
        wrong = [one for client in self._clients for one in client.diary.wrong] + self._stage.wrong
        for one in [one for one in wrong if one not in self._told]:
            self._told.add(one)
            print(f"WRONG: {one[:400]}", file=sys.stderr)
        parts = (
            f"{left // 60:02d}:{left % 60:02d} left",
            f"{sent} requests, {known} jobs, {num_events(self._data)} events",
            f"{self._stage.struck.total()} faults{self._newest}",
            " ".join(f"{n} {name}" for name, n in sorted(jobs_by_status(self._data).items())),
            *([f"{len(wrong)} WRONG"] if wrong else []),
        )
        print(" | ".join(parts), file=sys.stderr, flush=True)
