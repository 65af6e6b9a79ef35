"""`auctune spot` on small files: figures are those of the mechanisms, errors name their place."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from auctune.sim.spot.job_file import read_job_file
from auctune.spot import OnDemandOnly, SpotFirst, default_pool, offline_optimum, play
from support.spot_files import JOB, TRAINING, daily_market, write_job, write_market

MARKET = daily_market(60)

Ask = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def ask(auctune: Ask, tmp_path: Path) -> Ask:
    """`auctune spot NAME` with the job and the market, and more."""
    job = write_job(tmp_path / "job.toml")
    market = write_market(tmp_path / "market.csv", MARKET)

    def run(name: str, *more: str | Path) -> tuple[int, str, list[str]]:
        return auctune("spot", name, "--job", job, "--market", market, *more)

    return run


def test_simulate_shows_and_writes_what_the_policy_does(ask: Ask, tmp_path: Path) -> None:
    out = tmp_path / "slots.parquet"
    code, shown, errors = ask("simulate", "--policy", "msu", "--start", "9", "--out", out)
    assert (code, errors) == (0, [])
    job = read_job_file(tmp_path / "job.toml").spot_job()
    expected = play(SpotFirst(), job, MARKET.between(9, 13))
    frame = pl.read_parquet(out)
    held = list(zip(frame["on_demand"], frame["spot"], strict=True))
    assert held == [(one.on_demand, one.spot) for one in expected.allocations]
    assert frame["cost"].sum() == pytest.approx(expected.slot_cost, abs=1e-9)
    assert frame["progress"].to_list()[:-1] == pytest.approx(list(expected.progress)[:-1])
    optimum = offline_optimum(job, MARKET.between(9, 13)).utility
    money = expected.cost * 2.0 * 600 / 3600
    assert f"cost {expected.cost:.3f} ({money:,.2f} in money)" in shown
    assert f"utility {expected.utility:.3f}; optimum {optimum:.3f}" in shown


def test_simulate_with_jobs_shows_a_line_for_each_start(ask: Ask, tmp_path: Path) -> None:
    out = tmp_path / "slots.parquet"
    code, shown, _ = ask("simulate", "--policy", "up", "--jobs", "5", "--seed", "3", "--out", out)
    assert code == 0
    starts = pl.read_parquet(out).group_by("job").agg(pl.col("start").first()).sort("job")
    lines = re.findall(r"^ +(\d+) +\d+\.\d\d ", shown, re.MULTILINE)
    assert [int(line) for line in lines] == starts["start"].to_list()
    assert "of 5 on time" in shown


def test_compare_shows_every_policy_beside_the_optimum(ask: Ask, tmp_path: Path) -> None:
    out, charts = tmp_path / "trials.parquet", tmp_path / "charts"
    code, shown, errors = ask(
        "compare", "--policy", "od-only", "--policy", "ahap:window=3", "--forecast", "perfect",
        "--jobs", "12", "--past", "0", "--out", out, "--charts", charts,
    )  # fmt: skip
    assert (code, errors) == (0, [])
    frame = pl.read_parquet(out)
    assert len(frame) == 24
    assert (frame["utility"] <= frame["optimum"] + 1e-9).all()
    job = read_job_file(tmp_path / "job.toml").spot_job()
    for row in frame.filter(pl.col("policy") == "od-only").iter_rows(named=True):
        alone = play(OnDemandOnly(), job, MARKET.between(row["start"], row["start"] + 4))
        assert row["utility"] == alone.utility
    mean = frame.filter(pl.col("policy") == "od-only")["utility"].to_numpy().mean()
    assert re.search(rf"od-only +{mean:.2f} ± ", shown)
    assert {path.name for path in charts.iterdir()} == {"spot-policies.svg", "spot-policies.png"}


def test_compare_varies_jobs_by_seed(ask: Ask, tmp_path: Path) -> None:
    out = tmp_path / "trials.parquet"
    varied = ("--vary", "workload=8-14", "--vary", "n_min=1,2", "--vary", "n_max=5,6")
    code, shown, _ = ask(
        "compare", "--policy", "od-only", "--jobs", "30", "--past", "0", *varied, "--out", out
    )
    assert code == 0
    frame = pl.read_parquet(out)
    assert frame["workload"].n_unique() > 10
    assert set(frame["n_min"]) == {1, 2}
    assert set(frame["n_max"]) == {5, 6}
    job = read_job_file(tmp_path / "job.toml").spot_job()
    for row in frame.head(3).iter_rows(named=True):
        alone = replace(
            job, workload=row["workload"], n_min=row["n_min"], n_max=row["n_max"],
            value=1.5 * row["workload"],
        )  # fmt: skip
        market = MARKET.between(row["start"], row["start"] + 4)
        assert row["utility"] == pytest.approx(play(OnDemandOnly(), alone, market).utility)
    assert "30 jobs" in shown


def test_compare_shows_best_middle_and_worst_of_a_pool(ask: Ask, tmp_path: Path) -> None:
    pool = tmp_path / "pool.toml"
    pool.write_text("od_only = true\n[[msu]]\n[[up]]\n")
    code, shown, _ = ask(
        "compare", "--policy", "od-only", "--pool", pool, "--jobs", "8", "--past", "0"
    )
    assert code == 0
    for word in ("best", "median", "worst"):
        assert re.search(rf"{word} of 3: (msu|up|od-only) ", shown)


def test_select_keeps_its_regret_under_its_bound(ask: Ask, tmp_path: Path) -> None:
    out, charts = tmp_path / "jobs.parquet", tmp_path / "charts"
    code, shown, errors = ask(
        "select", "--jobs", "40", "--past", "0", "--learner", "known", "--forecast", "perfect",
        "--out", out, "--charts", charts,
    )  # fmt: skip
    assert (code, errors) == (0, [])
    frame = pl.read_parquet(out)
    assert len(frame) == 40 * len(default_pool())
    assert (frame["regret"] <= frame["bound"] + 1e-9).all()
    by_job = frame.group_by("job").agg(pl.col("weight").sum(), pl.col("ran").sum())
    assert np.allclose(by_job["weight"].to_numpy(), 1.0)
    assert (by_job["ran"] == 1).all()
    ran = frame.filter(pl.col("ran"))["utility"].to_numpy().mean()
    assert f"mean utility {ran:.3f} over 40 jobs, 112 policies" in shown
    assert len(list(charts.iterdir())) == 4


def test_advice_does_not_depend_on_what_comes_after_the_present(
    ask: Ask, auctune: Ask, tmp_path: Path
) -> None:
    more = ("--policy", "msu", "--start", "38", "--now", "40", "--futures", "50", "--json")
    code, shown, _ = ask("advise", *more)
    assert code == 0
    short = write_market(tmp_path / "short.csv", MARKET.until(40))
    job = ("--job", tmp_path / "job.toml")
    assert auctune("spot", "advise", *job, "--market", short, *more)[1] == shown
    advice = json.loads(shown)
    assert advice["slot"] == 2
    assert advice["cost_p50"] <= advice["cost_p90"]
    assert advice["finish_p50"] <= advice["finish_p90"]
    assert 0 <= advice["risk"] <= 1


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("simulate", ("--policy", "greedy"), "--policy: 'greedy' is not offered; expected one of"),
        ("simulate", ("--policy", "ahap:window=0"), "--policy ahap:window=0: window: 0; expected"),
        ("simulate", ("--policy", "ahap:w=3"), "--policy ahap:w=3: w: is not a setting"),
        ("simulate", ("--forecast", "oracle"), "--forecast: 'oracle' is not offered"),
        ("simulate", ("--forecast", "noisy:error=-1"), "--forecast noisy:error=-1: error: -1.0"),
        ("simulate", ("--start", "58"), "market: 60 slots; expected slots 58 to 61"),
        ("simulate", ("--start", "1", "--jobs", "2"), "--start: cannot be combined with --jobs"),
        ("simulate", ("--jobs", "0"), "--jobs: 0; expected a whole number >= 1"),
        ("compare", ("--jobs", "1000000000000"), "--jobs: 1000000000000; expected at most 100000"),
        ("simulate", ("--fixed-price", "-1"), "--fixed-price: "),
        ("compare", ("--policy", "up", "--policy", "up"), "--policy: up is given twice"),
        ("compare", ("--past", "58"), "--market: 60 slots; expected 58 + 4 at least: --past"),
        ("compare", ("--pool", "nowhere.toml"), "nowhere.toml: cannot be read"),
        ("select", ("--learner", "wise"), "--learner: 'wise'; expected one of adaptive, known"),
        ("select", ("--choice", "first"), "--choice: 'first'; expected one of draw, heaviest"),
        ("select", ("--jobs", "5", "--changes", "5"), "--changes: 5; expected fewer than the 5"),
        ("compare", ("--vary", "n_max=2-3"), "--vary: 'n_max=2-3'; expected workload=LOW-HIGH"),
        ("compare", ("--vary", "n_min=9"), "--vary: n_max: 6; expected"),
        ("advise", ("--now", "60"), "--now: 60; expected a slot of the market, 0 to 59"),
        ("advise", ("--start", "30"), "--start: 30, 29 slots before the present one; expected"),
        ("advise", ("--now", "5"), "--market: 6 slots up to the present one; expected 11 at least"),
        ("advise", ("--forecast", "perfect"), "--forecast: knows the future; expected chain"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    ask: Ask, tmp_path: Path, name: str, more: tuple[str, ...], says: str
) -> None:
    before = {path.name for path in tmp_path.iterdir()}
    code, shown, errors = ask(name, *more)
    assert (code, shown) == (2, "")
    assert len(errors) == 1
    assert says in errors[0]
    assert {path.name for path in tmp_path.iterdir()} == before


def test_no_output_is_written_over_an_input(ask: Ask, tmp_path: Path) -> None:
    code, _, errors = ask("simulate", "--out", tmp_path / "job.toml")
    assert code == 2
    assert "is read by this command" in errors[0]
    assert (tmp_path / "job.toml").read_text() == JOB


@pytest.mark.parametrize(
    ("job", "more", "says"),
    [
        (JOB, (), "training: is missing; expected [training], for a real run"),
        (JOB + '[training]\nbase = "tiny"\ndata = "x"\n', (), "training.data: 'x' is no file"),
        (JOB, ("--slot-seconds", "1", "--model-time"), "--model-time: cannot be combined with"),
        (JOB, ("--slot-seconds", "0"), "--slot-seconds: 0; expected a number > 0"),
        (JOB, ("--slot-seconds", "inf"), "--slot-seconds: inf; expected a number > 0"),
        (JOB + TRAINING, (), "rows.jsonl: line 1: "),
    ],
)
def test_a_run_that_cannot_be_leaves_nothing(
    auctune: Ask, tmp_path: Path, job: str, more: tuple[str, ...], says: str
) -> None:
    file = write_job(tmp_path / "job.toml", job)
    (tmp_path / "rows.jsonl").write_text('{"nothing": "to learn"}\n')
    market = write_market(tmp_path / "market.csv", MARKET)
    out = tmp_path / "out"
    code, _, errors = auctune("spot", "run", file, "--market", market, "--out", out, *more)
    assert code == 2
    assert says in errors[0]
    assert not out.exists()


def test_a_folder_without_a_run_is_not_resumed(auctune: Ask, tmp_path: Path) -> None:
    code, _, errors = auctune("spot", "run", "--resume", tmp_path)
    assert code == 2
    assert "holds no run" in errors[0]
    # Even where it says what would be so anyway: nothing that is given is passed over.
    code, _, errors = auctune("spot", "run", "--resume", tmp_path, "--threads", "1")
    assert code == 2
    assert "--resume DIR alone" in errors[0]
    assert not list(tmp_path.iterdir())
