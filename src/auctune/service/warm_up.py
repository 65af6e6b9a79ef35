"""Compiling a zone's kernels before it opens: no bid waits for the compiler."""

from auctune.domain import Admission, Cluster, Task
from auctune.domain.money import LARGEST

_MORE_THAN_ANY_NODE = 1e300


def warm_up(mechanism: Admission, cluster: Cluster) -> None:
    """Have a mechanism that is thrown away do all that it may be asked.

    Args:
        mechanism: fresh.
        cluster: the one that it sells.
    """
    tasks = [
        _task("cheap", cluster, bid=False),
        _task("dear", cluster),
        _task("endless", cluster, work=_MORE_THAN_ANY_NODE),
        _task("large", cluster, memory_gb=_MORE_THAN_ANY_NODE),
    ]
    for now in range(2):
        mechanism.advance(now)
        for task in tasks:
            mechanism.preview(task, now)
            mechanism.quote(task, now)
            decision = mechanism.offer(task, now)
            if decision.schedule is not None:
                mechanism.explain(task, decision.schedule, now)
                mechanism.release(task, decision.schedule.cells[-1:])
        tasks = [_task(f"next {task.id}", cluster) for task in tasks]
    mechanism.plan_rest(_task("rest", cluster), 1)
    mechanism.advance(cluster.slots - 1)


def _task(
    name: str,
    cluster: Cluster,
    *,
    bid: bool = True,
    work: float | None = None,
    memory_gb: float = 0.0,
) -> Task:
    throughput = {kind: node.compute / 4 for kind, node in cluster.node_types.items()}
    return Task(
        name,
        0,
        min(cluster.slots - 1, 8),
        min(throughput.values()) * 1.5 if work is None else work,
        memory_gb or 1e-3,
        LARGEST if bid else LARGEST * 0,
        throughput,
    )
