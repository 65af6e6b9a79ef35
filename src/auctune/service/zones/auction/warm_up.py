"""Compiling before the first bid: a made-up market in small decides in each of the ways there are.

Kernels are compiled at their first call and kept on disk, so that this takes half a minute once on
a machine, and a second later on. What they are compiled for is the kinds of their arguments, not
the size of the market.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from auctune.domain import Admission, Cluster, EnergyForecast, Quote, RepeatedEnergy, Task

Make = Callable[[Cluster, EnergyForecast], Admission]
MakeTaught = Callable[[EnergyForecast, Sequence[Sequence[Task]]], Admission]
_SLOTS = 8
_DAYS = 3
_BIDS = 6
_MORE_THAN_ANY_NODE = 1e300


def warm_up(cluster: Cluster, make: Make, tell: Callable[[float], None]) -> None:
    """Have a mechanism that is thrown away go through some days of a market.

    Args:
        cluster: the supply whose kinds of nodes are to be sold.
        make: builds the mechanism.
        tell: told the share that is done.
    """
    small = _shrink(cluster)
    mechanism = make(small, RepeatedEnergy(small))
    last = _DAYS * _SLOTS
    for slot in range(last):
        tell(slot / last)
        mechanism.advance(slot)
        for number in range(_BIDS):
            mechanism.advance(slot)
            _bid(mechanism, _task(small, slot, number), slot, number)
    fresh = make(small, RepeatedEnergy(small))
    fresh.load(mechanism.save())
    node = small.nodes[0].id
    fresh.lose_node(node, last, ())
    fresh.state()
    tell(1.0)


def warm_up_lessons(cluster: Cluster, make: MakeTaught) -> None:
    """Have a mechanism learn before its first bid, from bids of an earlier day.

    Args:
        cluster: in small.
        make: builds the mechanism.
    """
    day = [_task(cluster, slot, number) for slot in range(_SLOTS) for number in range(_BIDS)]
    make(RepeatedEnergy(cluster), [day]).advance(0)


def _bid(mechanism: Admission, task: Task, slot: int, number: int) -> None:
    mechanism.preview(task, slot)
    menu = mechanism.quote(task, slot)
    if number == 1 and menu.lines:
        line = menu.lines[0]
        mechanism.take(replace(task, id=f"{task.id}-line", bid=line.price), line, slot)
    decision = mechanism.offer(task, slot)
    if decision.schedule is not None and number % 2:
        mechanism.release(task, decision.schedule.cells)
        mechanism.plan_rest(replace(task, quotes=()), slot + 1)
    if number == 0:
        for beyond in (
            replace(task, id="work", work=_MORE_THAN_ANY_NODE),
            replace(task, id="memory", memory_gb=_MORE_THAN_ANY_NODE),
        ):
            mechanism.preview(beyond, slot)


def _shrink(cluster: Cluster) -> Cluster:
    """A node of each kind, for a few slots."""
    slots = min(_SLOTS, cluster.slots)
    kinds = {
        name: replace(kind, energy_cost=kind.energy_cost[:slots])
        for name, kind in cluster.node_types.items()
    }
    first = {node.type: node for node in reversed(cluster.nodes)}
    return replace(
        cluster,
        slots=slots,
        node_types={name: kinds[name] for name in kinds if name in first},
        nodes=tuple(first[name] for name in kinds if name in first),
    )


def _task(cluster: Cluster, slot: int, number: int) -> Task:
    speeds = {name: kind.compute / 4 for name, kind in cluster.node_types.items()}
    room = min(kind.memory_gb for kind in cluster.node_types.values()) - cluster.base_memory_gb
    return Task(
        id=f"{slot}-{number}",
        arrival=slot + 1,
        deadline=slot + min(cluster.slots - 1, 2 + number),
        work=min(speeds.values()) * (1 + number % 3),
        memory_gb=room / 8,
        bid=Decimal(1 + 3 * number),
        throughput=speeds,
        quotes=(Quote("vendor", Decimal("0.1"), 1),) if number == 2 else (),
    )
