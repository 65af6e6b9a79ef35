"""One bundle from its order to its report, new or resumed."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np

from auctune.atomic_files import commit_folder, staging_folder
from auctune.domain import InputError
from auctune.run.event_log import EventLog, EventRecord
from auctune.run.timeshare.failures import named_failures
from auctune.run.timeshare.folder import PoolFolder
from auctune.run.timeshare.keeping import Keeping, bring_back
from auctune.run.timeshare.listener import PoolListener, SilentListener
from auctune.run.timeshare.order import PoolOrder
from auctune.run.timeshare.pace import CountedPace, Pace, WallPace
from auctune.run.timeshare.pool import Pool, check_room
from auctune.run.timeshare.report import PoolReport, make_report, write_report
from auctune.run.timeshare.runner import Parts, Runner
from auctune.run.timeshare.state import VERSION, PoolState
from auctune.train.preemptible import PreemptibleJob
from auctune.train.reproducible import deterministic, prepare_deterministic

# Batches of a thread before the first unit: to warm up, and timed. They are taken back.
WARM_UP, TIMED = 2, 5


def nothing() -> None:
    """There is nothing to prepare."""


def run_pool(
    order: PoolOrder,
    folder: Path,
    *,
    listener: PoolListener | None = None,
    resume: bool = False,
    saved_every: float = 30.0,
    prepare: Callable[[], object] = nothing,
) -> PoolReport:
    """Run a bundle.

    Args:
        order: what is run.
        folder: of the run (auctune.run.timeshare.folder); new or empty, unless it is resumed.
        listener: told of everything.
        resume: go on with the run in `folder`.
        saved_every: seconds between checkpoints of a thread.
        prepare: called when the folder is this run's, before the threads are made.

    Raises:
        InputError: if the folder holds a run already, or none to go on with, or another one; if
            a thread cannot be made, or is too large for the pool.
        ThreadFailedError: if the code of a thread ends with an error of its own.
        InfeasibleSharesError: if the allocator gives away what there is not.
    """
    place = PoolFolder(folder)
    prepare_deterministic()
    with place.open(resume=resume):
        prepare()
        with closing(EventLog(place.event_log)) as journal:
            _check_same(journal, order)
            state = PoolState.fold(order.learning, journal.events)
            if state.ended is None:
                with deterministic(threads=order.cpu_threads):
                    _run(order, place, journal, state, listener or SilentListener(), saved_every)
            report = make_report(state)
            write_report(report, place)
            return report


def _check_same(journal: EventLog, order: PoolOrder) -> None:
    """Make sure that what goes on is what was begun.

    Raises:
        InputError: naming what differs.
    """
    for name, value in _lasting(order).items():
        begun = journal.events[0].get(name) if journal.events else value
        if begun != value:
            raise InputError(name, f"{value!r}", f"{begun!r}, with which the run began")


def _lasting(order: PoolOrder) -> Mapping[str, object]:
    """What a run is known by."""
    return {
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


def _run(
    order: PoolOrder,
    place: PoolFolder,
    journal: EventLog,
    state: PoolState,
    listener: PoolListener,
    saved_every: float,
) -> None:
    threads = _make_threads(order, place, journal, state, listener)
    names = [thread.id for thread in order.learning]
    pool = Pool(threads, names, state.memory, order.memory_bytes)
    folders = [place.checkpoints(number) for number in range(len(threads))]

    def finished(thread: int) -> None:
        hand_out(threads[thread], place.result(names[thread]))

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
    journal: EventLog,
    state: PoolState,
    listener: PoolListener,
) -> list[PreemptibleJob]:
    """All threads, measured if they have not been, and brought to where the journal says."""
    threads: list[PreemptibleJob] = []
    measured: list[tuple[float, int]] = []
    for index, wanted in enumerate(order.threads):
        name = wanted.learning.id
        with named_failures(name, "while it was made"):
            thread = wanted.make()
            if not state.memory:
                measured.append(measure(thread, order.unit_seconds, wanted.batches_per_unit))
            units = [
                (int(unit.batches[index]), float(unit.losses[index]))
                for unit in state.units
                if unit.batches[index] > 0
            ]
            if note := bring_back(thread, place.checkpoints(index), units):
                _note(f"{name}: {note}", journal, state, listener)
            if order.memory_bytes is not None:
                thread.suspend()
        threads.append(thread)
    if not state.memory:
        _put_on_record(order, journal, state, measured)
    for wanted, thread in zip(order.threads, threads, strict=True):
        for note in getattr(thread, "notes", ()):
            text = f"{wanted.learning.id}: {note}"
            if text not in state.notes:
                _note(text, journal, state, listener)
    return threads


def _note(text: str, journal: EventLog, state: PoolState, listener: PoolListener) -> None:
    event = {"type": "noted", "text": text}
    journal.append(event)
    state.apply(event)
    listener.noted(text)


def _put_on_record(
    order: PoolOrder, journal: EventLog, state: PoolState, measured: list[tuple[float, int]]
) -> None:
    """The first events: only now is it known that all threads can be made and fit."""
    sizes = [size for _, size in measured]
    check_room([thread.id for thread in order.learning], sizes, order.memory_bytes)
    rates = [rate for rate, _ in measured]
    events: list[EventRecord] = [{"type": "measured", "rates": rates, "memory": sizes}]
    if not journal.events:
        events.insert(0, {"type": "begun", **_lasting(order)})
    for event in events:
        journal.append(event)
        state.apply(event)


def measure(
    thread: PreemptibleJob, unit_seconds: float | None, stated: float | None
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


def hand_out(thread: PreemptibleJob, folder: Path) -> None:
    """Write what a thread has learned, whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with staging_folder(folder) as draft:
        with named_failures(folder.name, "while its result was written"):
            thread.save_result(draft)
        commit_folder(draft, folder)
