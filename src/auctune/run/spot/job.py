"""One job from its order to its adapter and its bill, new or resumed."""

from collections.abc import Callable, Mapping
from contextlib import closing
from math import inf
from pathlib import Path

from auctune.atomic_files import clean_temp_files
from auctune.domain import InputError
from auctune.run.event_log import EventLog
from auctune.run.spot.clock import SlotClock
from auctune.run.spot.coordinator import Coordinator
from auctune.run.spot.crew import Crew
from auctune.run.spot.folder import SpotFolder
from auctune.run.spot.foresight import Foresee, NoForesight
from auctune.run.spot.listener import SilentListener, SpotListener
from auctune.run.spot.order import SpotOrder
from auctune.run.spot.parts import Parts, never
from auctune.run.spot.provider import Supply
from auctune.run.spot.report import SpotRunReport, make_report, write_bill
from auctune.run.spot.state import VERSION, SpotRunState
from auctune.run.spot.worker import WorkerSettings
from auctune.spot.policy import Policy
from auctune.train.base import load_base
from auctune.train.data_parallel.trainer import ElasticTrainer

# Gradients are summed and adapters written on the CPU: the coordinator may be on a head without a
# GPU, and would keep one busy with a base that it hardly uses. Workers check their own device.
_COORDINATOR_DEVICE = "cpu"

NO_FORESIGHT = NoForesight()

MakeClock = Callable[[int], SlotClock]
"""Rows of the whole workload -> the clock of the run."""


def nothing() -> None:
    """There is nothing to prepare."""


def run_spot_job(
    order: SpotOrder,
    policy: Policy,
    supply: Supply,
    folder: Path,
    *,
    cache: Path,
    make_clock: MakeClock,
    foresee: Foresee = NO_FORESIGHT,
    listener: SpotListener | None = None,
    resume: bool = False,
    saved_every: float = 30.0,
    prepare: Callable[[], object] = nothing,
    cap: float = inf,
    is_stopped: Callable[[], bool] = never,
) -> SpotRunReport:
    """Run a job on instances that come and go.

    Args:
        order: the job.
        policy: what to hold.
        supply: who rents out instances.
        folder: of the run (auctune.run.spot.folder); new or empty, unless it is resumed.
        cache: folder of bases that are built here.
        make_clock: see `auctune.run.spot.clock`.
        foresee: makes the policy's forecasts; see `Foresight`.
        listener: told of everything.
        resume: go on with the run in `folder`.
        saved_every: seconds between checkpoints within a slot; there is one at each slot's end.
        prepare: called when the folder is this run's, before the order's data are read.
        cap: the most that may be paid, in the market's unit.
        is_stopped: asked again and again whether the run is to stop; it can be resumed.

    Raises:
        InputError: if the folder holds a run already, or none to go on with, or another one; if
            the order or the supply cannot be used.
        InfeasibleAllocationError: if the policy wants what may not be held.
        SpotRunError: if workers die again and again.
        CapReachedError: if what comes next would cost more than `cap`.
        StoppedError: if it was to stop.
    """
    place, listener = SpotFolder(folder), listener or SilentListener()
    supply.check(order.job)
    with place.open(resume=resume):
        prepare()
        with closing(EventLog(place.event_log)) as journal:
            trainer, base_digest = _begin(journal, place, order, policy, supply, cache)
            for warning in trainer.loaded.warnings:
                listener.noted(warning)
            for note in trainer.loaded.notes:
                listener.data_noted(note)
            if SpotRunState.fold(journal.events).ended is None:
                with closing(supply.open(_worker_settings(order, cache), place.log)) as provider:
                    parts = Parts(
                        job=order.job,
                        policy=policy,
                        foresee=foresee,
                        trainer=trainer,
                        crew=Crew(trainer, base_digest),
                        provider=provider,
                        clock=make_clock(trainer.total_rows),
                        journal=journal,
                        listener=listener,
                        saved_every=saved_every,
                        cap=cap,
                        is_stopped=is_stopped,
                    )
                    _finish(Coordinator(parts), trainer, place)
            return _report(journal, order, trainer, place)


def _begin(
    journal: EventLog,
    place: SpotFolder,
    order: SpotOrder,
    policy: Policy,
    supply: Supply,
    cache: Path,
) -> tuple[ElasticTrainer, str]:
    """Take up the training, and put on record what is run if nothing is.

    Returns:
        The trainer, and its base's digest.

    Raises:
        InputError: if something else was begun here.
    """
    lasting = {"version": VERSION, "policy": policy.name} | order.lasting() | supply.lasting()
    _check_same(journal, lasting)
    base = load_base(order.base, cache=cache, device=_COORDINATOR_DEVICE, dtype=order.dtype)
    trainer = ElasticTrainer(
        base,
        order.training,
        place.state,
        micro_batch=order.micro_batch,
        threads=order.threads,
    )
    digests = {"base_digest": base.digest, "data_digest": trainer.data_digest}
    _check_same(journal, digests)
    if not journal.events:
        _check_untrained(trainer, place)
        journal.append({"type": "begun", "time": 0.0, **lasting, **digests})
    return trainer, base.digest


def _finish(coordinator: Coordinator, trainer: ElasticTrainer, place: SpotFolder) -> None:
    """Run to the end, and hand out the adapter before the end is on record."""
    coordinator.run()
    if trainer.progress().state == "done":
        trainer.export(place.adapter)
    coordinator.end()


def _report(
    journal: EventLog, order: SpotOrder, trainer: ElasticTrainer, place: SpotFolder
) -> SpotRunReport:
    state = SpotRunState.fold(journal.events)
    report = make_report(state, order.job, trainer.total_rows, place.adapter)
    clean_temp_files(place.bill)
    write_bill(place.bill, state, order.job, report)
    return report


def _check_same(journal: EventLog, lasting: Mapping[str, object]) -> None:
    """Make sure that a run goes on with what it was begun with.

    Raises:
        InputError: naming what differs.
    """
    for name, value in lasting.items():
        for begun in journal.events[:1]:
            if begun.get(name) != value:
                expected = f"{begun.get(name)!r}, with which the run began"
                raise InputError(name, f"{value!r}", expected)


def _check_untrained(trainer: ElasticTrainer, place: SpotFolder) -> None:
    """Make sure that nothing was trained of which nobody knows what was paid for it.

    Raises:
        InputError: if there are checkpoints.
    """
    if trainer.rows:
        found = f"has no whole event beside checkpoints of {trainer.rows} rows"
        raise InputError(str(place.event_log), found, "the journal of the run, or a new folder")


def _worker_settings(order: SpotOrder, cache: Path) -> WorkerSettings:
    return WorkerSettings(
        base=order.base,
        cache=str(cache.resolve()),
        job=order.training,
        device=order.device,
        dtype=order.dtype,
        threads=order.threads,
    )
