"""Whether decisions can be carried out: constraints 4a to 4h (Zheng et al., ICPP 2024).

| constraint | says |
| --- | --- |
| 4a | one vendor for an admitted task whose data need work, none else |
| 4b | at most one node a slot |
| 4c | no cell before arrival + the vendor's delay |
| 4d | no cell after the deadline |
| 4e | the cells do the work |
| 4f, 4g | no cell holds more than its node's compute, and memory beside the base |
| 4h | each task is admitted whole or not at all, and decided once |

It shares no code with any mechanism. Sums of float64 may differ in their last bits by the order
in which they are taken, so it allows a little more than the slack of 1e-9 that mechanisms use.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from auctune.domain import Cell, Cluster, Decision, NodeLost, Schedule, Task
from auctune.sim.outages import Change, Outage

_SLACK = 1e-9 + 1e-12


def violations(
    cluster: Cluster,
    tasks: Sequence[Task],
    decisions: Sequence[Decision],
    *,
    outages: Sequence[Outage] = (),
    changes: Sequence[Change] = (),
) -> list[str]:
    """Every constraint that the decisions break, in words; empty if they can be carried out.

    Args:
        cluster: the supply.
        tasks: all that were offered.
        decisions: all that were made, in any order.
        outages: nodes that were lost and returned: nothing may run on a node in between.
        changes: of plans, in their order; the last one of a task counts. A refunded task need not
            get its work done.
    """
    by_id = {task.id: task for task in tasks}
    found = list(_undecided(by_id, decisions))
    type_of = {node.id: node.type for node in cluster.nodes}
    last = {change.task.id: change for change in changes}
    gone = _lost_slots(cluster, outages)
    compute: dict[Cell, float] = defaultdict(float)
    memory: dict[Cell, float] = defaultdict(float)
    for decision in decisions:
        task, schedule = by_id.get(decision.task), decision.schedule
        if task is None or schedule is None:
            continue
        change = last.get(task.id)
        cells = schedule.cells if change is None else change.cells
        unknown = [cell for cell in cells if cell.node not in type_of]
        unfit = [
            cell
            for cell in cells
            if cell not in unknown and type_of[cell.node] not in task.throughput
        ]
        if unknown or unfit:
            found.append(f"{task.id}: runs on {(unknown + unfit)[0]}, where it cannot")
            continue
        found += [f"{task.id}: runs on {cell}, which is lost" for cell in cells if cell in gone]
        if change is None or not change.refunded:
            plan = Schedule(cells, schedule.vendor)
            found += _broken_by_task(cluster, task, plan, type_of)
        for cell in cells:
            compute[cell] += task.throughput[type_of[cell.node]]
            memory[cell] += task.memory_gb
    return found + list(_overfull(cluster, type_of, compute, memory))


def _lost_slots(cluster: Cluster, outages: Sequence[Outage]) -> set[Cell]:
    gone: set[Cell] = set()
    for outage in sorted(outages, key=lambda outage: outage.now):
        rest = {Cell(slot, outage.node) for slot in range(outage.now, cluster.slots)}
        gone = gone | rest if isinstance(outage, NodeLost) else gone - rest
    return gone


def _undecided(by_id: dict[str, Task], decisions: Sequence[Decision]) -> Iterator[str]:
    times = Counter(decision.task for decision in decisions)
    for name in by_id:
        if times[name] != 1:
            yield f"4h: {name} was decided {times[name]} times"
    for decision in decisions:
        if decision.task not in by_id:
            yield f"4h: {decision.task} was decided and never offered"
        if decision.admitted != (decision.schedule is not None):
            yield f"4h: {decision.task} is admitted without a schedule, or has one and is not"


def _broken_by_task(
    cluster: Cluster, task: Task, schedule: Schedule, type_of: dict[str, str]
) -> Iterator[str]:
    delays = {quote.vendor: quote.delay for quote in task.quotes}
    if (schedule.vendor in delays) != bool(task.quotes) or (
        not task.quotes and schedule.vendor is not None
    ):
        yield f"4a: {task.id} has vendor {schedule.vendor!r} of {sorted(delays)}"
    delay = delays.get(schedule.vendor or "", 0)
    slots = [cell.slot for cell in schedule.cells]
    if len(set(slots)) < len(slots):
        yield f"4b: {task.id} runs on two nodes in one slot"
    if min(slots) < task.arrival + delay:
        yield f"4c: {task.id} runs in slot {min(slots)}, before {task.arrival} + {delay}"
    if max(slots) > min(task.deadline, cluster.slots - 1):
        yield f"4d: {task.id} runs in slot {max(slots)}, after {task.deadline}"
    done = sum(task.throughput[type_of[cell.node]] for cell in schedule.cells)
    if done < task.work * (1 - _SLACK):
        yield f"4e: {task.id} does {done} of {task.work}"


def _overfull(
    cluster: Cluster,
    type_of: dict[str, str],
    compute: dict[Cell, float],
    memory: dict[Cell, float],
) -> Iterator[str]:
    for cell in compute:
        kind = cluster.node_types[type_of[cell.node]]
        room = kind.memory_gb - cluster.base_memory_gb
        if compute[cell] > kind.compute * (1 + _SLACK):
            yield f"4f: {cell} holds {compute[cell]} of {kind.compute} samples"
        if memory[cell] > room * (1 + _SLACK):
            yield f"4g: {cell} holds {memory[cell]} of {room} GB"
