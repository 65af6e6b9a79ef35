"""Quick runs of the edge's figures, of all in a thorough run: data, charts, what must hold."""

from pathlib import Path

import polars as pl
import pytest

import run_all_edge
from support.thorough import THOROUGH

pytestmark = pytest.mark.slow

FOUND = ("fig04_testbed_rejected", "fig07_utilization", "fig11_price_bases")
FIGURES = tuple(run_all_edge.FIGURES) if THOROUGH else FOUND


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edge")
    options = ["--quick", "--seeds", "1", "--time-limit", "2", "--only", ",".join(FIGURES)]
    run_all_edge.main([*options, "--out", str(folder)])
    # Data of small settings stand apart from those of whole runs.
    assert [path.name for path in folder.iterdir()] == ["quick"]
    return folder / "quick"


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_leaves_data_and_charts(out: Path, name: str) -> None:
    frame = pl.read_parquet(out / f"{name}.parquet")
    assert len(frame) > 0
    table = run_all_edge.FIGURES[name].table(frame)
    assert table.rows
    assert {len(row) for row in table.rows} == {len(table.heads)}
    if "ratio" in frame.columns:
        assert (frame["ratio"].drop_nulls() >= 1).all()
    assert (out / f"{name}.svg").read_text().startswith("<svg")
    assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_no_more_is_sold_than_there_is(out: Path) -> None:
    frame = pl.read_parquet(out / "fig07_utilization.parquet")
    assert frame.columns == ["entry", "seed", "slot", "gpu", "cpu", "ram_gb", "data"]
    assert frame["entry"].unique(maintain_order=True).to_list() == ["Eris", "Eris, eq. 6"]
    for name in frame.columns[3:]:
        assert frame[name].is_between(0, 1 + 1e-9).all()


def test_prices_by_share_do_not_depend_on_the_price_base(out: Path) -> None:
    frame = pl.read_parquet(out / "fig11_price_bases.parquet")
    assert frame.filter(pl.col("entry") == "Eris")["welfare"].n_unique() == 1
    assert frame.filter(pl.col("entry") == "Eris, eq. 6")["welfare"].n_unique() > 1


def test_a_late_job_counts_with_the_rejected_ones_in_the_second_count_alone(out: Path) -> None:
    frame = pl.read_parquet(out / "fig04_testbed_rejected.parquet")
    assert (frame["rejected"] <= frame["rejected_or_late"]).all()
    assert (frame["rejected_or_late"] <= frame["rejected"] + frame["run"]).all()
    assert (frame["rejected"] < frame["rejected_or_late"]).any()


def test_differences_are_those_on_the_same_jobs(out: Path) -> None:
    frame = pl.read_parquet(out / "fig11_price_bases.parquet")
    rows = {row[0]: row for row in run_all_edge.FIGURES["fig11_price_bases"].table(frame).rows}
    paper, own = (
        frame.filter((pl.col("setting") == "2") & (pl.col("entry") == name))["welfare"].to_numpy()
        for name in ("Eris, eq. 6", "Eris")
    )
    shown = float(rows["Eris, eq. 6 less Eris"][1].split(" ")[0].replace(",", ""))
    assert shown == pytest.approx((paper - own).mean(), abs=0.5)
