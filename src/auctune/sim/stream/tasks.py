"""Files of tasks in columns (parquet), read and written in batches."""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auctune.domain import Cluster, InputError, Quote, Task, check_task, parse_money
from auctune.files.atomic import AtomicFiles
from auctune.sim.instance import Instance, check_vendors
from auctune.sim.instance_file import instance_json, read_instance

# The columns of task and decision files; docs/reference/streams.md.
#
# | kind of file | a row |
# | --- | --- |
# | tasks | a bid, with the fields of an instance file's task |
# | decisions | a decision, with the fields of OUT.jsonl; with outages also a change of a plan |


# Every amount that fits is below the largest one that a market takes, 10**11.
MONEY = pa.decimal128(15, 4)

QUOTE = pa.struct([("vendor", pa.string()), ("price", MONEY), ("delay", pa.int64())])
CELL = pa.struct([("slot", pa.int64()), ("node", pa.string())])

DECISIONS = pa.schema(
    [
        ("task", pa.string()),
        ("admitted", pa.bool_()),
        ("vendor", pa.string()),
        ("payment", MONEY),
        ("value", pa.float64()),
        ("surplus", pa.float64()),
        ("schedule", pa.list_(CELL)),
        ("reason", pa.string()),
        ("refund", MONEY),
    ]
)


def task_columns(cluster: Cluster) -> pa.Schema:
    """Return the columns of a task file; node types are fields of its structs."""
    types = list(cluster.node_types)
    return pa.schema(
        [
            ("id", pa.string()),
            ("arrival", pa.int64()),
            ("deadline", pa.int64()),
            ("work", pa.float64()),
            ("memory_gb", pa.float64()),
            ("bid", MONEY),
            ("throughput", pa.struct([(name, pa.float64()) for name in types])),
            ("quotes", pa.list_(QUOTE)),
            ("operating_cost", pa.struct([(name, pa.list_(pa.float64())) for name in types])),
        ]
    )


OPTIONAL = ("quotes", "operating_cost")


def check_columns(found: pa.Schema, cluster: Cluster) -> None:
    """Refuse a task file that has other columns than it should.

    Numbers may be of any kind that converts without loss; text is text.

    Raises:
        InputError: naming the column.
    """
    expected = task_columns(cluster)
    for name in found.names:
        if name not in expected.names:
            raise InputError(name, "is no column of the format", ", ".join(expected.names))
    for name in expected.names:
        if name not in found.names:
            if name in OPTIONAL:
                continue
            raise InputError(name, "is missing", f"a column of {expected.field(name).type}")
    for name in ("throughput", "operating_cost"):
        if name in found.names:
            _check_types(found.field(name).type, name, cluster)


def _check_types(found: pa.DataType, name: str, cluster: Cluster) -> None:
    known = ", ".join(cluster.node_types)
    if not pa.types.is_struct(found):
        raise InputError(name, f"is {found}", f"a struct with a field for each of {known}")
    for field in found:
        if field.name not in cluster.node_types:
            raise InputError(f"{name}.{field.name}", "is no node type", f"one of {known}")


BATCH_ROWS = 8192


def read_market(path: Path) -> Instance:
    """Return the market of a task file, without its tasks.

    Raises:
        InputError: if the file with the cluster is missing, is no instance, or has tasks itself.
    """
    beside = path.with_suffix(".json")
    market = read_instance(beside)
    if market.tasks:
        raise InputError(
            f"{beside}: tasks", f"holds {len(market.tasks)} tasks", f"none: they are in {path.name}"
        )
    return market


def stream_tasks(path: Path, cluster: Cluster, batch_rows: int = BATCH_ROWS) -> Iterator[Task]:
    """Return the tasks in a file, in their order; about `batch_rows` of them are held at a time.

    Ids are not compared with each other: that would need all of them.

    Raises:
        InputError: `FILE: tasks[3].deadline: found; expected ...`, when it is reached: for a file
            that is no parquet, other columns, a value out of range, or a task that arrives before
            the one above it.
    """
    try:
        yield from _tasks(path, cluster, batch_rows)
    except InputError as error:
        raise error.within(str(path)) from None
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error})", "a parquet file") from None
    except pa.ArrowException as error:
        raise InputError(str(path), f"cannot be read ({error})", "a parquet file") from None


def _tasks(path: Path, cluster: Cluster, batch_rows: int) -> Iterator[Task]:
    with pq.ParquetFile(path) as file:
        check_columns(file.schema_arrow, cluster)
        index, before = 0, 0
        # Threads would read ahead, and change nothing but the memory that it takes.
        for batch in file.iter_batches(batch_rows, use_threads=False):
            for task in _Batch(batch, index, cluster).tasks():
                if task.arrival < before:
                    raise InputError(
                        f"tasks[{index}].arrival",
                        f"{task.arrival}, after a task that arrives in {before}",
                        "tasks by arrival",
                    )
                before = task.arrival
                index += 1
                yield task


class _Batch:
    """The rows of a batch, turned from columns into tasks."""

    def __init__(self, batch: pa.RecordBatch, first: int, cluster: Cluster) -> None:
        self._first = first
        self._cluster = cluster
        self._kinds = task_columns(cluster)
        self._columns = {name: batch.column(name) for name in batch.schema.names}

    def tasks(self) -> Iterator[Task]:
        """Return the tasks, checked against the cluster."""
        columns = self._columns
        plain = (
            self._values(columns[name], self._kinds.field(name).type, name)
            for name in ("id", "arrival", "deadline", "work", "memory_gb", "bid")
        )
        rows: Iterator[Any] = zip(
            *plain, self._speeds(), self._num_quotes(), self._own_costs(), strict=False
        )
        quotes = self._quotes()
        for index, row in enumerate(rows, start=self._first):
            name, arrival, deadline, work, memory_gb, bid, speeds, num_quotes, costs = row
            try:
                offers = _make_quotes(quotes, num_quotes)
                task = Task(name, arrival, deadline, work, memory_gb, bid, speeds, offers, costs)
                check_task(task, self._cluster)
                check_vendors(task)
            except InputError as error:
                place = f"tasks[{index}].{error.place}"
                raise InputError(place, error.found, error.expected) from None
            yield task

    def _speeds(self) -> list[dict[str, float]]:
        column = self._columns["throughput"]
        by_type = [
            (field.name, self._cast(part, pa.float64(), f"throughput.{field.name}").to_pylist())
            for field, part in zip(column.type, column.flatten(), strict=True)
        ]
        return [
            {name: values[row] for name, values in by_type if values[row] is not None}
            for row in range(len(column))
        ]

    def _own_costs(self) -> Iterable[dict[str, tuple[float, ...]] | None]:
        column = self._columns.get("operating_cost")
        if column is None or column.null_count == len(column):
            return itertools.repeat(None)
        rows = self._cast(column, pa.struct(list(column.type)), "operating_cost").to_pylist()
        return [
            row and {name: tuple(costs) for name, costs in row.items() if costs is not None}
            for row in rows
        ]

    def _num_quotes(self) -> Iterable[int]:
        column = self._columns.get("quotes")
        if column is None:
            return itertools.repeat(0)
        if not pa.types.is_list(column.type) or not pa.types.is_struct(column.type.value_type):
            raise InputError("quotes", f"holds {column.type}", f"lists of {QUOTE}")
        lengths: list[int] = pc.fill_null(pc.list_value_length(column), 0).to_pylist()
        return lengths

    def _quotes(self) -> Iterator[tuple[str, Decimal, int]]:
        """Return all quotes of the batch, one task's after the other's."""
        column = self._columns.get("quotes")
        if column is None:
            return iter(())
        flat = column.flatten()
        names = [field.name for field in flat.type]
        if sorted(names) != ["delay", "price", "vendor"]:
            raise InputError("quotes", f"has the fields {', '.join(names)}", f"those of {QUOTE}")
        parts = dict(zip(names, flat.flatten(), strict=True))
        return zip(
            *(self._values(parts[kind.name], kind.type, f"quotes.{kind.name}") for kind in QUOTE),
            strict=True,
        )

    def _values(self, column: pa.Array, kind: pa.DataType, name: str) -> list[Any]:
        """Without nulls, as Python's values of `kind`."""
        if column.null_count:
            raise InputError(name, "holds a null", f"values of {kind}")
        if kind == MONEY and pa.types.is_floating(column.type):
            return [parse_money(value, name) for value in column.to_pylist()]
        return self._cast(column, kind, name).to_pylist()  # type: ignore[no-any-return]

    def _cast(self, column: pa.Array, kind: pa.DataType, name: str) -> pa.Array:
        found = column.type
        is_text = pa.types.is_string(found) or pa.types.is_large_string(found)
        try:
            if is_text == pa.types.is_string(kind) and not pa.types.is_boolean(found):
                return column.cast(kind)
        except pa.ArrowException:
            # A number that the kind cannot hold: a fraction of a slot, a fifth decimal of money.
            pass
        raise InputError(name, f"holds {found}", f"values of {kind}, without loss")


def _make_quotes(quotes: Iterator[tuple[str, Decimal, int]], count: int) -> tuple[Quote, ...]:
    made: list[Quote] = []
    for index, quote in enumerate(itertools.islice(quotes, count)):
        try:
            made.append(Quote(*quote))
        except InputError as error:
            place = f"quotes[{index}].{error.place}"
            raise InputError(place, error.found, error.expected) from None
    return tuple(made)


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
