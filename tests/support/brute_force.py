"""The oracle of the schedule search: every schedule, priced by the definition.

Plain Python over all choices of a node or nothing in each slot, in the terms of the domain; it
shares no code with the search.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from auctune.auction.ledger import CapacityLedger
from auctune.domain import Cell, Cluster, Quote, Task
from auctune.numerics.arrays import Floats


@dataclass(frozen=True)
class Market:
    """A state of the market: prices and use by (slot, node id)."""

    cluster: Cluster
    lam: Mapping[Cell, float]
    phi: Mapping[Cell, float]
    used_compute: Mapping[Cell, float]
    used_memory: Mapping[Cell, float]


@dataclass(frozen=True)
class Choice:
    """One feasible schedule with its cost and its place in the tie order."""

    cost: float
    finish: int
    num_cells: int
    quote: int
    cells: tuple[tuple[int, int], ...]

    @property
    def ties(self) -> tuple[object, ...]:
        return (self.finish, self.num_cells, self.quote, self.cells)


def market_of(ledger: CapacityLedger, lam: Floats, phi: Floats) -> Market:
    """The state of a ledger with these prices, by cell."""

    def by_cell(array: Floats) -> dict[Cell, float]:
        return {
            Cell(slot, node): float(array[slot, n])
            for slot in range(ledger.horizon.num_slots)
            for n, node in enumerate(ledger.node_ids)
        }

    return Market(
        ledger.cluster,
        by_cell(lam),
        by_cell(phi),
        by_cell(ledger.usage.compute),
        by_cell(ledger.usage.memory),
    )


def all_choices(market: Market, task: Task, *, aggregate: str, masked: bool) -> Iterator[Choice]:
    """Every feasible schedule of `task` with every vendor."""
    nodes = market.cluster.nodes
    quotes: list[Quote | None] = list(task.quotes) or [None]
    for index, quote in enumerate(quotes):
        first = task.arrival + (0 if quote is None else quote.delay)
        slots = range(first, task.deadline + 1)
        options = [
            [None, *(n for n in range(len(nodes)) if _fits(market, task, slot, n, masked))]
            for slot in slots
        ]
        for nodes_by_slot in itertools.product(*options):
            cells = tuple(
                (slot, n) for slot, n in zip(slots, nodes_by_slot, strict=True) if n is not None
            )
            if not cells:
                continue
            done = sum(task.throughput[nodes[n].type] for _, n in cells)
            if done < task.work * (1 - 1e-9):
                continue
            cost = (0.0 if quote is None else float(quote.price)) + _cost(
                market, task, cells, aggregate
            )
            yield Choice(cost, cells[-1][0], len(cells), index, cells)


def best_choice(market: Market, task: Task, *, aggregate: str, masked: bool) -> Choice | None:
    """The first in the total order; costs equal but for rounding tie."""
    choices = list(all_choices(market, task, aggregate=aggregate, masked=masked))
    if not choices:
        return None
    least = min(choice.cost for choice in choices)
    tied = [choice for choice in choices if choice.cost <= least + 1e-11 * max(1.0, least)]
    return min(tied, key=lambda choice: choice.ties)


def _fits(market: Market, task: Task, slot: int, n: int, masked: bool) -> bool:
    node = market.cluster.nodes[n]
    kind = market.cluster.node_types[node.type]
    samples = task.throughput.get(node.type)
    if samples is None:
        return False
    cell = Cell(slot, node.id)
    compute = market.used_compute.get(cell, 0.0) if masked else 0.0
    memory = market.used_memory.get(cell, 0.0) if masked else 0.0
    room = kind.memory_gb - market.cluster.base_memory_gb
    return compute + samples <= kind.compute * (1 + 1e-9) and memory + task.memory_gb <= room * (
        1 + 1e-9
    )


def _cost(market: Market, task: Task, cells: tuple[tuple[int, int], ...], aggregate: str) -> float:
    nodes = market.cluster.nodes
    named = [Cell(slot, nodes[n].id) for slot, n in cells]
    types = [nodes[n].type for _, n in cells]
    samples = [task.throughput[name] for name in types]
    operating = sum(
        operating_cost(market.cluster, task, name, cell.slot)
        for name, cell in zip(types, named, strict=True)
    )
    if aggregate == "max":
        lam = max(market.lam[cell] for cell in named)
        phi = max(market.phi[cell] for cell in named)
        return operating + lam * sum(samples) + phi * task.memory_gb * len(named)
    return operating + sum(
        market.lam[cell] * s + market.phi[cell] * task.memory_gb
        for cell, s in zip(named, samples, strict=True)
    )


def operating_cost(cluster: Cluster, task: Task, node_type: str, slot: int) -> float:
    """e_ikt by its definition."""
    if task.operating_cost is not None and node_type in task.operating_cost:
        return task.operating_cost[node_type][slot]
    kind = cluster.node_types[node_type]
    return task.throughput[node_type] / kind.compute * kind.energy_cost[slot]
