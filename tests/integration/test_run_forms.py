"""Data in the forms that people have, through a whole run: each job's own method, one base."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from auctune.engine.market.report_data import TaskState
from auctune.standalone.market import run_market
from support.market_runs import EXAMPLE, quiet, report_of, with_change, write_market

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]
pytestmark = pytest.mark.slow


def write_data(folder: Path) -> None:
    """The rows of one example as a Parquet of Alpaca's, a packed CSV of ratings, and pairs."""
    text = (EXAMPLE / "data" / "sums.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()[:24]]
    asked = [row["prompt"] for row in rows]
    answers = [row["completion"] for row in rows]
    alpaca = [
        {"instruction": ask, "input": "", "output": answer}
        for ask, answer in zip(asked, answers, strict=True)
    ]
    parquet.write_table(pyarrow.Table.from_pylist(alpaca), folder / "alpaca.parquet")
    lines = [
        f'"{ask}","{answer}",{n % 2 == 0}'
        for n, (ask, answer) in enumerate(zip(asked, answers, strict=True))
    ]
    table = "\n".join(["prompt,completion,label", *lines])
    (folder / "ratings.csv.gz").write_bytes(gzip.compress(table.encode()))
    pairs = [
        {"prompt": ask, "chosen": answer, "rejected": f"{answer} or so"}
        for ask, answer in zip(asked, answers, strict=True)
    ]
    (folder / "pairs.json").write_text(json.dumps(pairs, indent=1))


def test_jobs_of_all_methods_train_beside_each_other(in_cache: Path, tmp_path: Path) -> None:
    bid = {"bid": 9.0, "arrival": 0, "deadline": 9, "rank": 4, "share": 0.1}
    bids: list[dict[str, Any]] = [
        {"id": "alpaca", "data": "alpaca.parquet", **bid},
        {"id": "ratings", "data": "ratings.csv.gz", "method": "kto", "batch_size": 6, **bid},
        {"id": "pairs", "data": "pairs.json", "method": "dpo", "batch_size": 6, **bid},
    ]
    market = write_market(tmp_path / "market", with_change(("bids",), bids))
    write_data(tmp_path / "market")
    run_market(market, tmp_path / "out", quiet())
    tasks = {task.id: task for task in report_of(tmp_path / "out").tasks}
    assert {name: task.reason for name, task in tasks.items()} == dict.fromkeys(tasks)
    assert {name: task.state for name, task in tasks.items()} == dict.fromkeys(
        ("alpaca", "ratings", "pairs"), TaskState.DONE
    )
    for name, first in (("ratings", 0.5), ("pairs", 0.693)):
        points = (tmp_path / "out" / "tasks" / name / "losses.jsonl").read_text().splitlines()
        # Before anything is learnt, an adapter is its own base.
        assert json.loads(points[0])["loss"] == pytest.approx(first, abs=1e-3)
