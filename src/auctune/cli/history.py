"""`--history`: the bids of earlier days, for mechanisms that learn from them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.domain import Cluster, Task
    from auctune.sim.comparison import Contender


def read_history(paths: Sequence[Path], cluster: "Cluster") -> "list[Sequence[Task]]":
    """The bids of each instance file, in order of arrival.

    Args:
        paths: the files, the earliest day first.
        cluster: of the market to come.

    Raises:
        InputError: naming the file, if its slots are of another length, or a bid speaks of a node
            type that this market does not have.
    """
    from auctune.sim.instance_file import read_instance

    days: list[Sequence[Task]] = []
    for path in paths:
        earlier = read_instance(path)
        if earlier.cluster.slot_seconds != cluster.slot_seconds:
            raise InputError(
                f"{path}: slot_seconds",
                f"{earlier.cluster.slot_seconds:g}",
                f"{cluster.slot_seconds:g}, as in the market to come",
            )
        for index, task in enumerate(earlier.tasks):
            _check_types(f"{path}: tasks[{index}]", task, cluster)
        days.append(earlier.in_order())
    return days


def check_learners(contenders: "Sequence[Contender]") -> None:
    """Refuse earlier days for mechanisms of which none would read them.

    Raises:
        InputError: naming the option.
    """
    from auctune import registry

    if not any(registry.learns(one.mechanism, one.settings) for one in contenders):
        names = " or ".join(one.label for one in contenders)
        raise InputError(
            "--history",
            f"nothing is learned from earlier days by {names} with these settings",
            "a mechanism that does, such as pdftsp with pricing=learned",
        )


def _check_types(place: str, task: "Task", cluster: "Cluster") -> None:
    for field, by_type in (
        ("throughput", task.throughput),
        ("operating_cost", task.operating_cost or {}),
    ):
        for name in by_type:
            if name not in cluster.node_types:
                known = ", ".join(cluster.node_types)
                raise InputError(
                    f"{place}.{field}.{name}", "is no node type of this market", f"one of {known}"
                )
