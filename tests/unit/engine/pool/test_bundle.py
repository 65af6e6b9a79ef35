"""A run is what the simulation of its own curves is, and stays so whatever interrupts it."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from auctune.domain import InputError
from auctune.engine.pool.bundle import Bundle, BundleJob, run_bundle
from auctune.engine.pool.device import JobFailedError
from auctune.engine.pool.epoch import PoolParams
from auctune.engine.pool.events import (
    JobNoted,
    JobOutlook,
    JobStatus,
    PoolDirectory,
    PoolEvent,
)
from auctune.engine.pool.report import PoolReport
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
from auctune.train.preemptible import PreemptibleJob
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
    report: PoolReport
    outlooks: list[dict[str, JobOutlook]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder, updates = tmp_path_factory.mktemp("pool") / "whole", Updates()
    report = run_bundle(bundle_of(saved_every=0.0), folder, on_event=updates)
    return Run(folder, report, updates.outlooks)


@pytest.mark.slow
def test_a_real_run_and_its_simulation_agree(whole: Run, tmp_path: Path) -> None:
    for bundle, report in (
        (bundle_of(), whole.report),
        (bundle_of(Uniform()), run_bundle(bundle_of(Uniform()), tmp_path / "run")),
    ):
        expected = simulate(bundle)
        assert_same(report.outcome, expected)
        assert report.outcome.switches == expected.switches
        assert 0 < report.outcome.num_done < 4


@pytest.mark.slow
def test_too_little_memory_for_all_changes_who_is_there_and_nothing_else(
    whole: Run, tmp_path: Path
) -> None:
    free = whole.report
    sizes = [thread["memory_bytes"] for thread in free.figures["threads"]]
    limit = max(sizes) + 20
    tight = run_bundle(bundle_of(memory_bytes=limit), tmp_path / "tight")
    assert_same(tight.outcome, free.outcome)
    assert tight.figures["most_bytes"] <= limit < free.figures["most_bytes"]
    assert tight.figures["switching"]["resumed"] > 3


def test_a_thread_that_does_not_fit_alone_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="memory: 30 bytes, but 'quick' takes"):
        run_bundle(bundle_of(memory_bytes=30), tmp_path / "run")


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
    report: PoolReport | None = None
    stops = 0
    # Each goes further, as without checkpoints all is trained again.
    while report is None:
        fuse = Fuse(16 + 11 * stops)
        jobs = [replace(one, make=fuse.within(one.make)) for one in JOBS]
        bundle = bundle_of(jobs=jobs, saved_every=saved_every, memory_bytes=memory)
        has_started = PoolDirectory(folder).has_started
        try:
            report = run_bundle(bundle, folder, resume=has_started)
        except JobFailedError:
            stops += 1
    assert stops > 2
    assert_same(report.outcome, whole.report.outcome)
    assert report.figures["notes"] == []
    for name in ("quick", "late"):
        one, two = (root / "results" / name for root in (folder, whole.folder))
        file = "model.safetensors"
        assert one.exists() == two.exists()
        if one.exists():
            assert (one / file).read_bytes() == (two / file).read_bytes()


def test_a_last_line_that_was_cut_costs_a_unit_and_a_damaged_checkpoint_is_noted(
    whole: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole.folder, folder)
    directory = PoolDirectory(folder)
    lines = directory.event_log.read_bytes().splitlines(keepends=True)
    directory.event_log.write_bytes(b"".join(lines[:-1]) + lines[-1][:-9])
    # The last unit's own checkpoints are as old as the one before the cut.
    (newest,) = sorted((directory.checkpoints / "quick").iterdir())[-1:]
    (newest / "state.json").write_text("{}")
    updates = Updates()
    again = run_bundle(bundle_of(), folder, resume=True, on_event=updates)
    assert_same(again.outcome, whole.report.outcome)
    (note,) = again.figures["notes"]
    assert updates.notes == [note]
    assert "quick: " in note
    assert "state.json has 2 of" in note


@pytest.mark.parametrize("where", ["made", "unit"])
def test_a_thread_that_fails_is_named_and_leaves_nothing_that_did_not_begin(
    tmp_path: Path, where: str
) -> None:
    fuse = Fuse(2 if where == "made" else 12)
    broken = replace(JOBS[1], make=fuse.within(JOBS[1].make))
    bundle = bundle_of(jobs=[JOBS[0], broken])
    expected = "slow failed while it was made" if where == "made" else "slow failed in unit"
    with pytest.raises(JobFailedError, match=rf"{expected}.*StoppedError.*test_bundle\.py:"):
        run_bundle(bundle, tmp_path / "run")
    assert (tmp_path / "run").exists() == (where == "unit")


def test_a_run_that_has_ended_says_again_what_came_of_it(whole: Run, tmp_path: Path) -> None:
    shutil.copytree(whole.folder, tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink()
    again = run_bundle(bundle_of(), tmp_path / "run", resume=True)
    assert_same(again.outcome, whole.report.outcome)
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_folder_goes_on_with_its_own_bundle_alone(whole: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        run_bundle(bundle_of(), tmp_path / "none", resume=True)
    with pytest.raises(InputError, match="is not empty"):
        run_bundle(bundle_of(), whole.folder)
    with pytest.raises(InputError, match=r"allocator: 'uniform'; expected .* the run began"):
        run_bundle(bundle_of(Uniform()), whole.folder, resume=True)
    with pytest.raises(InputError, match="jobs"):
        run_bundle(bundle_of(jobs=JOBS[:2]), whole.folder, resume=True)


def test_who_watches_is_told_how_it_stands_with_each_thread(whole: Run) -> None:
    report = whole.report
    assert len(whole.outlooks) == report.figures["units"]
    first, last = whole.outlooks[0], whole.outlooks[-1]
    assert first["late"].status is JobStatus.NOT_STARTED
    assert last["hopeless"].status is JobStatus.MISSED
    for name, done, finish in zip(last, report.outcome.done, report.outcome.finish, strict=True):
        assert (last[name].status is JobStatus.DONE) == done
        assert not done or last[name].finish == finish
    assert last["quick"].batches == report.outcome.samples[0]


def test_what_was_learned_is_handed_out_for_threads_that_are_done(whole: Run) -> None:
    report = whole.report
    names = {
        thread.id
        for thread, done in zip(bundle_of().threads, report.outcome.done, strict=True)
        if done
    }
    assert {path.name for path in (whole.folder / "results").iterdir()} == names
    found = load_latest(whole.folder / "state" / "checkpoints" / "quick")
    assert found is not None
    # It is the thread trained alone for as many batches.
    alone = make_line(1)
    alone.step(int(report.outcome.samples[0]))
    weights = alone.state().tensors["module/weight"]
    assert torch.equal(found[0].tensors["module/weight"], weights)


def test_the_report_names_all_threads_and_its_figures_are_plain_json(tmp_path: Path) -> None:
    jobs = (*JOBS[:1], pool_thread("<b>", deadline=3, threshold=1e-9, seed=9))
    report = run_bundle(bundle_of(jobs=jobs), tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    assert "quick: threshold 0.5" in page
    assert "dashed: the threshold." in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert json.loads((tmp_path / "run" / "report.json").read_text()) == report.figures


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
    report = run_bundle(bundle, tmp_path / "run", on_event=updates)
    assert updates.notes == ["quick: rows lose their ends"]
    assert report.figures["notes"] == updates.notes
    # Stopped before its end was on record.
    log = PoolDirectory(tmp_path / "run").event_log
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))
    report = run_bundle(bundle, tmp_path / "run", on_event=updates, resume=True)
    assert report.figures["notes"] == updates.notes == ["quick: rows lose their ends"]
