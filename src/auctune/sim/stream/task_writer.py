"""A market into a parquet file of tasks, a row group at a time, and a JSON file of its cluster."""

import itertools
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from auctune.atomic_files import AtomicFiles
from auctune.domain import Task
from auctune.sim.instance import Instance
from auctune.sim.instance_file import instance_json
from auctune.sim.stream.columns import task_columns
from auctune.sim.stream.task_reader import BATCH_ROWS


def write_market(market: Instance, tasks: Iterable[Task], path: Path) -> int:
    """Write NAME.parquet with the tasks, and NAME.json with the cluster; how many tasks.

    Args:
        market: the cluster; its own tasks are left out.
        tasks: by arrival; one row group of them is held at a time.
        path: NAME.parquet. What is there is replaced once all is written.

    Raises:
        InputError: if a file cannot be written.
    """
    schema = task_columns(market.cluster)
    left, count = iter(tasks), 0
    with AtomicFiles([path, path.with_suffix(".json")]) as (task_file, cluster_file):
        json.dump(instance_json(replace(market, tasks=())), cluster_file, ensure_ascii=False)
        with pq.ParquetWriter(task_file.buffer, schema) as writer:
            while rows := [_row(task) for task in itertools.islice(left, BATCH_ROWS)]:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                count += len(rows)
    return count


def _row(task: Task) -> dict[str, Any]:
    own = task.operating_cost
    return {
        "id": task.id,
        "arrival": task.arrival,
        "deadline": task.deadline,
        "work": task.work,
        "memory_gb": task.memory_gb,
        "bid": task.bid,
        "throughput": dict(task.throughput),
        "quotes": [
            {"vendor": quote.vendor, "price": quote.price, "delay": quote.delay}
            for quote in task.quotes
        ],
        "operating_cost": own and {name: list(costs) for name, costs in own.items()},
    }
