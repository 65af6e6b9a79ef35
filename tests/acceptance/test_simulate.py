"""`auctune simulate`: the files of a day, read back, hold together."""

import json
from pathlib import Path
from typing import Any

import pytest

from auctune.domain import Cell, Decision, Reason, Schedule
from auctune.domain.money import parse_money
from auctune.sim.feasibility import violations
from auctune.sim.instance_file import read_instance
from support.command_line import run_auctune

ROOT = Path(__file__).parents[2]
DAY = ROOT / "examples/instances/small-day.json"
OUT = ("--decisions", "d.jsonl", "--report", "r.json")
LINE = ["task", "admitted", "vendor", "payment", "value", "surplus", "schedule", "reason"]


def read_line(text: str) -> Decision:
    data: dict[str, Any] = json.loads(text)
    assert list(data) == LINE
    cells = tuple(Cell(cell["slot"], cell["node"]) for cell in data["schedule"])
    if not data["admitted"]:
        assert (data["vendor"], data["payment"], data["value"], data["surplus"]) == (
            None,
            0,
            None,
            None,
        )
    return Decision(
        data["task"],
        data["admitted"],
        parse_money(data["payment"], "payment"),
        schedule=Schedule(cells, data["vendor"]) if cells else None,
        value=data["value"],
        surplus=data["surplus"],
        reason=Reason(data["reason"]) if data["reason"] else None,
    )


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["pdftsp", "titan", "eft", "ntm"])
def test_a_day_is_decided_and_accounted_for(
    mechanism: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    command: list[str | Path] = ["simulate", DAY, "--mechanism", mechanism, *OUT]
    code, shown, errors = run_auctune(command, monkeypatch, capsys)
    assert (code, errors) == (0, [])
    assert "welfare" in shown
    market = read_instance(DAY)
    lines = Path("d.jsonl").read_text().splitlines()
    decisions = [read_line(line) for line in lines]
    assert [decision.task for decision in decisions] == [task.id for task in market.in_order()]
    assert violations(market.cluster, market.tasks, decisions) == []
    report = json.loads(Path("r.json").read_text())
    admitted = [decision for decision in decisions if decision.admitted]
    assert report["num_tasks"] == len(market.tasks)
    assert report["num_admitted"] == len(admitted) > 0
    assert report["revenue"] == pytest.approx(float(sum(d.payment for d in admitted)))
    assert report["welfare"] == pytest.approx(sum(d.value or 0.0 for d in admitted))
    assert len(report["utilization"]["compute"]) == market.cluster.slots
    assert max(report["utilization"]["compute"]) <= 1 + 1e-9
    seconds = report["decision_seconds"]
    assert 0 < seconds["p50"] <= seconds["p99"] <= seconds["max"]
    assert run_auctune(command, monkeypatch, capsys)[0] == 0
    assert Path("d.jsonl").read_text().splitlines() == lines


def test_bad_input_is_one_line_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, shown, errors = run_auctune(
        ["simulate", "no.json", "--mechanism", "eft", *OUT], monkeypatch, capsys
    )
    assert (code, shown) == (2, "")
    assert errors == [
        "auctune: no.json: the file: cannot be read (No such file or directory); "
        "expected an instance as JSON"
    ]
    assert not list(tmp_path.iterdir())
