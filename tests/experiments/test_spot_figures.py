"""Figures of renting by deadline: quick runs of some, of all in a thorough run, and their parts."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import fig02_market
import fig06_overhead
import run_all_spot
from auctune.domain import InputError
from auctune.spot import default_pool
from fig10_drift import short_name
from ranges import Assumed
from spot_harness.margins import PAPER, play_margins, value_for
from spot_harness.markets import Markets, paper_like, with_counts, with_deviation, with_price_level
from spot_harness.noise import KINDS
from spot_harness.options import parse
from spot_harness.trials import drawn_jobs, same_job
from support.refusal import refused_place
from support.thorough import THOROUGH

pytestmark = pytest.mark.slow

QUICK = ("fig02_market", "fig07_availability")
FIGURES = tuple(run_all_spot.FIGURES) if THOROUGH else QUICK
SWEEPS = ("fig05_deadlines", "fig06_overhead", "fig07_availability", "fig08_prices")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    options = ["--quick", "--jobs", "3", "--only", ",".join(FIGURES), "--out", str(folder)]
    run_all_spot.main(options)
    # Data of few jobs stand apart from those of whole runs.
    assert [path.name for path in folder.iterdir()] == ["quick"]
    return folder / "quick"


@pytest.fixture(scope="module")
def market() -> Markets:
    return paper_like(seed=7, days=4, count=2)


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_leaves_data_charts_and_a_table(out: Path, name: str) -> None:
    frame = pl.read_parquet(out / f"{name}.parquet")
    charts = sorted(out.glob(f"{name}*.png"))
    assert charts
    assert all(chart.read_bytes().startswith(b"\x89PNG") for chart in charts)
    assert all(chart.with_suffix(".svg").read_text().startswith("<svg") for chart in charts)
    table = run_all_spot.FIGURES[name].table(frame)
    assert table.rows
    assert {len(row) for row in table.rows} == {len(table.heads)}


@pytest.mark.parametrize("name", [name for name in SWEEPS if name in FIGURES])
def test_nobody_passes_the_optimum(out: Path, name: str) -> None:
    frame = pl.read_parquet(out / f"{name}.parquet")
    assert frame["market"].n_unique() == 2
    assert (frame["utility"] <= frame["optimum"] + 1e-9).all()


def test_markets_like_the_papers_have_its_spread_and_a_daily_cycle() -> None:
    made = paper_like()
    price = np.concatenate([one.price for one in made.markets])
    assert np.median(price) / np.quantile(price, 0.9) == pytest.approx(0.6, abs=0.05)
    counts = [one.available.astype(float) for one in made.markets]
    assert min(fig02_market.explained_by_hour(count) for count in counts) > 0.15


def test_the_hour_explains_a_daily_series_wholly_and_another_not() -> None:
    daily = np.tile(np.arange(48.0), 5)
    assert fig02_market.explained_by_hour(daily) == pytest.approx(1)
    assert fig02_market.explained_by_hour(np.repeat(np.arange(5.0), 48)) == 0
    assert fig02_market.explained_by_hour(np.ones(96)) == 0


def test_counts_are_scaled_down_and_prices_moved(market: Markets) -> None:
    halved = with_counts(market, 0.5)
    for before, after in zip(market.markets, halved.markets, strict=True):
        assert (after.available == before.available // 2).all()
        assert (after.price == before.price).all()
    assert with_counts(market, 1.0).mean_count == market.mean_count
    assert with_deviation(market, 0.1).price_deviation == pytest.approx(0.1)
    assert with_deviation(market, 0.0).price_deviation == pytest.approx(0, abs=1e-12)
    dear = with_price_level(market, 0.9)
    assert np.mean([one.price.mean() for one in dear.markets]) == pytest.approx(0.9)
    # None is below 0, however far apart.
    assert min(one.price.min() for one in with_deviation(market, 2.0).markets) == 0


def test_a_bandwidth_of_800_mbps_is_the_papers_overhead() -> None:
    cost = fig06_overhead.overhead(800)
    assert (cost.mu1, cost.mu2) == (0.9, 0.95)
    shares = [fig06_overhead.overhead(mbps).mu1 for mbps in fig06_overhead.BANDWIDTHS]
    assert shares == sorted(shares)


def test_jobs_are_those_of_the_paper_and_fewer_are_the_first_of_more(market: Markets) -> None:
    many, few = drawn_jobs(market, 60, 1), drawn_jobs(market, 20, 1)
    assert few.jobs == many.jobs[:20]
    assert few.starts == many.starts[:20]
    assert {job.n_max for job in many.jobs} == {8, 12, 16}
    assert {job.n_min for job in many.jobs} == {1, 2, 4}
    assert all(60 <= job.workload <= 100 and job.deadline == 10 for job in many.jobs)


def test_forecasts_of_the_jobs_alone_are_those_of_every_slot(market: Markets) -> None:
    trials = drawn_jobs(market, 3, 0)
    kind = KINDS["fixed magnitude, heavy-tailed"]

    alone = trials.predicted(lambda one: kind.forecaster(one, 0.3, seed=5))
    for at, job, table in zip(trials.starts, trials.jobs, alone, strict=True):
        whole = market.markets[at.market]
        said = kind.forecaster(whole, 0.3, seed=5).forecast(whole.until(at.slot + 2), 5)
        assert (table.price[2] == said.price).all()
        assert len(table.price) == job.deadline


def test_at_the_value_asked_for_the_first_margin_is_the_papers(market: Markets) -> None:
    assumed = Assumed(value=1.5)
    (first,) = play_margins(same_job(market, assumed.job(), 6, 0))
    value = value_for(assumed.value, first)
    (again,) = play_margins(same_job(market, replace(assumed, value=value).job(), 6, 0))
    assert again.lead("OD-Only") == pytest.approx(PAPER["OD-Only"], abs=0.02)


def test_policies_of_the_map_have_names_of_their_own() -> None:
    names = [short_name(policy) for policy in default_pool()]
    assert len(set(names)) == 112


@pytest.mark.parametrize(
    ("arguments", "place"),
    [(["--jobs", "1"], "--jobs"), (["--seed", "-1"], "--seed")],
)
def test_a_bad_option_of_these_is_named(arguments: list[str], place: str) -> None:
    assert refused_place(parse, arguments) == place


def test_records_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the files of the benchmark"):
        parse(["--data", str(tmp_path)], "").all_markets()


def test_the_page_has_places_of_figures_alone() -> None:
    places = re.findall(r"<!-- (\w+) -->\n\|", run_all_spot.PAGE.read_text())
    assert places
    assert set(places) <= run_all_spot.FIGURES.keys()
