"""Bundles from files, from the tables' rule, and drawn by seed."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.service.config.timeshare import TimeshareConfig
from auctune.sim.timeshare.bundle_file import PoolEntry, bundle_of_file, read_bundle_file
from auctune.sim.timeshare.recorded import RecordedCurve, level_at, read_curves, units_alone
from auctune.sim.timeshare.table_bundles import (
    MIXED,
    PURE,
    calibrated_bundle,
    done_by_deadline,
    done_evenly,
    draw_bundle,
    table_bundles,
    uncalibrated_bundle,
)
from auctune.timeshare import (
    Allocator,
    Exploration,
    LearningThread,
    LossCurve,
    Mixture,
    Planner,
    ShortestFirst,
    Uniform,
    Wls,
    play,
)
from auctune.timeshare.named import DEFAULT_ALLOCATOR, make_allocator
from support.loss_curves import made_up_curve
from support.timeshare_files import BUNDLE, write_bundle, write_curves


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> tuple[RecordedCurve, ...]:
    return read_curves(write_curves(tmp_path_factory.mktemp("recorded")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hopeless", "deadline"), [(0.0, 500), (0.1, 500), (0.3, 500), (0.1, 250), (0.3, 250)]
)
def test_a_hopeless_job_with_the_nearest_deadline_takes_nothing_from_the_others(
    hopeless: float, deadline: int
) -> None:
    """Out of reach by a little, or a share below all losses on record."""
    default, shipped = make_allocator(DEFAULT_ALLOCATOR), read_curves()
    own = [curve for curve in shipped if curve.bundle == PURE.name]
    for index in range(3):
        bundle = calibrated_bundle(PURE, own, seed=7, index=index)
        if hopeless:
            threshold = (1 - hopeless) * float(own[0].curve.loss.min())
            first = replace(bundle.threads[0], threshold=threshold, deadline=deadline)
            bundle = replace(bundle, threads=(first, *bundle.threads[1:]))
        assert bundle.attainable().num_done == 4
        assert bundle.play(ShortestFirst()).num_done <= (0 if deadline == 500 else 2)
        assert bundle.play(default).num_done == 4


@pytest.mark.parametrize("number", [0, 1])
def test_a_calibrated_bundle_does_what_the_paper_reports(number: int) -> None:
    own = [curve for curve in read_curves() if curve.bundle == MIXED.name]
    reported = MIXED.reported[number]
    bundle = calibrated_bundle(MIXED, own, number, seed=3)
    assert bundle.play(Uniform()).num_done == reported.uniform
    assert bundle.play(ShortestFirst()).num_done == reported.stf
    assert bundle.attainable().num_done == reported.lara
    assert bundle.optimum().num_done >= reported.lara
    assert bundle.windows == tuple(float(int(rate)) for rate in bundle.rates)
    again = calibrated_bundle(MIXED, own, number, seed=3)
    assert (again.threads, again.rates) == (bundle.threads, bundle.rates)
    other = calibrated_bundle(MIXED, own, number, seed=3, index=1)
    assert other.rates != bundle.rates


def test_needs_of_an_uncalibrated_bundle_are_within_their_ranges() -> None:
    own = [curve for curve in read_curves() if curve.bundle == MIXED.name]
    (low, high), stf = MIXED.reported[1].usual, set[int]()
    for index in range(6):
        bundle = uncalibrated_bundle(MIXED, own, 1, seed=3, index=index)
        ratio = np.array(bundle.units_alone) / MIXED.deadlines
        # Whole units, and the fit of a threshold may miss by one.
        assert (ratio > low - 0.005).all()
        assert (ratio < high + 0.005).all()
        stf.add(bundle.play(ShortestFirst()).num_done)
    assert len(stf) > 1, "nothing is selected by what nearest deadline first does"


def test_what_is_reported_is_counted_on_needs_as_it_is_played() -> None:
    """Flat curves that fall to their threshold at a batch: needs are exact."""
    random = np.random.default_rng(5)
    for _ in range(40):
        num = int(random.integers(1, 7))
        deadline = np.sort(random.integers(5, 40, num)).astype(np.float64)
        needs = random.integers(1, 20, num).astype(np.float64)
        curves = [
            LossCurve(np.array([240.0 * n - 1, 240.0 * n]), np.array([2.0, 0.5])) for n in needs
        ]
        threads = [LearningThread(f"t{k}", 0, int(d), 1.0) for k, d in enumerate(deadline)]
        played = play(ShortestFirst(), threads, curves, [240.0] * num, [1.0] * num)
        assert done_by_deadline(needs, deadline) == played.num_done
        # Even shares end within units, where the count on needs does not wait for their ends.
        even = play(Uniform(), threads, curves, [240.0] * num, [1.0] * num)
        assert done_evenly(needs, deadline) >= even.num_done
    assert done_evenly(np.array([2.0, 3.0, 9.0]), np.array([6.0, 8.0, 9.0])) == 2
    assert done_evenly(np.array([2.1, 3.0, 9.0]), np.array([6.0, 8.0, 9.0])) == 1


def test_the_service_and_bundle_files_share_by_the_same_allocator() -> None:
    assert {TimeshareConfig().allocator, PoolEntry().allocator} == {DEFAULT_ALLOCATOR}


def test_an_exploration_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "bundle.toml", BUNDLE.replace('allocator = "lara"', ""))
    with pytest.raises(InputError, match=r"lara.exploration: is given; expected allocator"):
        read_bundle_file(path)


def test_a_thread_follows_the_curve_of_its_kind_and_seed(
    tmp_path: Path, curves: tuple[RecordedCurve, ...]
) -> None:
    path = write_bundle(tmp_path / "bundle.toml")
    bundle = bundle_of_file(read_bundle_file(path), curves, path)
    by_name = {curve.name: curve for curve in curves}
    followed = [by_name[name].curve for name in ("pure-1", "mixed-7", "pure-3")]
    assert list(bundle.curves) == followed
    assert bundle.rates == (81.0 * 0.5, 92.0 * 0.5, 20.0)
    assert bundle.threads[1] == LearningThread("late", 5, 40, 0.25)


def allocator_in(path: Path) -> Allocator:
    return read_bundle_file(path).allocator()


def test_the_file_names_its_allocator(tmp_path: Path) -> None:
    path = write_bundle(tmp_path / "bundle.toml")
    assert allocator_in(path) == Planner(Wls(), Exploration(batches=30.0))
    text = BUNDLE.replace('"lara"', '"stf"')
    assert allocator_in(write_bundle(path, text)) == ShortestFirst()
    text = BUNDLE.replace("exploration = 30", 'estimator = "mixture"')
    assert allocator_in(write_bundle(path, text)) == Planner(Mixture())


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("deadline = 30", "deadline = 0", "thread[0].deadline"),
        ("start = 5", "start = 50", "thread[1].deadline"),
        ('name = "late"', 'name = "easy"', "thread[1].name"),
        ("unit_seconds = 0.5", "", "thread[0].batches_per_unit"),
        ('allocator = "lara"', 'allocator = "best"', "pool.allocator"),
        ("exploration = 30", "explore = 30", "lara.explore"),
    ],
)
def test_a_wrong_key_is_named(tmp_path: Path, old: str, new: str, place: str) -> None:
    path = write_bundle(tmp_path / "bundle.toml", BUNDLE.replace(old, new, 1))
    with pytest.raises(InputError) as raised:
        read_bundle_file(path)
    assert raised.value.place == f"{path}: {place}"


def test_a_kind_that_was_not_recorded_is_named(
    tmp_path: Path, curves: tuple[RecordedCurve, ...]
) -> None:
    path = write_bundle(tmp_path / "bundle.toml", BUNDLE.replace('"k1"', '"vit"'))
    with pytest.raises(InputError, match=r"thread\[0\]\.kind: 'vit' was not recorded"):
        bundle_of_file(read_bundle_file(path), curves, path)


def test_a_thread_alone_takes_as_long_as_when_it_is_played() -> None:
    for seed in range(12):
        curve = made_up_curve(seed, num_batches=1500)
        rate, threshold = 13.7 + seed, float(curve.loss[20 * seed + 10])
        thread = LearningThread("alone", 0, max(1, int(1500 / rate)), threshold)
        played = play(Uniform(), [thread], [curve], [rate]).finish[0]
        assert units_alone(curve, rate, threshold) == played
    assert units_alone(made_up_curve(0), 10.0, 1e-9) == math.inf


def test_the_tables_bundles_have_the_papers_deadlines() -> None:
    bundles = {bundle.name: bundle for bundle in table_bundles(read_curves())}
    assert list(bundles) == ["pure", "mixed-1", "mixed-2"]
    assert [thread.deadline for thread in bundles["pure"].threads] == [500, 570, 590, 610, 630]


def test_a_table_without_its_curves_is_refused(tmp_path: Path) -> None:
    few = read_curves(write_curves(tmp_path / "few", num_pure=4, num_mixed=0))
    with pytest.raises(InputError, match="has 4 curves of bundle pure; expected 5"):
        table_bundles(few)


def test_drawn_bundles_are_the_same_for_a_seed_and_others_for_others(
    curves: tuple[RecordedCurve, ...],
) -> None:
    one, same = draw_bundle(curves, 12, 5), draw_bundle(curves, 12, 5)
    assert one.threads == same.threads
    assert one.threads != draw_bundle(curves, 12, 6).threads
    assert one.threads != draw_bundle(curves, 12, 5, index=1).threads


def test_a_drawn_bundle_without_other_runs_can_be_done_but_for_what_was_made_harder(
    curves: tuple[RecordedCurve, ...],
) -> None:
    """One after another by deadline: the two thirds that were left as they were."""
    single = curves[:5]
    for seed in range(5):
        bundle = draw_bundle(single, 9, seed)
        hard = sum(
            thread.threshold < 0.2 * level_at(curve, rate, 1.0)
            for thread, curve, rate in zip(bundle.threads, bundle.curves, bundle.rates, strict=True)
        )
        assert hard <= 3
        assert bundle.play(ShortestFirst()).num_done >= 6
        deadlines = [thread.deadline for thread in bundle.threads]
        assert deadlines == sorted(deadlines)


@pytest.mark.parametrize(("num", "place"), [(0, "num_threads"), (3, "curves")])
def test_nothing_to_draw_from_is_named(
    curves: tuple[RecordedCurve, ...], num: int, place: str
) -> None:
    with pytest.raises(InputError) as raised:
        draw_bundle(curves if num == 0 else (), num, 0)
    assert raised.value.place == place
