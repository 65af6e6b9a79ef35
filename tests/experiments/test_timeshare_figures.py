"""Figures of time sharing: quick runs of some, of all in a thorough run, and their parts."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fig08_prediction
import run_all_timeshare
from auctune.domain import InputError
from auctune.sim.timeshare.recorded import RecordedCurve, read_curves
from auctune.sim.timeshare.table_bundles import PURE, calibrated_bundle
from auctune.timeshare import LossCurve, ShortestFirst, Wls
from support.refusal import refused_place
from support.thorough import THOROUGH
from timeshare_harness.fits import SEEN, fit_rows
from timeshare_harness.options import parse
from timeshare_harness.timing import Timed

pytestmark = pytest.mark.slow

QUICK = ("fig09_allocation",)
FIGURES = tuple(run_all_timeshare.FIGURES) if THOROUGH else QUICK


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    options = ["--quick", "--only", ",".join(FIGURES), "--out", str(folder)]
    run_all_timeshare.main(options)
    # Data of few bundles stand apart from those of whole runs.
    assert [path.name for path in folder.iterdir()] == ["quick"]
    return folder / "quick"


@pytest.fixture(scope="module")
def pure() -> list[RecordedCurve]:
    return [curve for curve in read_curves() if curve.bundle == "pure"]


def power_law(exponent: float) -> RecordedCurve:
    batches = np.arange(1.0, 6001.0)
    return RecordedCurve("law", "pure", "law", 0, 100.0, LossCurve(batches, 3 * batches**-exponent))


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_leaves_data_charts_and_a_table(out: Path, name: str) -> None:
    frame = pl.read_parquet(out / f"{name}.parquet")
    charts = sorted(out.glob(f"{name}*.png"))
    assert charts
    assert all(chart.read_bytes().startswith(b"\x89PNG") for chart in charts)
    assert all(chart.with_suffix(".svg").read_text().startswith("<svg") for chart in charts)
    table = run_all_timeshare.FIGURES[name].table(frame)
    assert table.rows
    assert {len(row) for row in table.rows} == {len(table.heads)}


def test_nobody_gets_more_of_the_pool_than_there_is(out: Path) -> None:
    frame = pl.read_parquet(out / "fig09_allocation.parquet")
    for own in frame.partition_by("allocator"):
        total = np.array(own["shares"].to_list()).sum(axis=0)
        assert (total <= 1 + 1e-9).all()
        late = own.filter(pl.col("finish") > pl.col("deadline"))
        assert late.is_empty()


def test_a_power_law_is_fitted_and_drawn_on_without_error() -> None:
    rows = fit_rows([power_law(0.4)])
    assert [row["estimator"] for row in rows] == ["WLS", "LS"]
    for row in rows:
        # A unit's mean is not quite the loss at its end, most of all in the first units.
        assert float(str(row["beyond"])) < 0.06
        assert float(str(row["inside"])) > 0
    bent = power_law(0.4)
    batches = bent.curve.batches
    flat = LossCurve(batches, np.maximum(bent.curve.loss, bent.curve.loss[10 * SEEN]))
    (wls, _) = fit_rows([RecordedCurve("flat", "pure", "flat", 0, 100.0, flat)])
    assert float(str(wls["beyond"])) > 0.1


def test_the_error_of_a_power_laws_need_goes_to_nothing() -> None:
    way, errors = fig08_prediction.errors_alone(power_law(0.4), 0.12, Wls())
    assert way[-1] < 1
    assert errors[-1] < 0.01
    assert errors[len(errors) // 2] < 0.1


def test_a_timed_allocator_shares_as_it_would_untimed(pure: list[RecordedCurve]) -> None:
    bundle = calibrated_bundle(PURE, pure)
    timed = Timed(ShortestFirst())
    outcome = bundle.play(timed)
    assert (outcome.shares == bundle.play(ShortestFirst()).shares).all()
    assert len(timed.seconds) == len(outcome.shares)
    assert min(timed.seconds) > 0


@pytest.mark.parametrize(
    ("arguments", "place"),
    [(["--bundles", "1"], "--bundles"), (["--seed", "-1"], "--seed")],
)
def test_a_bad_option_is_named(arguments: list[str], place: str) -> None:
    assert refused_place(parse, arguments) == place


def test_curves_of_a_bundle_that_are_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("batches,loss\n1,2.5\n")
    entry = '{"name":"a","file":"one.csv","bundle":"own","kind":"a","batches_per_second":9}'
    (tmp_path / "manifest.json").write_text(f'{{"curves":[{entry}]}}')
    with pytest.raises(InputError, match="none of bundle pure"):
        parse(["--curves", str(tmp_path)], "").curves_of("pure")


def test_the_page_has_places_of_figures_alone() -> None:
    places = re.findall(r"<!-- (\w+) -->\n\|", run_all_timeshare.PAGE.read_text())
    assert places
    assert set(places) <= run_all_timeshare.FIGURES.keys()
