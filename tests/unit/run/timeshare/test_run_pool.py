"""A run is what the simulation of its own curves is, and stays so whatever interrupts it."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from auctune.domain import InputError
from auctune.run.timeshare.failures import ThreadFailedError
from auctune.run.timeshare.folder import PoolFolder
from auctune.run.timeshare.foresight import ThreadView, Verdict
from auctune.run.timeshare.job import run_pool
from auctune.run.timeshare.listener import SilentListener
from auctune.run.timeshare.order import PoolOrder, PoolThread
from auctune.run.timeshare.report import PoolReport
from auctune.run.timeshare.state import UnitRecord
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

pytest_plugins = ["support.one_thread"]

LARA = Planner(balancing=Exploration(batches=12))


THREADS = (
    pool_thread("quick", deadline=12, threshold=0.5, seed=1),
    pool_thread("slow", deadline=16, threshold=0.05, seed=2, rate=6.5),
    pool_thread("late", start=5, deadline=18, threshold=0.3, seed=3),
    pool_thread("hopeless", deadline=10, threshold=1e-6, seed=4, rate=3.3),
)


def order_of(
    allocator: Allocator = LARA, threads: Sequence[PoolThread] = THREADS, **more: object
) -> PoolOrder:
    order = PoolOrder(threads=threads, allocator=allocator, estimator=Wls())
    return replace(order, **more)  # type: ignore[arg-type]


def simulate(order: PoolOrder) -> BundleOutcome:
    """The same bundle over the curves of its own threads, each recorded alone."""
    curves = []
    for thread in order.threads:
        losses = thread.make().losses(300)  # type: ignore[attr-defined]
        curves.append(LossCurve(np.arange(1.0, 301.0), losses))
    rates = [thread.batches_per_unit or np.nan for thread in order.threads]
    return play(order.allocator, order.learning, curves, rates)


def assert_same(found: BundleOutcome, expected: BundleOutcome) -> None:
    assert np.array_equal(found.done, expected.done)
    assert np.array_equal(found.finish, expected.finish)
    assert np.array_equal(found.samples, expected.samples)
    assert np.allclose(found.shares, expected.shares, rtol=1e-9, atol=1e-12)
    assert np.allclose(found.losses, expected.losses, rtol=1e-9, equal_nan=True)


@dataclass
class Seeing(SilentListener):
    """Keeps what it is told."""

    seen: list[dict[str, ThreadView]]

    def unit_done(self, unit: UnitRecord, views: Sequence[ThreadView]) -> None:
        self.seen.append({view.name: view for view in views})


@dataclass
class Telling(SilentListener):
    """Keeps the notes."""

    told: list[str]

    def noted(self, text: str) -> None:
        self.told.append(text)


@dataclass(frozen=True)
class Run:
    """A run that came to its end; nothing in its folder may be changed."""

    folder: Path
    report: PoolReport
    seen: list[dict[str, ThreadView]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> Run:
    folder, seeing = tmp_path_factory.mktemp("pool") / "whole", Seeing([])
    return Run(folder, run_pool(order_of(), folder, listener=seeing, saved_every=0.0), seeing.seen)


def test_a_real_run_and_its_simulation_agree(whole: Run, tmp_path: Path) -> None:
    for order, report in (
        (order_of(), whole.report),
        (order_of(Uniform()), run_pool(order_of(Uniform()), tmp_path / "run")),
    ):
        expected = simulate(order)
        assert_same(report.outcome, expected)
        assert report.outcome.switches == expected.switches
        assert 0 < report.outcome.num_done < 4


def test_too_little_memory_for_all_changes_who_is_there_and_nothing_else(
    whole: Run, tmp_path: Path
) -> None:
    free = whole.report
    sizes = [thread["memory_bytes"] for thread in free.figures["threads"]]
    limit = max(sizes) + 20
    tight = run_pool(order_of(memory_bytes=limit), tmp_path / "tight")
    assert_same(tight.outcome, free.outcome)
    assert tight.figures["most_bytes"] <= limit < free.figures["most_bytes"]
    assert tight.figures["switching"]["resumed"] > 3


def test_a_thread_that_does_not_fit_alone_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="memory: 30 bytes, but 'quick' takes"):
        run_pool(order_of(memory_bytes=30), tmp_path / "run")


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
        threads = [replace(one, make=fuse.within(one.make)) for one in THREADS]
        order = order_of(threads=threads, memory_bytes=memory)
        begun = PoolFolder(folder).has_started
        try:
            report = run_pool(order, folder, resume=begun, saved_every=saved_every)
        except ThreadFailedError:
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
    lines = PoolFolder(folder).event_log.read_bytes().splitlines(keepends=True)
    PoolFolder(folder).event_log.write_bytes(b"".join(lines[:-1]) + lines[-1][:-9])
    # The last unit's own checkpoints are as old as the one before the cut.
    (newest,) = sorted(PoolFolder(folder).checkpoints(0).iterdir())[-1:]
    (newest / "state.json").write_text("{}")
    told = Telling([])
    again = run_pool(order_of(), folder, resume=True, listener=told)
    assert_same(again.outcome, whole.report.outcome)
    (note,) = again.figures["notes"]
    assert told.told == [note]
    assert "quick: " in note
    assert "state.json has 2 of" in note


@pytest.mark.parametrize("where", ["made", "unit"])
def test_a_thread_that_fails_is_named_and_leaves_nothing_that_did_not_begin(
    tmp_path: Path, where: str
) -> None:
    fuse = Fuse(2 if where == "made" else 12)
    broken = replace(THREADS[1], make=fuse.within(THREADS[1].make))
    order = order_of(threads=[THREADS[0], broken])
    expected = "slow failed while it was made" if where == "made" else "slow failed in unit"
    with pytest.raises(ThreadFailedError, match=rf"{expected}.*StoppedError.*test_run_pool\.py:"):
        run_pool(order, tmp_path / "run")
    assert (tmp_path / "run").exists() == (where == "unit")


def test_a_run_that_has_ended_says_again_what_came_of_it(whole: Run, tmp_path: Path) -> None:
    shutil.copytree(whole.folder, tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink()
    again = run_pool(order_of(), tmp_path / "run", resume=True)
    assert_same(again.outcome, whole.report.outcome)
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_folder_goes_on_with_its_own_bundle_alone(whole: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        run_pool(order_of(), tmp_path / "none", resume=True)
    with pytest.raises(InputError, match="is not empty"):
        run_pool(order_of(), whole.folder)
    with pytest.raises(InputError, match=r"allocator: 'uniform'; expected .* the run began"):
        run_pool(order_of(Uniform()), whole.folder, resume=True)
    with pytest.raises(InputError, match="threads"):
        run_pool(order_of(threads=THREADS[:2]), whole.folder, resume=True)


def test_who_watches_is_told_how_it_stands_with_each_thread(whole: Run) -> None:
    report = whole.report
    assert len(whole.seen) == report.figures["units"]
    first, last = whole.seen[0], whole.seen[-1]
    assert first["late"].verdict is Verdict.WAITING
    assert last["hopeless"].verdict is Verdict.MISSED
    for name, done, finish in zip(last, report.outcome.done, report.outcome.finish, strict=True):
        assert (last[name].verdict is Verdict.DONE) == done
        assert not done or last[name].finish == finish
    assert last["quick"].batches == report.outcome.samples[0]


def test_what_was_learned_is_handed_out_for_threads_that_are_done(whole: Run) -> None:
    report = whole.report
    names = {
        thread.id
        for thread, done in zip(order_of().learning, report.outcome.done, strict=True)
        if done
    }
    assert {path.name for path in (whole.folder / "results").iterdir()} == names
    found = load_latest(whole.folder / "state" / "threads" / "000")
    assert found is not None
    # It is the thread trained alone for as many batches.
    alone = make_line(1)
    alone.step(int(report.outcome.samples[0]))
    weights = alone.state().tensors["module/weight"]
    assert torch.equal(found[0].tensors["module/weight"], weights)


def test_the_report_names_all_threads_and_its_figures_are_plain_json(tmp_path: Path) -> None:
    threads = (*THREADS[:1], pool_thread("<b>", deadline=3, threshold=1e-9, seed=9))
    report = run_pool(order_of(threads=threads), tmp_path / "run")
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
        run_pool(order_of(Careless()), tmp_path / "run")


def test_units_without_a_length_need_stated_rates() -> None:
    with pytest.raises(InputError, match=r"threads\[0\].batches_per_unit: is missing"):
        order_of(threads=[pool_thread("a", deadline=3, threshold=1.0, rate=None)])


def test_what_a_thread_notes_on_its_data_is_told_and_reported_once(tmp_path: Path) -> None:
    def make() -> PreemptibleJob:
        thread = THREADS[0].make()
        thread.notes = ("rows lose their ends",)  # type: ignore[attr-defined]
        return thread

    order, telling = order_of(threads=[replace(THREADS[0], make=make)]), Telling([])
    report = run_pool(order, tmp_path / "run", listener=telling, saved_every=0.0)
    assert telling.told == ["quick: rows lose their ends"]
    assert report.figures["notes"] == telling.told
    # Stopped before its end was on record.
    journal = PoolFolder(tmp_path / "run").event_log
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    report = run_pool(order, tmp_path / "run", listener=telling, resume=True)
    assert report.figures["notes"] == telling.told == ["quick: rows lose their ends"]
