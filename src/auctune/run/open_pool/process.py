"""The process of a standing pool as its owner holds it."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from auctune.run.child import ChildProcess, Hear
from auctune.run.child.process import device_in_child
from auctune.run.open_pool.messages import PoolSettings, want_message
from auctune.run.open_pool.wanted import WantedThread

WORKER = ("-m", "auctune.run.open_pool.worker")


class PoolProcess(ChildProcess):
    """A child process that runs a pool; it ends at once when its owner does.

    Args:
        settings: what it runs and how.
        hear, lock, log: as for any child process.
        program: arguments for the interpreter.
    """

    def __init__(
        self,
        settings: PoolSettings,
        hear: Hear,
        *,
        lock: int | None = None,
        log: Path | None = None,
        program: Sequence[str] = WORKER,
    ) -> None:
        device = settings.device
        seen = replace(settings, device=device_in_child(device, os.environ))
        super().__init__(program, asdict(seen), hear, lock=lock, log=log, device=device)

    def want(self, threads: Iterable[WantedThread], seq: int) -> None:
        """Send the list of all wanted threads.

        Args:
            threads: all of them.
            seq: comes back in `followed` once the pool trains no others.
        """
        self.tell(want_message(threads, seq))
