"""Bids as columns that are cut, joined and placed anew; slots are counted from a bid's arrival."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np

from auctune.auction.book import Floats, Ints
from auctune.auction.dual.columns import TaskColumns, to_columns
from auctune.domain import Cluster, Quote, Task


def relative_columns(tasks: Sequence[Task], cluster: Cluster) -> TaskColumns:
    """Columns with arrival 0 and deadlines counted from it.

    Costs that a task brings itself are those of its own slots and say nothing of others: those of
    the node types stand for them.
    """
    plain = [
        task if task.operating_cost is None else replace(task, operating_cost=None)
        for task in tasks
    ]
    columns = to_columns(plain, cluster)
    return columns._replace(
        arrival=np.zeros_like(columns.arrival), deadline=columns.deadline - columns.arrival
    )


def to_tasks(columns: TaskColumns, cluster: Cluster) -> list[Task]:
    """Tasks of which `relative_columns` makes these columns again."""
    tasks = []
    for i in range(columns.num_tasks):
        offers = slice(columns.first_quote[i], columns.first_quote[i + 1])
        prices, delays = columns.quote_price[offers].tolist(), columns.quote_delay[offers].tolist()
        speeds = zip(cluster.node_types, columns.throughput[i].tolist(), strict=True)
        tasks.append(
            Task(
                id=f"{i}",
                arrival=0,
                deadline=int(columns.deadline[i]),
                work=float(columns.work[i]),
                memory_gb=float(columns.memory_gb[i]),
                bid=Decimal(float(columns.bid[i])),
                throughput={name: speed for name, speed in speeds if speed > 0},
                quotes=tuple(
                    Quote(f"{n}", Decimal(price), delay)
                    for n, (price, delay) in enumerate(zip(prices, delays, strict=True))
                ),
            )
        )
    return tasks


def choose(columns: TaskColumns, rows: Ints) -> TaskColumns:
    """These rows, in this order; a row may come twice."""
    counts = np.diff(columns.first_quote)[rows]
    first = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    starts = np.repeat(columns.first_quote[:-1][rows] - first[:-1], counts)
    quotes = starts + np.arange(first[-1])
    return columns._replace(
        arrival=columns.arrival[rows],
        deadline=columns.deadline[rows],
        work=columns.work[rows],
        memory_gb=columns.memory_gb[rows],
        bid=columns.bid[rows],
        throughput=columns.throughput[rows],
        first_quote=first,
        quote_price=columns.quote_price[quotes],
        quote_delay=columns.quote_delay[quotes],
        own_cost=columns.own_cost[rows],
    )


def join(parts: Sequence[TaskColumns]) -> TaskColumns:
    """One after the other."""
    offsets = np.cumsum([0, *(len(part.quote_price) for part in parts)])
    starts = [part.first_quote[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in TaskColumns._fields
        if name not in ("first_quote", "costs")
    }
    first_quote = np.concatenate((*starts, offsets[-1:])).astype(np.int64)
    return TaskColumns(**joined, first_quote=first_quote, costs=parts[0].costs)


def place(
    columns: TaskColumns, rows: Ints, arrival: Ints, expected: Floats, num_slots: int
) -> tuple[TaskColumns, Floats]:
    """The same number of rows for each moment, to stand for the bids that it is expected to bring.

    Args:
        columns: bids.
        rows: [G * size] of them, moment by moment.
        arrival: [G] slots of the moments.
        expected: [G] bids.
        num_slots: slots that there are.

    Returns:
        The bids with slots from 0 on, none after the last; and how many each stands for.
    """
    chosen, size = choose(columns, rows), len(rows) // len(arrival)
    arrival = np.repeat(arrival, size)
    deadline = np.minimum(arrival + chosen.deadline, num_slots - 1)
    return chosen._replace(arrival=arrival, deadline=deadline), np.repeat(expected / size, size)


def densities(columns: TaskColumns) -> Floats:
    """Money per sample of each bid above 0."""
    density: Floats = columns.bid / columns.work
    return density[density > 0]
