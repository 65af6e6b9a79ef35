"""Tasks from a parquet file, a batch at a time, in bounded memory.

The cluster stands beside NAME.parquet in NAME.json: an instance file without tasks.
"""

import itertools
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from auctune.domain import Cluster, InputError, Quote, Task, check_task, parse_money
from auctune.sim.instance import Instance, check_vendors
from auctune.sim.instance_file import read_instance
from auctune.sim.stream.columns import MONEY, QUOTE, check_columns, task_columns

BATCH_ROWS = 8192


def read_market(path: Path) -> Instance:
    """The market of a task file, without its tasks.

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
    """The tasks in a file, in their order; about `batch_rows` of them are held at a time.

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
        """The tasks, checked against the cluster."""
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
        """All quotes of the batch, one task's after the other's."""
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
