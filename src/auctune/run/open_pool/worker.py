"""The process of a standing pool: loads the base once, then trains units until it is told to stop.

It speaks the protocol of auctune.run.open_pool.messages. Its journal is the truth of what was
trained: what its owner has not heard of it is told again.
"""

import json
import queue
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from auctune.domain import AuctuneError
from auctune.run.child.messages import error_record
from auctune.run.child.parent import Parent
from auctune.run.event_log import EventLog, EventRecord
from auctune.run.open_pool.folder import OpenPoolFolder
from auctune.run.open_pool.lora_shop import LoraShop
from auctune.run.open_pool.messages import PoolSettings, read_want
from auctune.run.open_pool.open_pool import OpenPool
from auctune.run.open_pool.pace import SlotPace
from auctune.run.open_pool.pool_params import MAX_STEP_UNITS, OpenPoolParams
from auctune.run.open_pool.wanted import Wanted
from auctune.run.timeshare.foresight import ThreadView
from auctune.timeshare.estimators.mixture import Mixture
from auctune.timeshare.named import make_allocator
from auctune.timeshare.play import play
from auctune.timeshare.thread import LearningThread, LossCurve
from auctune.train.base import load_base
from auctune.train.preemptible import LoraJobFactory
from auctune.train.reproducible import deterministic, prepare_deterministic
from auctune.train.tiny import tiny_folder

# So often is looked for deadlines that pass while nobody learns.
_IDLE_SECONDS = 1.0


class PoolWorker:
    """One pool at work for its owner.

    Args:
        settings: what it runs and how.
        parent: the owner.
    """

    def __init__(self, settings: PoolSettings, parent: Parent) -> None:
        self._settings, self._parent = settings, parent
        cache = Path(settings.cache)
        prepare_deterministic()
        if settings.base == "tiny":
            what = "building the tiny base (once on this machine)"
            tiny_folder(
                cache, progress=lambda share: parent.say("preparing", what=what, share=share)
            )
        base = load_base(settings.base, cache=cache, device=settings.device, dtype=settings.dtype)
        self._digest = base.digest
        pool = LoraJobFactory(base, MAX_STEP_UNITS * settings.unit_seconds)
        self._shop = LoraShop(pool, Path(settings.folder))

    def run(self) -> None:
        """Until it is told to stop.

        Raises:
            InputError: if another process has its folder, or its journal is damaged.
            ThreadFailedError: if the code of a thread fails: it has left, and the pool is to be
                taken up again.
        """
        settings, place = self._settings, OpenPoolFolder(Path(self._settings.folder))
        with (
            place.open(resume=place.has_started),
            closing(EventLog(place.event_log)) as journal,
            deterministic(threads=settings.threads),
        ):
            params = _params(settings)
            _load_kernels(params)
            self._parent.say("ready", base_digest=self._digest)
            for number, event in enumerate(journal.events, start=1):
                if number > settings.after:
                    self._tell(number, event, ())
            pace = SlotPace(settings.epoch, settings.unit_seconds, self._parent.stop)
            pool = OpenPool(params, self._shop, pace, place, journal, self._tell)
            pool.take_up()
            self._train(pool)

    def _train(self, pool: OpenPool) -> None:
        newest, followed = None, None
        while newest is None and not self._parent.stop.is_set():
            newest = self._newest(_IDLE_SECONDS)
        while newest is not None and not self._parent.stop.is_set():
            wanted, seq = newest
            is_complete = pool.follow(wanted)
            if seq != followed:
                self._parent.say("followed", seq=seq)
                followed = seq
            has_trained = pool.run_unit()
            idle_seconds = 0.0 if has_trained or not is_complete else _IDLE_SECONDS
            newest = self._newest(idle_seconds) or newest

    def _newest(self, seconds: float) -> tuple[Wanted, int] | None:
        """Return the newest `want` message, or None if none came within so many seconds."""
        found: tuple[Wanted, int] | None = None
        try:
            while True:
                message = self._parent.orders.get(block=seconds > 0, timeout=seconds)
                if message["do"] == "want":
                    found = read_want(message)
                seconds = 0.0
        except queue.Empty:
            return found

    def _tell(self, number: int, event: EventRecord, views: Sequence[ThreadView]) -> None:
        told = {view.name: {"finish": view.finish, "verdict": view.verdict} for view in views}
        self._parent.say("event", number=number, event=event, views=told)


def _params(settings: PoolSettings) -> OpenPoolParams:
    return OpenPoolParams(
        allocator=make_allocator(settings.allocator),
        estimator=Mixture(),
        unit_seconds=settings.unit_seconds,
        memory_bytes=settings.memory_bytes,
        cpu_threads=settings.threads,
    )


def _load_kernels(params: OpenPoolParams) -> None:
    """Have what allocates and foretells compiled now, and not in the first threads' time."""
    curve = LossCurve(np.array([1.0, 500.0]), np.array([9.0, 0.5]))
    threads = [LearningThread(name, 0, 30, 0.6) for name in ("one", "other")]
    play(params.allocator, threads, [curve] * 2, [8.0] * 2)
    bank = params.estimator.start_bank(1)
    bank.observe(np.array([8.0]), np.array([2.0]), np.array([True]))
    bank.needs(np.array([1.0]))


def main() -> None:
    """Start a pool's process; its settings are the only argument, as JSON."""
    parent = Parent()
    try:
        PoolWorker(PoolSettings(**json.loads(sys.argv[1])), parent).run()
    except AuctuneError as error:
        parent.say("failed", **error_record(error))
        parent.leave(1)
    parent.leave()


if __name__ == "__main__":
    main()
