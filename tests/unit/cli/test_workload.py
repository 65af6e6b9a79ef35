"""`auctune workload`, and `auctune simulate` without an instance file."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from auctune.sim.instance_file import read_instance
from auctune.sim.workloads.build import build_workload

EXAMPLES = Path(__file__).parents[3] / "examples/workloads"
JOBS = EXAMPLES / "jobs.csv"
SMALL = ("nodes=a100:2", "rate=0.5", "seed=3")

Run = Callable[..., tuple[int, str, list[str]]]


def given(option: str, *settings: str) -> list[str | Path]:
    return [part for setting in settings for part in (option, setting)]


def outputs(folder: Path) -> list[str | Path]:
    return ["--decisions", folder / "d.jsonl", "--report", folder / "r.json"]


def test_a_workload_is_written_as_an_instance(tmp_path: Path, auctune: Run) -> None:
    out = tmp_path / "day.json"
    code, said, warned = auctune("workload", "--out", out, *given("--set", *SMALL))
    assert (code, warned) == (0, [])
    market = read_instance(out)
    assert market == build_workload({"nodes": "a100:2", "rate": "0.5", "seed": "3"})
    assert said == f"{out}: {len(market.tasks)} bids for 2 nodes, 144 slots of 600 s\n"


def test_a_made_up_market_is_decided_as_its_file_would_be(tmp_path: Path, auctune: Run) -> None:
    out = tmp_path / "day.json"
    log: list[str | Path] = ["--arrivals", JOBS]
    auctune("workload", "--out", out, *log, *given("--set", "nodes=a40:3"))
    decided = []
    for name, source in (("file", [out]), ("log", [*log, *given("--workload", "nodes=a40:3")])):
        folder = tmp_path / name
        folder.mkdir()
        assert auctune("simulate", *source, "--mechanism", "eft", *outputs(folder))[0] == 0
        decided.append((folder / "d.jsonl").read_text())
    assert decided[0] == decided[1]
    assert decided[0].count("\n") == len(read_instance(out).tasks)


def test_energy_prices_show_in_the_report(tmp_path: Path, auctune: Run) -> None:
    settings = given("--workload", *SMALL, f"energy={EXAMPLES / 'prices.csv'}")
    assert auctune("simulate", *settings, "--mechanism", "eft", *outputs(tmp_path))[0] == 0
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["real_operating_cost"] < report["operating_cost"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "INSTANCE: is missing; expected a file, or --arrivals or --workload"),
        (["x.json", "--arrivals", JOBS], "--arrivals: cannot be combined with INSTANCE; exp"),
        (["x.json", "--workload", "rate=1"], "--workload: cannot be combined with INSTANCE"),
        (["--workload", "rate"], "--workload: 'rate'; expected KEY=VALUE"),
        (["--workload", "rate=much"], "--workload rate: 'much'; expected a number"),
        (["--workload", "nodes=h100:1"], "--workload nodes.h100: is no device; expected one of"),
        (["--workload", "hours=1"], "--workload hours: is no setting of a workload"),
        (["--workload", "energy=none.csv"], "none.csv: cannot be read"),
        (["--arrivals", "none.csv"], "none.csv: cannot be read"),
        (["--arrivals", JOBS, "--workload", "start_day=3"], "--workload start_day: 3 and 1 days"),
    ],
)
def test_bad_workloads_are_one_line_and_nothing_is_written(
    arguments: list[str | Path],
    message: str,
    tmp_path: Path,
    auctune: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, warned = auctune("simulate", *arguments, "--mechanism", "eft", *outputs(tmp_path))
    assert code == 2
    assert warned[-1].startswith(f"auctune: {message}")
    assert list(tmp_path.iterdir()) == []


def test_a_log_too_short_for_a_fit_is_named_by_its_file(tmp_path: Path, auctune: Run) -> None:
    log = tmp_path / "few.csv"
    log.write_text("submit_s,gpus,duration_s,user\n5,1,1,a\n100000,1,1,b\n")
    bursty = given("--set", "arrivals=bursty")
    code, _, warned = auctune("workload", "--out", tmp_path / "o.json", "--arrivals", log, *bursty)
    assert code == 2
    assert warned[-1].startswith(f"auctune: {log}: has 2 jobs on 2 days; expected 100 jobs")


def test_the_job_log_is_not_written_over(tmp_path: Path, auctune: Run) -> None:
    log = tmp_path / "jobs.csv"
    log.write_bytes(JOBS.read_bytes())
    assert auctune("workload", "--out", log, "--arrivals", log)[0] == 2
    files = ("--decisions", log, "--report", tmp_path / "r.json")
    assert auctune("simulate", "--arrivals", log, "--mechanism", "eft", *files)[0] == 2
    assert log.read_bytes() == JOBS.read_bytes()
