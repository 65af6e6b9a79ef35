"""Streams say what files of JSON say, in bounded memory, and survive a kill."""

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from auctune.domain import InputError, NodeLost
from auctune.registry import mechanisms
from auctune.sim.engine import simulate
from auctune.sim.instance import Instance
from auctune.sim.instance_file import read_instance
from auctune.sim.metrics import measure
from auctune.sim.outages import Outage, Outages
from auctune.sim.result_file import decision_json
from auctune.sim.stream.run import DecisionParts, run_stream
from auctune.sim.stream.tasks import read_market, stream_tasks, task_columns, write_market
from auctune.sim.workloads.synthetic import SyntheticParams, make_stream
from support.command_line import run_auctune
from support.markets import random_market

DAY = Path(__file__).parents[4] / "examples/instances/small-day.json"


def timeless(report: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in report.items() if not key.endswith("_seconds")}


def test_tasks_come_back_as_they_were(tmp_path: Path) -> None:
    for seed in range(12):
        market = random_market(np.random.default_rng(seed), num_tasks=40)
        path = tmp_path / f"{seed}.parquet"
        assert write_market(market, market.tasks, path) == 40
        found = read_market(path)
        assert found == replace(market, tasks=())
        back = list(stream_tasks(path, found.cluster, batch_rows=7))
        assert back == list(market.tasks)
        # Own costs do not count in comparisons of tasks.
        assert [task.operating_cost for task in back] == [t.operating_cost for t in market.tasks]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["pdftsp", "titan", "eft", "ntm"])
def test_a_stream_decides_and_counts_as_a_file_of_json(tmp_path: Path, mechanism: str) -> None:
    market = random_market(np.random.default_rng(3), slots=40, nodes=4, num_tasks=150)
    write_market(market, market.tasks, tmp_path / "x.parquet")
    stream = read_market(tmp_path / "x.parquet")
    settings = {"pricing": "exponential"} if mechanism == "pdftsp" else {}
    with DecisionParts(tmp_path / "out.parquet", part_rows=40) as parts:
        report = run_stream(
            stream,
            stream_tasks(tmp_path / "x.parquet", stream.cluster, batch_rows=16),
            mechanisms.build(mechanism, stream.cluster, settings),
            parts,
        )
    result = simulate(market, mechanisms.build(mechanism, market.cluster, settings))
    assert timeless(report.to_json()) == timeless(measure(result).to_json())
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert len(list((tmp_path / "out.parquet").iterdir())) == 4
    for row, decision in zip(rows, result.decisions, strict=True):
        assert row.pop("refund") == 0
        assert row | {"payment": float(row["payment"])} == decision_json(decision)


def rows_of(market: Instance) -> pa.Table:
    return pq.read_table(write(market))


def write(market: Instance, path: Path = Path("day.parquet")) -> Path:
    write_market(market, market.in_order(), path)
    return path


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def test_other_kinds_of_number_are_taken_where_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    market = read_instance(DAY)
    table = rows_of(market)
    bids = [float(bid) for bid in table["bid"].to_pylist()]
    table = with_column(table, "bid", pa.array(bids))
    table = with_column(table, "arrival", table["arrival"].cast(pa.int16()))
    table = with_column(table, "id", table["id"].cast(pa.large_string()))
    pq.write_table(table.drop_columns(["operating_cost"]), "day.parquet")
    assert list(stream_tasks(Path("day.parquet"), market.cluster)) == market.in_order()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda row: row | {"deadline": 24}, r"tasks\[70\].deadline: 24 is beyond the last slot"),
        (lambda row: row | {"arrival": 0}, r"tasks\[70\].arrival: 0, after a task that arrives"),
        (lambda row: row | {"work": -1.0}, r"tasks\[70\].work: -1.0; expected samples > 0"),
        (lambda row: row | {"throughput": {}}, r"tasks\[70\].throughput: is empty"),
        (lambda row: row | {"bid": None}, "bid: holds a null"),
        (
            lambda row: row | {"quotes": [{"vendor": "a", "price": Decimal(1), "delay": -1}]},
            r"tasks\[70\].quotes\[0\].delay: -1",
        ),
        (
            lambda row: row | {"quotes": [{"vendor": "a", "price": Decimal(1), "delay": 1}] * 2},
            r"tasks\[70\].quotes\[1\].vendor: 'a' is there twice",
        ),
    ],
)
def test_a_bad_task_is_named_by_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Any, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    market = read_instance(DAY)
    rows = rows_of(market).to_pylist()
    rows[70] = change(rows[70])
    pq.write_table(pa.Table.from_pylist(rows, task_columns(market.cluster)), "day.parquet")
    with pytest.raises(InputError, match=f"day.parquet: {words}"):
        list(stream_tasks(Path("day.parquet"), market.cluster))


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("deadline", pa.array([1.5] * 74), "deadline: holds double"),
        ("id", pa.array(range(74)), "id: holds int64"),
        ("bid", pa.array(["3"] * 74), "bid: holds string"),
        ("throughput", pa.array([1.0] * 74), "throughput: is double"),
        ("throughput", pa.array([{"h100": 1.0}] * 74), "throughput.h100: is no node type"),
        ("quotes", pa.array([[1]] * 74), "quotes: holds list"),
        ("bid", pa.array([1.00001] * 74), "bid: 1.00001 has more than 4 decimals"),
    ],
)
def test_a_column_of_another_kind_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, values: Any, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    market = read_instance(DAY)
    pq.write_table(with_column(rows_of(market), column, values), "day.parquet")
    with pytest.raises(InputError, match=f"day.parquet: {words}"):
        list(stream_tasks(Path("day.parquet"), market.cluster))


def test_files_that_are_none_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    market = read_instance(DAY)
    table = rows_of(market)
    pq.write_table(table.rename_columns(["name", *table.schema.names[1:]]), "other.parquet")
    Path("text.parquet").write_text("no parquet")
    for name, words in (
        ("other", "name: is no column of the format"),
        ("text", "cannot be read"),
        ("missing", "cannot be read"),
    ):
        with pytest.raises(InputError, match=f"{name}.parquet: {words}"):
            list(stream_tasks(Path(f"{name}.parquet"), market.cluster))
    with pytest.raises(InputError, match=r"alone.json: .*cannot be read"):
        read_market(Path("alone.parquet"))
    Path("day.json").write_text(DAY.read_text())
    with pytest.raises(InputError, match=r"day.json: tasks: holds 74 tasks"):
        read_market(Path("day.parquet"))


@pytest.mark.slow
def test_no_more_than_a_batch_of_tasks_is_held(tmp_path: Path) -> None:
    params = SyntheticParams(nodes={"a100": 5}, rate=100, slots=144)
    market, bids = make_stream(params)
    path = tmp_path / "day.parquet"
    count = write_market(market, bids, path)
    assert count > 13_000
    sizes = []
    for rows in (500, 100_000):
        tracemalloc.start()
        assert sum(1 for _ in stream_tasks(path, market.cluster, rows)) == count
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert sizes[0] < sizes[1] / 8


def test_parts_are_not_written_over_others(tmp_path: Path) -> None:
    (tmp_path / "out.parquet").mkdir()
    (tmp_path / "out.parquet" / "part-000000.parquet").write_text("mine")
    with pytest.raises(InputError, match="is not empty"):
        DecisionParts(tmp_path / "out.parquet")
    with pytest.raises(InputError, match="cannot be written"):
        DecisionParts(tmp_path / "nowhere" / "out.parquet")


def test_outages_add_a_row_for_each_plan_that_they_change(tmp_path: Path) -> None:
    market = random_market(np.random.default_rng(12), slots=20, nodes=3, num_tasks=60)
    outages: list[Outage] = [NodeLost(node.id, 6) for node in market.cluster.nodes[:2]]
    with DecisionParts(tmp_path / "out.parquet") as parts:
        report = run_stream(
            market,
            market.in_order(),
            mechanisms.build("eft", market.cluster),
            parts,
            outages=Outages(market.cluster, outages),
        )
    result = simulate(market, mechanisms.build("eft", market.cluster), outages=outages)
    streamed, whole = report.to_json(), measure(result).to_json()
    # Cells are taken out again after others have come in: the last bits may differ.
    used, expected = streamed.pop("utilization"), whole.pop("utilization")
    assert used["compute"] == pytest.approx(expected["compute"])
    assert used["memory"] == pytest.approx(expected["memory"])
    assert timeless(streamed) == timeless(whole)
    rows = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert report.outages is not None
    assert len(rows) == 60 + report.outages.num_replanned > 60


@pytest.mark.slow
def test_a_killed_run_leaves_whole_parts(tmp_path: Path) -> None:
    code = """
import itertools, sys
from pathlib import Path
from auctune.domain import Decision, Reason
from auctune.sim.stream.run import DecisionParts
with DecisionParts(Path("out.parquet"), part_rows=50) as parts:
    for index in itertools.count():
        parts.add(Decision(f"t{index}", False, reason=Reason.NO_CAPACITY))
        if index == 500:
            print("going", flush=True)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    found = pq.read_table(tmp_path / "out.parquet").column("task").to_pylist()
    assert len(found) >= 500
    assert found == [f"t{index}" for index in range(len(found))]


def test_a_stream_is_simulated_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(read_instance(DAY))
    common: list[str | Path] = ["--mechanism", "eft", "--report", "r.json", "--decisions"]
    code, shown, _ = run_auctune(
        ["simulate", "day.parquet", *common, "d.parquet"], monkeypatch, capsys
    )
    assert code == 0
    assert "welfare" in shown
    streamed = json.loads(Path("r.json").read_text())
    assert run_auctune(["simulate", DAY, *common, "d.jsonl"], monkeypatch, capsys)[0] == 0
    assert timeless(streamed) == timeless(json.loads(Path("r.json").read_text()))
    for arguments, words in (
        (["day.parquet", *common, "e.jsonl"], "--decisions: e.jsonl"),
        (
            ["day.parquet", *common, "e.parquet", "--bound", "milp"],
            "--bound: cannot be combined with",
        ),
        (["day.parquet", *common, "d.parquet"], "d.parquet: is not empty"),
    ):
        code, _, errors = run_auctune(["simulate", *arguments], monkeypatch, capsys)
        assert code == 2
        assert words in errors[-1]
