"""Files of outages, and what a run with them writes."""

import json
from pathlib import Path
from typing import Any

import pytest

from auctune.domain import InputError, NodeLost, NodeReturned
from auctune.sim.instance_file import read_instance
from auctune.sim.outages import read_outages
from support.command_line import run_auctune

DAY = Path(__file__).parents[3] / "examples/instances/small-day.json"
LOST = {"slot": 5, "node": "a100-0", "event": "lost"}
BACK = {"slot": 15, "node": "a100-0", "event": "returned"}


def write(folder: Path, rows: object) -> Path:
    path = folder / "events.json"
    path.write_text(json.dumps(rows))
    return path


def test_outages_are_read_by_slot(tmp_path: Path) -> None:
    cluster = read_instance(DAY).cluster
    found = read_outages(write(tmp_path, [BACK, LOST]), cluster)
    assert found == (NodeLost("a100-0", 5), NodeReturned("a100-0", 15))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([LOST | {"node": "x"}], r"\[0\].node: 'x' is no node"),
        ([LOST | {"slot": 24}], r"\[0\].slot: 24; expected a slot of the horizon, 0 to 23"),
        ([LOST, LOST | {"slot": 7}], r"\[1\].event: 'a100-0' is lost already"),
        ([BACK], r"\[0\].event: 'a100-0' is not lost"),
        ([LOST | {"event": "gone"}], r"\[0\].event: 'gone'"),
        ([LOST | {"why": "fire"}], r"\[0\].why: is an unknown key"),
        ({"slot": 5}, "events.json"),
    ],
)
def test_a_wrong_outage_is_named(tmp_path: Path, rows: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_outages(write(tmp_path, rows), read_instance(DAY).cluster)


@pytest.mark.parametrize("text", ["[", "null"])
def test_what_is_no_list_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "events.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"events\.json"):
        read_outages(path, read_instance(DAY).cluster)


@pytest.mark.parametrize("decisions", ["out.jsonl", "out.parquet"])
def test_a_run_with_outages_writes_final_plans_and_refunds(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    decisions: str,
) -> None:
    import pyarrow.parquet as pq

    monkeypatch.chdir(tmp_path)
    # Without its one quick node from slot 5 on, some of what was sold cannot be done any more.
    events = write(tmp_path, [LOST, {"slot": 6, "node": "a40-1", "event": "lost"}])
    code, shown, _ = run_auctune(
        [
            *("simulate", DAY, "--mechanism", "eft", "--events", events),
            *("--decisions", decisions, "--report", "report.json"),
        ],
        monkeypatch,
        capsys,
    )
    assert code == 0
    assert "refunded tasks" in shown
    rows: list[dict[str, Any]]
    if decisions.endswith(".jsonl"):
        rows = [json.loads(line) for line in Path(decisions).read_text().splitlines()]
    else:
        rows = pq.read_table(decisions).to_pylist()
    last = {row["task"]: row for row in rows}
    report = json.loads(Path("report.json").read_text())
    refunds = [float(row["refund"]) for row in last.values() if row["refund"]]
    assert report["outages"]["num_refunded"] == len(refunds) > 0
    assert report["outages"]["refunds"] == pytest.approx(sum(refunds))
    paid = sum(float(row["payment"]) for row in last.values())
    assert report["revenue"] == pytest.approx(paid - sum(refunds))
    for row in last.values():
        for cell in row["schedule"]:
            assert cell["node"] != "a100-0" or cell["slot"] < 5
            assert cell["node"] != "a40-1" or cell["slot"] < 6
