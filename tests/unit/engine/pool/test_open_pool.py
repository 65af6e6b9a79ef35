"""A pool that threads join and leave is a bundle between the changes, and no kill changes it.

One of its threads cannot hold it up for the others, and pays for the time that it takes.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctune.engine.pool.bundle import Bundle
from auctune.engine.pool.clock import WallClock
from auctune.engine.pool.device import JobFailedError
from auctune.engine.pool.epoch import PoolParams
from auctune.engine.pool.events import (
    JobJoined,
    JobLeft,
    JobNoted,
    JobRejected,
    OpenPoolDirectory,
    PoolEvent,
    QuantumTrained,
)
from auctune.engine.pool.pool import DesiredJob, DesiredJobs, DesiredStatus, OpenPool
from auctune.engine.workers.pool_jobs import JobFactory, LoraJobs
from auctune.timeshare.balancing import Exploration
from auctune.timeshare.baselines import Uniform
from auctune.timeshare.estimators.wls import Wls
from auctune.timeshare.planner import Planner
from auctune.timeshare.rollout import Rollout
from auctune.train.preemptible import LoraJobFactory, StepTooLongError
from support.bundle_runs import outcome_of, run_bundle
from support.open_pools import LineFactory, Record, open_pool, play_pool
from support.pool_threads import ReadingLine, make_line, pool_thread
from support.small_bases import build_base, write_rows

LARA = Planner(balancing=Exploration(batches=12))
PARAMS = PoolParams(LARA, Wls(), saved_every=0.0)


def desired(
    name: str,
    seed: int,
    deadline: int,
    threshold: float,
    status: DesiredStatus = DesiredStatus.RUNNING,
) -> DesiredJob:
    return DesiredJob(name, deadline, threshold, {"seed": seed}, 10.0, status)


QUICK = desired("quick", 1, 12, 0.5)
SLOW = desired("slow", 2, 16, 0.05)
LATE = desired("late", 3, 18, 0.3)
HOPELESS = desired("hopeless", 4, 10, 1e-6)


def of(*jobs: DesiredJob) -> DesiredJobs:
    return {job.id: job for job in jobs}


def joining(unit: int) -> DesiredJobs:
    """One joins at unit 5, and nobody is sent off."""
    return of(QUICK, SLOW, HOPELESS, *([LATE] if unit >= 5 else []))


def moving(unit: int) -> DesiredJobs:
    """Threads come, rest, are ended and dropped."""
    paused = DesiredStatus.PAUSED if 3 <= unit < 7 else DesiredStatus.RUNNING
    stopped = DesiredStatus.STOPPED if unit >= 14 else DesiredStatus.RUNNING
    slow = desired("slow", 2, 16, 0.05, paused)
    late = [desired("late", 3, 18, 0.01, stopped)]
    return of(slow, *([QUICK] if unit < 4 else []), *(late if unit >= 2 else []))


def quanta(events: list[PoolEvent]) -> list[QuantumTrained]:
    return [event for event in events if isinstance(event, QuantumTrained)]


def endings(events: list[PoolEvent]) -> dict[str, str]:
    return {event.id: event.reason.value for event in events if isinstance(event, JobLeft)}


@pytest.mark.slow
@pytest.mark.parametrize("allocator", [LARA, Rollout()], ids=["lara", "rollout"])
def test_threads_that_join_are_a_bundle_with_later_starts(
    allocator: Planner, tmp_path: Path
) -> None:
    jobs = [
        pool_thread("quick", deadline=12, threshold=0.5, seed=1),
        pool_thread("slow", deadline=16, threshold=0.05, seed=2),
        pool_thread("hopeless", deadline=10, threshold=1e-6, seed=4),
        pool_thread("late", start=5, deadline=18, threshold=0.3, seed=3),
    ]
    names = [job.thread.id for job in jobs]
    params = PoolParams(allocator, Wls())
    bundle = outcome_of(run_bundle(Bundle(jobs, params), tmp_path / "bundle"))
    found = play_pool(params, tmp_path / "open", joining)
    assert len(quanta(found)) == len(bundle.shares)
    for quantum in quanta(found):
        places = [names.index(name) for name in quantum.jobs]
        assert np.allclose(bundle.shares[quantum.time][places], quantum.shares, atol=1e-12)
        losses = bundle.losses[quantum.time][places]
        assert np.allclose(losses, quantum.losses, equal_nan=True)
    ended = endings(found)
    assert [ended[name] == "reached" for name in names] == bundle.done.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("memory", [140, None])
def test_a_pool_that_is_killed_at_any_moment_goes_on_to_the_same_end(
    memory: int | None, tmp_path: Path
) -> None:
    params = PoolParams(LARA, Wls(), memory_bytes=memory, saved_every=0.0)
    whole = play_pool(params, tmp_path / "whole", moving)
    found: list[PoolEvent] | None = None
    kills, record = 0, Record()
    while found is None:
        # In the middle of a quantum, or just before or after an event was recorded.
        factory = LineFactory(12 + 3 * kills)
        record.left, record.is_lost = 5 + kills if kills % 2 else 10**9, kills % 4 == 1
        try:
            found = play_pool(params, tmp_path / "run", moving, factory, record)
        except KeyboardInterrupt:
            kills += 1
    assert kills > 3
    assert without_clock(found) == without_clock(whole)
    assert endings(found) == {"quick": "dropped", "slow": "missed", "late": "ended"}
    for name in ("slow", "late"):
        one, two = (OpenPoolDirectory(tmp_path / root).result(name) for root in ("run", "whole"))
        file = "model.safetensors"
        assert (one / file).read_bytes() == (two / file).read_bytes()
    assert not OpenPoolDirectory(tmp_path / "run").result("quick").exists()
    assert not [*OpenPoolDirectory(tmp_path / "run").checkpoints.iterdir()]


def without_clock(events: list[PoolEvent]) -> str:
    """Events without the machine's time, as text, in which NaN equals itself."""
    return "\n".join(
        str({key: value for key, value in asdict(event).items() if key != "seconds"})
        for event in events
    )


def test_what_is_handed_out_is_the_unit_with_the_least_loss(tmp_path: Path) -> None:
    found = play_pool(PARAMS, tmp_path, lambda unit: of(desired("late", 3, 24, 1e-9)))
    (left,) = [event for event in found if isinstance(event, JobLeft)]
    seen = [(quantum.losses[0], quantum.read[0]) for quantum in quanta(found)]
    loss, (rows, _) = min(seen)
    assert left.best == (rows // 4, loss)
    # Not the last one, or this would show nothing.
    assert seen[-1][0] > loss
    alone = make_line(3)
    alone.step(rows // 4)
    (tmp_path / "alone").mkdir()
    alone.save_result(tmp_path / "alone")
    handed = OpenPoolDirectory(tmp_path).result("late") / "model.safetensors"
    assert handed.read_bytes() == (tmp_path / "alone" / "model.safetensors").read_bytes()


def test_who_cannot_join_is_refused_and_nobody_else_is_kept_from_learning(tmp_path: Path) -> None:
    broken = DesiredJob("broken", 9, 0.1, {}, 10.0)
    params = PoolParams(LARA, Wls(), memory_bytes=140)
    factory = LineFactory()
    found = play_pool(params, tmp_path, lambda unit: of(broken, QUICK), factory)
    (rejected,) = [event for event in found if isinstance(event, JobRejected)]
    assert rejected.id == "broken"
    assert "KeyError" in rejected.found
    assert endings(found) == {"quick": "reached"}
    small = PoolParams(LARA, Wls(), memory_bytes=30)
    (too_large,) = play_pool(small, tmp_path / "small", lambda unit: of(QUICK))
    assert isinstance(too_large, JobRejected)
    assert too_large.place == "memory"
    assert not factory.loaded


def test_a_thread_whose_code_fails_leaves_and_the_others_are_taken_up(tmp_path: Path) -> None:
    class Failing(LineFactory):
        def make(self, job: str, settings: Mapping[str, Any]) -> ReadingLine:
            made = super().make(job, settings)
            step, turns = made.step, iter(range(4))

            def failing(batches: int) -> float:
                if job == "slow" and next(turns, None) is None:
                    raise ValueError("no more")
                return step(batches)

            made.step = failing  # type: ignore[method-assign]
            return made

    record = Record()
    with pytest.raises(JobFailedError, match="slow failed in unit"):
        play_pool(PARAMS, tmp_path, lambda unit: of(QUICK, SLOW), Failing(), record)
    found = play_pool(PARAMS, tmp_path, lambda unit: of(QUICK, SLOW), record=record)
    assert endings(found) == {"slow": "broken", "quick": "reached"}
    assert [quantum.time for quantum in quanta(found)] == list(range(len(quanta(found))))


@pytest.mark.parametrize("harm", ["damaged", "unreadable"])
def test_what_is_said_of_a_checkpoint_names_no_path_of_the_server(
    harm: str, tmp_path: Path
) -> None:
    record = Record(6)
    with pytest.raises(KeyboardInterrupt):
        play_pool(PARAMS, tmp_path, lambda unit: of(SLOW), record=record)
    record.left = 10**9
    place = max(OpenPoolDirectory(tmp_path).checkpoints.glob("slow/*"))
    if harm == "damaged":
        (place / "state.json").write_bytes(b"{")
    else:
        (place / "state.json").unlink()
        (place / "state.json").symlink_to(place / "state.json")
    found = play_pool(PARAMS, tmp_path, lambda unit: of(SLOW), record=record)
    said = [event.text for event in found if isinstance(event, JobNoted)]
    said += [event.why for event in found if isinstance(event, JobLeft)]
    expected = {
        "damaged": f"checkpoint {int(place.name)}: state.json has 1 of",
        "unreadable": "OSError: Too many levels of symbolic links",
    }
    assert expected[harm] in " ".join(said)
    assert str(tmp_path) not in " ".join(said)
    assert "/" not in " ".join(said)


def test_checkpoints_that_are_ahead_of_the_log_are_not_used(tmp_path: Path) -> None:
    """As after a copy of the log was restored that is older than the folder."""
    whole = play_pool(PARAMS, tmp_path / "whole", lambda unit: of(SLOW))
    record = Record(len(whole) - 1)
    with pytest.raises(KeyboardInterrupt):
        play_pool(PARAMS, tmp_path / "run", lambda unit: of(SLOW), record=record)
    del record.events[3:]
    record.left = 10**9
    found = play_pool(PARAMS, tmp_path / "run", lambda unit: of(SLOW), record=record)
    assert without_clock(found) == without_clock(whole)


def test_whoever_comes_too_late_was_never_there(tmp_path: Path) -> None:
    def script(unit: int) -> DesiredJobs:
        return of(SLOW, *([desired("past", 5, 3, 0.1)] if unit >= 4 else []))

    found = play_pool(PARAMS, tmp_path, script)
    assert endings(found)["past"] == "missed"
    assert all("past" not in quantum.jobs for quantum in quanta(found))


@dataclass
class Hand:
    """A clock that goes on when it is told to."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> None:
        self.seconds += seconds


class SlowFactory(LineFactory):
    """Makes lines that take the seconds a batch, and to load, that are on record."""

    MOST = 4.0

    def __init__(self, hand: Hand) -> None:
        super().__init__()
        self._hand = hand

    def make(self, job: str, settings: Mapping[str, Any]) -> ReadingLine:
        made = super().make(job, settings)
        step = made.step
        self._hand.wait(settings["load"])

        def slow(batches: int) -> float:
            self._hand.wait(min(batches * settings["batch"], self.MOST))
            if settings["batch"] > self.MOST:
                raise StepTooLongError("stopped")
            return step(batches)

        made.step = slow  # type: ignore[method-assign]
        return made


def run_timed(
    root: Path,
    factory: JobFactory,
    hand: Hand,
    script: Callable[[OpenPool], DesiredJobs],
    most: float,
) -> list[PoolEvent]:
    """A pool in quanta of a second; all its events up to a moment."""
    record, params = Record(), PoolParams(Uniform(), Wls(), quantum_seconds=1.0)
    clock = WallClock(1.0, now=hand, wait=hand.wait)
    pool = open_pool(params, OpenPoolDirectory(root), record, clock, factory, now=hand)
    while hand() < most:
        pool.reconcile(script(pool))
        pool.run_quantum()
    return record.events


def seconds_of(name: str, events: list[PoolEvent]) -> float:
    """All that the pool spent on a job, by its log."""
    spent = sum(e.seconds for e in events if isinstance(e, JobJoined) and e.id == name)
    for quantum in quanta(events):
        if name in quantum.jobs:
            spent += quantum.seconds[quantum.jobs.index(name)]
    return spent


@pytest.mark.slow
@pytest.mark.parametrize("batch", [0.9, 50.0], ids=["slow", "stuck"])
def test_a_thread_that_is_slower_than_it_says_takes_its_share_and_pays_for_it(
    batch: float, tmp_path: Path
) -> None:
    hand = Hand()

    def of_speed(name: str, seconds: float, load: float) -> DesiredJob:
        settings = {"seed": 1, "batch": seconds, "load": load}
        return DesiredJob(name, 90, 1e-9, settings, 10.0)

    jobs = of(of_speed("bob", 0.1, 0.0), of_speed("alice", batch, 2.0))
    events = run_timed(tmp_path, SlowFactory(hand), hand, lambda pool: jobs, 60.0)
    bob, alice = seconds_of("bob", events), seconds_of("alice", events)
    # Nothing is free, loading her included, and the pool idles for no more than parts of units.
    assert bob + alice >= 0.9 * hand()
    assert bob >= 0.4 * hand()
    trained = [quantum.batches[quantum.jobs.index("bob")] for quantum in quanta(events)]
    assert all(one + other > 0 for one, other in pairwise(trained))
    if batch > SlowFactory.MOST:
        assert endings(events) == {"alice": "slow"}
        assert alice == 2.0 + SlowFactory.MOST
    else:
        assert not endings(events)


def test_a_thread_that_reached_its_target_before_a_batch_that_was_stopped_has_reached_it(
    tmp_path: Path,
) -> None:
    stopped = []

    class Stopping(LineFactory):
        def make(self, job: str, settings: Mapping[str, Any]) -> ReadingLine:
            made = super().make(job, settings)
            step, losses = made.step, list[float]()

            def stopping(batches: int) -> float:
                if losses:
                    stopped.append(job)
                    raise StepTooLongError("stopped")
                losses.append(step(batches))
                return losses[0]

            made.step = stopping  # type: ignore[method-assign]
            return made

    found = play_pool(PARAMS, tmp_path, lambda unit: of(desired("easy", 1, 12, 1e9)), Stopping())
    assert stopped == ["easy"]
    assert endings(found) == {"easy": "reached"}


@pytest.mark.slow
def test_a_batch_of_an_adapter_that_takes_too_long_ends_its_job_and_no_other(
    tmp_path: Path,
) -> None:
    data = str(write_rows(tmp_path / "data.jsonl", 12, seed=1))
    settings = {"data": data, "rank": 2, "max_length": 24}
    small = DesiredJob("bob", 9, 1e-9, {**settings, "batch_size": 2}, 10.0)
    large = DesiredJob("alice", 90, 1e-9, {**settings, "batch_size": 12}, 10.0)
    # With no time at all for a batch, any of more than four rows is late.
    factory = LoraJobs(LoraJobFactory(build_base(tmp_path / "base", "gpt2"), 0.0))
    found = play_pool(PARAMS, tmp_path / "pool", lambda unit: of(small, large), factory)
    assert endings(found) == {"alice": "slow", "bob": "missed"}
    first = quanta(found)[0]
    assert first.batches[first.jobs.index("alice")] == 0
    assert first.seconds[first.jobs.index("alice")] > 0
    assert all(quantum.batches[quantum.jobs.index("bob")] for quantum in quanta(found))
    assert OpenPoolDirectory(tmp_path / "pool").result("bob").exists()
    assert not OpenPoolDirectory(tmp_path / "pool").result("alice").exists()


LOAD_SECONDS = 0.4


def loaded(name: str, deadline: int = 900) -> DesiredJob:
    settings = {"seed": 1, "batch": 0.1, "load": LOAD_SECONDS}
    return DesiredJob(name, deadline, 1e-9, settings, 10.0)


def test_those_that_join_leave_time_to_those_that_are_there(tmp_path: Path) -> None:
    hand = Hand()
    jobs = of(*(loaded(f"job-{number}") for number in range(8)), loaded("past", 3))
    events = run_timed(tmp_path, SlowFactory(hand), hand, lambda pool: jobs, 40.0)
    joined = [event for event in events if isinstance(event, JobJoined)]
    # In their order, and one that waits until its deadline has missed it.
    assert [event.id for event in joined] == [f"job-{number}" for number in range(8)]
    assert endings(events) == {"past": "missed"}
    # The first takes nobody's time, the next two half a unit; each of the others, a tenth of it.
    assert [type(event) for event in events[:4]] == [JobJoined] * 3 + [QuantumTrained]
    between = [two.time - one.time for one, two in pairwise(joined[3:])]
    assert all(4 <= units <= 5 for units in between)


def test_joins_and_leaves_take_a_tenth_of_the_time_of_others_at_most(tmp_path: Path) -> None:
    hand = Hand()

    def coming_and_going(pool: OpenPool) -> DesiredJobs:
        """Each of alice's jobs is cancelled as soon as it has joined, and the next one comes."""
        had = [name for name in {*pool.state.members, *pool.state.gone} if name != "bob"]
        return of(loaded("bob"), loaded(f"alice-{len(had)}"))

    events = run_timed(tmp_path, SlowFactory(hand), hand, coming_and_going, 50.0)
    loads = [e.seconds for e in events if isinstance(e, JobJoined) and e.id != "bob"]
    assert len(loads) >= 7
    assert sum(loads) <= 0.1 * hand() + 0.5 + LOAD_SECONDS


def test_a_job_is_paused_while_another_waits_to_join(tmp_path: Path) -> None:
    hand = Hand()

    def script(pool: OpenPool) -> DesiredJobs:
        jobs = [loaded(f"job-{number}") for number in range(6)]
        if "job-2" in pool.state.members:
            jobs[2] = replace(jobs[2], status=DesiredStatus.PAUSED)
        return of(*reversed(jobs[3:]), *jobs[:3]) if pool.state.members else of(*jobs[:3])

    events = run_timed(tmp_path, SlowFactory(hand), hand, script, 3.0)
    first, second, *_ = quanta(events)
    assert set(first.jobs) - set(second.jobs) == {"job-2"}
    assert len([event for event in events if isinstance(event, JobJoined)]) < 6
