"""A run is what the simulation of its own curves is, and stays so whatever interrupts it."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from auctune.domain import InputError
from auctune.domain.money import ZERO
from auctune.engine.pool.bundle import Bundle, BundleJob
from auctune.engine.pool.device import JobFailedError
from auctune.engine.pool.epoch import PoolParams
from auctune.engine.pool.events import JobNoted, JobOutlook, JobStatus, PoolEvent, QuantumTrained
from auctune.engine.pool.report import Figures
from auctune.engine.unix_time import SlotClock
from auctune.replay.timeshare import TimeshareVerifier
from auctune.replay.verify import VerificationResult
from auctune.service.storage.event_log import EventType
from auctune.standalone.spot import SpotRunFolder, resume_spot
from auctune.timeshare.allocator import (
    Allocator,
    BundleOutcome,
    InfeasibleSharesError,
    Observation,
    Shares,
)
from auctune.timeshare.balancing import Exploration
from auctune.timeshare.baselines import Uniform
from auctune.timeshare.estimators.wls import Wls
from auctune.timeshare.planner import Planner
from auctune.timeshare.play import play
from auctune.timeshare.thread import LearningThread, LossCurve
from auctune.train.checkpoint import load_latest
from auctune.train.job import LoraJob
from auctune.train.preemptible import PreemptibleJob
from support.bundle_runs import outcome_of, read_log, resume_bundle, run_bundle
from support.pool_threads import make_line, pool_thread

LARA = Planner(balancing=Exploration(batches=12))


JOBS = (
    pool_thread("quick", deadline=12, threshold=0.5, seed=1),
    pool_thread("slow", deadline=16, threshold=0.05, seed=2, rate=6.5),
    pool_thread("late", start=5, deadline=18, threshold=0.3, seed=3),
    pool_thread("hopeless", deadline=10, threshold=1e-6, seed=4, rate=3.3),
)


def bundle_of(
    allocator: Allocator = LARA,
    jobs: Sequence[BundleJob] = JOBS,
    *,
    saved_every: float = 30.0,
    memory_bytes: int | None = None,
) -> Bundle:
    params = PoolParams(allocator, Wls(), memory_bytes=memory_bytes, saved_every=saved_every)
    return Bundle(jobs, params)


def simulate(bundle: Bundle) -> BundleOutcome:
    """The same bundle over the curves of its own jobs, each recorded alone."""
    curves = []
    for job in bundle.jobs:
        losses = job.make().losses(300)  # type: ignore[attr-defined]
        curves.append(LossCurve(np.arange(1.0, 301.0), losses))
    rates = [job.rate or np.nan for job in bundle.jobs]
    return play(bundle.params.allocator, bundle.threads, curves, rates)


def assert_same(found: BundleOutcome, expected: BundleOutcome) -> None:
    assert np.array_equal(found.done, expected.done)
    assert np.array_equal(found.finish, expected.finish)
    assert np.array_equal(found.samples, expected.samples)
    assert np.allclose(found.shares, expected.shares, rtol=1e-9, atol=1e-12)
    assert np.allclose(found.losses, expected.losses, rtol=1e-9, equal_nan=True)


@dataclass
class Updates:
    """Keeps outlooks and notes."""

    outlooks: list[dict[str, JobOutlook]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __call__(self, event: PoolEvent, outlooks: Sequence[JobOutlook]) -> None:
        if outlooks:
            self.outlooks.append({one.id: one for one in outlooks})
        if isinstance(event, JobNoted):
            self.notes.append(f"{event.id}: {event.text}")


@dataclass(frozen=True)
class Run:
    """A run that came to its end; nothing in its folder may be changed."""

    folder: Path
    figures: Figures
    outcome: BundleOutcome
    outlooks: list[dict[str, JobOutlook]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder, updates = tmp_path_factory.mktemp("pool") / "whole", Updates()
    figures = run_bundle(bundle_of(saved_every=0.0), folder, updates)
    return Run(folder, figures, outcome_of(figures), updates.outlooks)


@pytest.mark.slow
def test_a_real_run_and_its_simulation_agree(whole: Run, tmp_path: Path) -> None:
    uniform = run_bundle(bundle_of(Uniform()), tmp_path / "run")
    for bundle, found in (
        (bundle_of(), whole.outcome),
        (bundle_of(Uniform()), outcome_of(uniform)),
    ):
        expected = simulate(bundle)
        assert_same(found, expected)
        assert found.switches == expected.switches
        assert 0 < found.num_done < 4


@pytest.mark.slow
def test_too_little_memory_for_all_changes_who_is_there_and_nothing_else(
    whole: Run, tmp_path: Path
) -> None:
    free = whole.figures
    sizes = [thread["memory_bytes"] for thread in free["threads"]]
    limit = max(sizes) + 20
    tight = run_bundle(bundle_of(memory_bytes=limit), tmp_path / "tight")
    assert_same(outcome_of(tight), whole.outcome)
    assert tight["most_bytes"] <= limit < free["most_bytes"]
    assert tight["switching"]["resumed"] > 3


def test_a_thread_that_does_not_fit_alone_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="memory: 30 bytes, but 'quick' takes"):
        run_bundle(bundle_of(memory_bytes=30), tmp_path / "run")
    assert not (tmp_path / "run").exists()


class StoppedError(Exception):
    """What ends a run on its way."""


@dataclass
class Fuse:
    """Ends a run at some turn of any of its threads, in the middle of a unit."""

    left: int

    def within(self, make: Callable[[], PreemptibleJob]) -> Callable[[], PreemptibleJob]:
        def made() -> PreemptibleJob:
            thread = make()
            step = thread.step

            def burning(batches: int) -> float:
                self.left -= 1
                if self.left == 0:
                    raise StoppedError
                return step(batches)

            thread.step = burning  # type: ignore[method-assign]
            return thread

        return made


@pytest.mark.slow
@pytest.mark.parametrize(("saved_every", "memory"), [(0.0, 140), (1e9, None)])
def test_a_run_that_is_stopped_again_and_again_comes_to_the_same_end(
    whole: Run, tmp_path: Path, saved_every: float, memory: int | None
) -> None:
    folder = tmp_path / "run"
    figures: Figures | None = None
    stops = 0
    # Each goes further, as without checkpoints all is trained again.
    while figures is None:
        fuse = Fuse(16 + 11 * stops)
        jobs = [replace(one, make=fuse.within(one.make)) for one in JOBS]
        bundle = bundle_of(jobs=jobs, saved_every=saved_every, memory_bytes=memory)
        run = resume_bundle if folder.exists() else run_bundle
        try:
            figures = run(bundle, folder)
        except JobFailedError:
            stops += 1
    assert stops > 2
    assert_same(outcome_of(figures), whole.outcome)
    assert figures["notes"] == []
    assert verify(folder).is_identical
    for name in ("quick", "late"):
        one, two = (root / "results" / name for root in (folder, whole.folder))
        file = "model.safetensors"
        assert one.exists() == two.exists()
        if one.exists():
            assert (one / file).read_bytes() == (two / file).read_bytes()


@dataclass
class Stop:
    """Ends a run once a unit is on record."""

    time: int

    def __call__(self, event: PoolEvent, outlooks: Sequence[JobOutlook]) -> None:
        if isinstance(event, QuantumTrained) and event.time == self.time:
            raise StoppedError


def verify(folder: Path) -> VerificationResult:
    """Verify the log of a run."""
    created, *events = read_log(folder)
    epoch, seconds = created.body["epoch"], created.body["slot_seconds"]
    clock = SlotClock(epoch, seconds, lambda: epoch)
    decided = [event for event in events if event.type == EventType.DECIDED]
    return TimeshareVerifier(ZERO, clock, decided).verify_log([created, *events])


def test_a_damaged_checkpoint_is_noted_and_changes_nothing(whole: Run, tmp_path: Path) -> None:
    folder, updates = tmp_path / "run", Updates()
    with pytest.raises(StoppedError):
        run_bundle(bundle_of(saved_every=0.0), folder, Stop(3))
    newest = max((folder / "state" / "checkpoints" / "slow").iterdir())
    (newest / "state.json").write_text("{}")
    again = resume_bundle(bundle_of(), folder, updates)
    assert_same(outcome_of(again), whole.outcome)
    (note,) = again["notes"]
    assert updates.notes == [note]
    assert "slow: " in note
    assert "state.json has 2 of" in note


def test_the_log_has_how_each_job_ended_whenever_the_run_was_stopped(
    whole: Run, tmp_path: Path
) -> None:
    ends = {}
    last = whole.figures["units"] - 1
    for name, time in (("done", int(whole.outcome.finish[0]) - 1), ("last", last)):
        with pytest.raises(StoppedError):
            run_bundle(bundle_of(), tmp_path / name, Stop(time))
        resume_bundle(bundle_of(), tmp_path / name)
        ends[name] = ended_jobs(tmp_path / name)
    assert ends["done"] == ends["last"] == ended_jobs(whole.folder)
    for job, is_done in zip(JOBS, whole.outcome.done, strict=True):
        ended = "results/" + job.thread.id if is_done else "target_not_reached"
        assert ended in str(ends["done"][job.thread.id])
    assert verify(whole.folder).is_identical


def test_a_run_begun_with_another_default_allocator_is_refused_and_goes_on_with_its_own(
    tmp_path: Path,
) -> None:
    with pytest.raises(StoppedError):
        run_bundle(bundle_of(Uniform()), tmp_path / "run", Stop(2))
    other, own = bundle_of().params.allocator.name, Uniform().name
    expected = re.escape(f"allocator: {other}, where the run began with {own}; expected the rel")
    with pytest.raises(InputError, match=expected):
        resume_bundle(bundle_of(), tmp_path / "run")
    resume_bundle(bundle_of(Uniform()), tmp_path / "run")


def test_rows_that_changed_are_refused_by_the_name_of_their_file(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("before")
    bundle = bundle_of(jobs=[replace(JOBS[0], lora=LoraJob("job", rows)), *JOBS[1:]])
    with pytest.raises(StoppedError):
        run_bundle(bundle, tmp_path / "run", Stop(2))
    rows.write_text("after")
    with pytest.raises(InputError, match=r"rows\.jsonl: is not as it was when the run began"):
        resume_bundle(bundle, tmp_path / "run")
    rows.unlink()
    with pytest.raises(InputError, match=r"rows\.jsonl: is gone"):
        resume_bundle(bundle, tmp_path / "run")
    rows.write_text("before")
    resume_bundle(bundle, tmp_path / "run")


def test_the_run_of_another_command_is_refused_by_name(whole: Run) -> None:
    expected = r"holds a run of another command; expected .* `auctune spot run`"
    with pytest.raises(InputError, match=expected):
        resume_spot(SpotRunFolder(whole.folder), cache=whole.folder, on_event=lambda _: None)


def ended_jobs(folder: Path) -> dict[str | None, object]:
    """The last event about each job."""
    return {event.job: (event.type, event.body) for event in read_log(folder) if event.job}


def test_the_log_has_when_each_unit_of_real_time_ended(tmp_path: Path) -> None:
    job = pool_thread("slow", deadline=10_000, threshold=0.05, seed=2, rate=2.0)
    bundle = Bundle([job], PoolParams(Uniform(), Wls(), quantum_seconds=0.05))
    seen: list[QuantumTrained] = []

    def stop(event: PoolEvent, outlooks: Sequence[JobOutlook]) -> None:
        if isinstance(event, QuantumTrained):
            seen.append(event)
            if len(seen) == 1:
                raise StoppedError

    with pytest.raises(StoppedError):
        run_bundle(bundle, tmp_path / "run", stop)
    figures = resume_bundle(bundle, tmp_path / "run", stop)
    times = [event.time for event in seen]
    assert times == sorted(set(times))
    overrun = max(event.moment - event.time - 1 for event in seen)
    assert figures["overrun"] == pytest.approx(overrun, abs=1e-4)
    assert figures["unit_seconds"] == 0.05
    assert verify(tmp_path / "run").is_identical


@pytest.mark.parametrize("where", ["made", "unit"])
def test_a_thread_that_fails_is_named_and_leaves_nothing_that_did_not_begin(
    tmp_path: Path, where: str
) -> None:
    fuse = Fuse(2 if where == "made" else 12)
    broken = replace(JOBS[1], make=fuse.within(JOBS[1].make))
    bundle = bundle_of(jobs=[JOBS[0], broken])
    expected = "slow failed while it was made" if where == "made" else "slow failed in unit"
    with pytest.raises(JobFailedError, match=rf"{expected}.*StoppedError.*test_timeshare\.py:"):
        run_bundle(bundle, tmp_path / "run")
    assert (tmp_path / "run").exists() == (where == "unit")


def test_a_run_that_has_ended_says_again_what_came_of_it(whole: Run, tmp_path: Path) -> None:
    shutil.copytree(whole.folder, tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink()
    again = resume_bundle(bundle_of(), tmp_path / "run")
    assert again == whole.figures
    assert (tmp_path / "run" / "report.html").is_file()


def test_who_watches_is_told_how_it_stands_with_each_thread(whole: Run) -> None:
    outcome = whole.outcome
    assert len(whole.outlooks) == whole.figures["units"]
    first, last = whole.outlooks[0], whole.outlooks[-1]
    assert first["late"].status is JobStatus.NOT_STARTED
    assert last["hopeless"].status is JobStatus.MISSED
    for name, done, finish in zip(last, outcome.done, outcome.finish, strict=True):
        assert (last[name].status is JobStatus.DONE) == done
        assert not done or last[name].finish == finish
    assert last["quick"].batches == outcome.samples[0]


def test_what_was_learned_is_handed_out_for_threads_that_are_done(whole: Run) -> None:
    outcome = whole.outcome
    names = {
        thread.id for thread, done in zip(bundle_of().threads, outcome.done, strict=True) if done
    }
    assert {path.name for path in (whole.folder / "results").iterdir()} == names
    found = load_latest(whole.folder / "state" / "checkpoints" / "quick")
    assert found is not None
    # It is the thread trained alone for as many batches.
    alone = make_line(1)
    alone.step(int(outcome.samples[0]))
    weights = alone.state().tensors["module/weight"]
    assert torch.equal(found[0].tensors["module/weight"], weights)


def test_the_report_names_all_threads_and_its_figures_are_plain_json(tmp_path: Path) -> None:
    jobs = (*JOBS[:1], pool_thread("<b>", deadline=3, threshold=1e-9, seed=9))
    figures = run_bundle(bundle_of(jobs=jobs), tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "quick: threshold 0.5" in page
    assert "dashed: the threshold." in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert json.loads((tmp_path / "run" / "report.json").read_text()) == figures


@dataclass(frozen=True)
class Careless:
    """Gives shares to everybody, always."""

    name: str = "careless"

    def start(self, threads: Sequence[LearningThread]) -> "Careless":
        return self

    def allocate(self, observation: Observation) -> Shares:
        return Shares(np.full(len(observation.samples), 1 / len(observation.samples)))


def test_shares_of_threads_that_may_not_learn_end_the_run(tmp_path: Path) -> None:
    with pytest.raises(InfeasibleSharesError, match="unit 0: careless gives shares"):
        run_bundle(bundle_of(Careless()), tmp_path / "run")


def test_units_without_a_length_need_stated_rates() -> None:
    with pytest.raises(InputError, match=r"threads\[0\].batches_per_unit: is missing"):
        bundle_of(jobs=[pool_thread("a", deadline=3, threshold=1.0, rate=None)])


@pytest.mark.slow
def test_what_a_thread_notes_on_its_data_is_told_and_reported_once(tmp_path: Path) -> None:
    def make() -> PreemptibleJob:
        thread = JOBS[0].make()
        thread.notes = ("rows lose their ends",)  # type: ignore[attr-defined]
        return thread

    updates = Updates()
    bundle = bundle_of(jobs=[replace(JOBS[0], make=make)], saved_every=0.0)
    with pytest.raises(StoppedError):
        run_bundle(bundle, tmp_path / "run", Stop(2))
    figures = resume_bundle(bundle, tmp_path / "run", updates)
    assert updates.notes == []
    assert figures["notes"] == ["quick: rows lose their ends"]
    run_bundle(bundle, tmp_path / "other", updates)
    assert updates.notes == figures["notes"]


def test_rows_that_are_missing_are_named_before_anything_is_written(tmp_path: Path) -> None:
    lora = LoraJob("quick", tmp_path / "nowhere.jsonl")
    with pytest.raises(InputError) as refused:
        run_bundle(bundle_of(jobs=(JOBS[1], replace(JOBS[0], lora=lora))), tmp_path / "run")
    assert refused.value.place == f"{tmp_path / 'run.toml'}: thread[1].settings.data"
    assert refused.value.found == f"there is no file '{lora.data}'"
    assert not (tmp_path / "run").exists()
