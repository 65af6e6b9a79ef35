"""Comparisons and accuracy: figures are those of single plays and single questions."""

import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from auctune.sim.timeshare.accuracy import MOST_ERROR, POINTS, make_trials, measure, microseconds
from auctune.sim.timeshare.comparison import compare_allocators, write_comparison, write_play
from auctune.sim.timeshare.recorded import RecordedCurve, read_curves
from auctune.sim.timeshare.table_bundles import draw_bundle
from auctune.timeshare import Need, Rollout, ShortestFirst, Uniform, Wls
from auctune.timeshare.estimators import EstimatorLoop
from support.timeshare_files import write_curves


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> tuple[RecordedCurve, ...]:
    return read_curves(write_curves(tmp_path_factory.mktemp("recorded") / "c"))


def test_a_contest_counts_what_single_plays_do(
    tmp_path: Path, curves: tuple[RecordedCurve, ...]
) -> None:
    bundles = [draw_bundle(curves, 6, 1, index=index) for index in range(4)]
    allocators = (Uniform(), ShortestFirst(), Rollout())
    heard: list[int] = []
    comparison = compare_allocators(bundles, allocators, lambda: heard.append(1))
    assert len(heard) == 4
    for j, bundle in enumerate(bundles):
        assert comparison.done[j].tolist() == [bundle.play(a).num_done for a in allocators]
        assert comparison.optimum[j] == bundle.optimum().num_done
    score = comparison.score(1)
    assert score.done.value == comparison.done[:, 1].mean()
    assert score.of_optimum is not None
    assert score.of_optimum.value == comparison.done[:, 1].sum() / comparison.optimum.sum()
    assert score.above.value == (comparison.done[:, 1] - comparison.done[:, 0]).mean()
    file = io.BytesIO()
    write_comparison(comparison, file)
    frame = pl.read_parquet(file.getvalue())
    assert frame["done"].to_list() == comparison.done.ravel().tolist()
    assert frame["allocator"].to_list()[:3] == [a.name for a in allocators]


def test_a_play_is_written_unit_by_unit(curves: tuple[RecordedCurve, ...]) -> None:
    bundle = draw_bundle(curves, 3, 2)
    outcome = bundle.play(ShortestFirst())
    file = io.BytesIO()
    write_play(bundle, outcome, file)
    frame = pl.read_parquet(file.getvalue())
    assert frame.height == outcome.shares.size
    assert frame["share"].to_list() == outcome.shares.ravel().tolist()
    assert frame["loss"].null_count() == np.isnan(outcome.losses).sum() > 0


@dataclass(frozen=True)
class Oracle:
    """Says a multiple of the true need, or nothing."""

    trials: dict[float, float]
    factor: float
    name: str = "oracle"

    def start_bank(self, num_threads: int) -> EstimatorLoop:
        return EstimatorLoop([OracleRun(self) for _ in range(num_threads)])


class OracleRun:
    def __init__(self, params: Oracle) -> None:
        self._params, self._samples = params, 0.0

    def observe(self, samples: float, loss: float) -> None:
        self._samples = samples

    def need(self, threshold: float) -> Need:
        need = self._params.factor * (self._params.trials[threshold] - self._samples)
        return Need(need, need, need)


@pytest.mark.parametrize(
    ("factor", "error", "log_error"),
    [
        (1.0, 0.0, 0.0),
        (1.5, 0.5, math.log(1.5)),
        (0.5, 0.5, math.log(2)),
        (math.inf, MOST_ERROR, math.log(MOST_ERROR)),
    ],
)
def test_errors_are_relative_to_the_true_need(
    curves: tuple[RecordedCurve, ...], factor: float, error: float, log_error: float
) -> None:
    trials = make_trials(curves[:6], num_units=400)
    ends = {trial.threshold: float(trial.samples[trial.reached - 1]) for trial in trials}
    measured = measure(Oracle(ends, factor), trials)
    assert measured.mean == pytest.approx(error)
    assert measured.median == pytest.approx(error)
    assert measured.log_error == pytest.approx(log_error, abs=0.03)
    assert len(measured.errors) == len(POINTS)


def test_trials_end_with_the_first_unit_at_or_under_the_threshold(
    curves: tuple[RecordedCurve, ...],
) -> None:
    trials = make_trials(curves, num_units=400)
    assert trials
    for trial in trials:
        assert trial.losses[trial.reached - 1] <= trial.threshold
        assert (trial.losses[: trial.reached - 1] > trial.threshold).all()
    assert microseconds(Wls(), trials) > 0
