"""An instance: a cluster and all its bids, known in advance, for the simulator."""

from dataclasses import dataclass

from auctune.domain import Cluster, InputError, Task


@dataclass(frozen=True, slots=True)
class Instance:
    """One market to simulate.

    Attributes:
        cluster: the supply.
        tasks: by arrival; bids of one slot in the order in which they are decided.
    """

    cluster: Cluster
    tasks: tuple[Task, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for index, task in enumerate(self.tasks):
            if task.id in seen:
                raise InputError(f"tasks[{index}].id", f"{task.id!r} is there twice", "unique ids")
            seen.add(task.id)

    def in_order(self) -> list[Task]:
        """The tasks by arrival, and in their order within a slot."""
        return sorted(self.tasks, key=lambda task: task.arrival)
