"""One bundle from its order to its report, new or resumed."""

import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import numpy as np

from auctune.domain import InputError
from auctune.run.journal import Journal
from auctune.run.lock import hold
from auctune.run.timeshare.folder import PoolFolder
from auctune.run.timeshare.keeping import Keeping, bring_back
from auctune.run.timeshare.listener import PoolListener, SilentListener
from auctune.run.timeshare.order import PoolOrder
from auctune.run.timeshare.pace import CountedPace, Pace, WallPace
from auctune.run.timeshare.pool import Pool
from auctune.run.timeshare.report import PoolReport, make_report, write_report
from auctune.run.timeshare.runner import Parts, Runner
from auctune.run.timeshare.state import VERSION, PoolState
from auctune.train.deterministic import deterministic, prepare_deterministic
from auctune.train.folders import put_in_place, unfinished_folder
from auctune.train.timeshare.thread import TrainingThread

# Batches of a thread before the first unit: to warm up, and timed. They are taken back.
WARM_UP, TIMED = 2, 5


def run_pool(
    order: PoolOrder,
    folder: Path,
    *,
    listener: PoolListener | None = None,
    resume: bool = False,
    saved_every: float = 30.0,
) -> PoolReport:
    """Run a bundle.

    Args:
        order: what is run.
        folder: of the run (auctune.run.timeshare.folder); new or empty, unless it is resumed.
        listener: told of everything.
        resume: go on with the run in `folder`.
        saved_every: seconds between checkpoints of a thread.

    Raises:
        InputError: if the folder holds a run already, or none to go on with, or another one; if
            a thread cannot be made, or is too large for the pool.
        InfeasibleSharesError: if the allocator gives away what there is not.
    """
    place = PoolFolder(folder)
    check_folder(place, resume=resume)
    place.work.mkdir(parents=True, exist_ok=True)
    prepare_deterministic()
    with hold(place.lock, str(folder)), closing(Journal(place.journal)) as journal:
        _begin(journal, order)
        state = PoolState.fold(order.learning, journal.events)
        if state.ended is None:
            with deterministic(threads=order.cpu_threads):
                _run(order, place, journal, state, listener or SilentListener(), saved_every)
        report = make_report(state)
        write_report(report, place)
        return report


def check_folder(place: PoolFolder, *, resume: bool) -> None:
    """Refuse a folder that a run cannot begin in, or go on in.

    Raises:
        InputError: naming the folder.
    """
    begun = place.journal.exists() and place.journal.stat().st_size > 0
    if resume and not begun:
        raise InputError(str(place.root), "holds no run", "the folder of a run that was begun")
    # A run that did not get as far as its first event has left no more than these.
    left = {place.work, place.lock, place.inputs}
    if not resume and (begun or (place.root.exists() and {*place.root.iterdir()} - left)):
        raise InputError(str(place.root), "is not empty", "a new folder, or to resume its run")


def _begin(journal: Journal, order: PoolOrder) -> None:
    """Put on record what is run, or make sure that it is what was begun.

    Raises:
        InputError: naming what differs.
    """
    lasting: Mapping[str, object] = {
        "version": VERSION,
        "allocator": order.allocator.name,
        "unit_seconds": order.unit_seconds,
        "threads": [
            thread.lasting
            | {
                "id": thread.learning.id,
                "start": thread.learning.start,
                "deadline": thread.learning.deadline,
                "threshold": thread.learning.threshold,
            }
            for thread in order.threads
        ],
    }
    if not journal.events:
        journal.append({"type": "begun", **lasting})
    for name, value in lasting.items():
        begun = journal.events[0].get(name)
        if begun != value:
            raise InputError(name, f"{value!r}", f"{begun!r}, with which the run began")


def _run(
    order: PoolOrder,
    place: PoolFolder,
    journal: Journal,
    state: PoolState,
    listener: PoolListener,
    saved_every: float,
) -> None:
    threads = _make_threads(order, place, journal, state, listener)
    names = [thread.id for thread in order.learning]
    pool = Pool(threads, names, state.memory, order.memory_bytes)
    folders = [place.checkpoints(number) for number in range(len(threads))]

    def finished(thread: int) -> None:
        _hand_out(threads[thread], place.result(names[thread]))

    for thread in np.flatnonzero(state.done).tolist():
        # A run that was killed in between had it on record, but had not handed it out.
        if not place.result(names[thread]).exists():
            pool.enter(thread, ())
            finished(thread)
    parts = Parts(
        order=order,
        threads=threads,
        state=state,
        journal=journal,
        pool=pool,
        keeping=Keeping(threads, folders, saved_every),
        pace=_make_pace(order),
        listener=listener,
        finished=finished,
    )
    Runner(parts).run()
    switching = pool.switching
    event = {
        "type": "ended",
        "moment": parts.pace.moment(),
        "suspended": switching.suspended,
        "resumed": switching.resumed,
        "switch_seconds": switching.seconds,
        "most_bytes": pool.most_bytes,
    }
    journal.append(event)
    state.apply(event)


def _make_pace(order: PoolOrder) -> Pace:
    return CountedPace() if order.unit_seconds is None else WallPace(order.unit_seconds)


def _make_threads(
    order: PoolOrder,
    place: PoolFolder,
    journal: Journal,
    state: PoolState,
    listener: PoolListener,
) -> list[TrainingThread]:
    """All threads, measured if they have not been, and brought to where the journal says."""
    threads: list[TrainingThread] = []
    measured: list[tuple[float, int]] = []
    for index, wanted in enumerate(order.threads):
        thread = wanted.make()
        if not state.memory:
            measured.append(_measure(thread, order.unit_seconds, wanted.batches_per_unit))
        units = [
            (int(unit.batches[index]), float(unit.losses[index]))
            for unit in state.units
            if unit.batches[index] > 0
        ]
        if note := bring_back(thread, place.checkpoints(index), units):
            listener.noted(f"{wanted.learning.id}: {note}")
        if order.memory_bytes is not None:
            thread.suspend()
        threads.append(thread)
    if not state.memory:
        event = {
            "type": "measured",
            "rates": [rate for rate, _ in measured],
            "memory": [size for _, size in measured],
        }
        journal.append(event)
        state.apply(event)
    return threads


def _measure(
    thread: TrainingThread, unit_seconds: float | None, stated: float | None
) -> tuple[float, int]:
    """N and the memory of a new thread, which is as new afterwards."""
    before = thread.state()
    thread.step(WARM_UP)
    begun = time.perf_counter()
    thread.step(TIMED)
    seconds = time.perf_counter() - begun
    memory = thread.memory_bytes
    thread.restore(before)
    if stated is not None:
        return stated, memory
    assert unit_seconds is not None
    return TIMED * unit_seconds / seconds, memory


def _hand_out(thread: TrainingThread, folder: Path) -> None:
    """Write what a thread has learned, whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with unfinished_folder(folder) as draft:
        thread.save_result(draft)
        put_in_place(draft, folder)
