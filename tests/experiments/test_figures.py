"""Quick runs of figures, of all in a thorough run: data, charts, and what must hold of any run."""

from pathlib import Path

import polars as pl
import pytest

import run_all
from harness.trials import MECHANISMS, SCHEMA
from support.pages import ROOT
from support.thorough import THOROUGH

pytestmark = pytest.mark.slow

FOUND = ("fig09_deadlines",)
OTHERS = (
    *("fig10_truthfulness", "fig11_rationality", "fig12_competitiveness", "fig13_time"),
    *("attainable", "learned_sensitivity"),
)
FIGURES = tuple(run_all.FIGURES) if THOROUGH else (*FOUND, *OTHERS)
WELFARE = [name for name in FIGURES if name not in OTHERS]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    trace = ROOT / "examples" / "workloads" / "jobs.csv"
    options = ["--quick", "--seeds", "1", "--workers", "1", "--trace", str(trace)]
    if not THOROUGH:
        options += ["--market", "rate=20"]
    options += ["--only", ",".join(FIGURES)]
    run_all.main([*options, "--out", str(folder)])
    # Data of small markets stand apart from those of whole runs.
    assert [path.name for path in folder.iterdir()] == ["quick"]
    return folder / "quick"


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_leaves_data_and_charts(out: Path, name: str) -> None:
    assert len(pl.read_parquet(out / f"{name}.parquet")) > 0
    assert (out / f"{name}.svg").read_text().startswith("<svg")
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", WELFARE)
def test_no_mechanism_passes_the_bound(out: Path, name: str) -> None:
    frame = pl.read_parquet(out / f"{name}.parquet")
    assert dict(frame.schema) == dict(SCHEMA)
    assert (frame["welfare"] <= frame["bound"]).all()
    assert (frame["welfare"] > 0).all()
    assert set(MECHANISMS) <= set(frame["entry"])


def test_the_optimum_is_never_passed_either(out: Path) -> None:
    frame = pl.read_parquet(out / "fig12_competitiveness.parquet")
    assert set(frame["bound_kind"]) == {"lp", "milp"}
    assert (frame["competitive"] >= 1).all()


def test_no_lie_gains_where_the_critical_payment_is_charged(out: Path) -> None:
    frame = pl.read_parquet(out / "fig10_truthfulness.parquet").filter(pl.col("rule") == "critical")
    truth = frame.filter(pl.col("bid") == pl.col("value")).select("task", truth="utility")
    joined = frame.join(truth, on="task")
    assert joined["admitted"].any()
    assert (joined["utility"] <= joined["truth"]).all()


def test_no_winner_pays_more_than_it_bid(out: Path) -> None:
    frame = pl.read_parquet(out / "fig11_rationality.parquet")
    assert frame["shown"].sum() == min(10, len(frame))
    assert (frame["payment"].cast(pl.Float64) <= frame["bid"].cast(pl.Float64)).all()


def test_times_are_those_of_both_mechanisms(out: Path) -> None:
    frame = pl.read_parquet(out / "fig13_time.parquet")
    assert frame["entry"].n_unique() == 3
    assert (frame["microseconds"] > 0).all()
