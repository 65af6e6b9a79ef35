"""The days of an instance: 86,400 seconds each, from its first slot on."""

from collections.abc import Sequence

from auctune.domain import Cluster, Task

DAY_SECONDS = 86_400


def num_days(cluster: Cluster) -> int:
    """Days that the horizon touches; one at least."""
    return day_of(cluster, cluster.slots - 1) + 1


def day_of(cluster: Cluster, slot: int) -> int:
    """The day in which a slot begins, from 0."""
    return int(slot * cluster.slot_seconds // DAY_SECONDS)


def tasks_by_day(cluster: Cluster, tasks: Sequence[Task]) -> list[list[Task]]:
    """The tasks that arrive on each day, in their order."""
    days: list[list[Task]] = [[] for _ in range(num_days(cluster))]
    for task in tasks:
        days[day_of(cluster, task.arrival)].append(task)
    return days
