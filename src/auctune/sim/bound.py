"""Upper bounds on the welfare of an instance, all its bids known in advance.

| kind | what |
| --- | --- |
| `none` | no bound |
| `lp` | the linear relaxation by node type, through its dual: any size |
| `milp` | the optimum itself, node by node; or what its search has proven when it was stopped |

Each holds for all decisions that can be carried out. The bound of a day is that of the tasks which
arrive on it, as if they had all nodes in all slots to themselves: it holds for their part of the
welfare.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from auctune.auction.dual import lagrangian_bound
from auctune.auction.offline import num_cells, offline_optimum
from auctune.domain import Cluster, InputError, Task
from auctune.numerics.highs import SolveOptions
from auctune.sim.instance import Instance, num_days, tasks_by_day

LARGEST_MILP = 20_000
"""Cells (task, slot, node) of the largest instance that is tried by `milp`."""

# Searches of the largest instance end within some minutes.
_MILP = SolveOptions(max_nodes=200)


@dataclass(frozen=True, slots=True)
class WelfareBound:
    """An upper bound on the welfare of an instance.

    Attributes:
        kind: see the module.
        value: money; none for kind `none`.
        exact: whether it is the optimum, but for the solver's tolerances.
        by_day: of the tasks that arrive on each day; empty for kind `none`, and where the
            instance does not go beyond one day.
    """

    kind: str = "none"
    value: float | None = None
    exact: bool = False
    by_day: tuple[float, ...] = ()


def bound_kinds() -> tuple[str, ...]:
    """Return what `welfare_bound` takes."""
    return ("none", *_KINDS)


def welfare_bound(kind: str, instance: Instance) -> WelfareBound:
    """Return a bound of this kind.

    Raises:
        InputError: for an unknown kind, or an instance that is too large for `milp`.
    """
    if kind not in bound_kinds():
        raise InputError("bound", f"{kind!r} is not offered", f"one of {', '.join(bound_kinds())}")
    if kind == "none":
        return WelfareBound()
    find, cluster = _KINDS[kind], instance.cluster
    value, exact = find(cluster, instance.tasks)
    if num_days(cluster) == 1:
        return WelfareBound(kind, value, exact)
    by_day = tuple(find(cluster, tasks)[0] for tasks in tasks_by_day(cluster, instance.tasks))
    return WelfareBound(kind, min(value, sum(by_day)), exact, by_day)


def _relaxation(cluster: Cluster, tasks: Sequence[Task]) -> tuple[float, bool]:
    return lagrangian_bound(cluster, tasks).value, False


def _optimum(cluster: Cluster, tasks: Sequence[Task]) -> tuple[float, bool]:
    size = num_cells(cluster, tasks)
    if size > LARGEST_MILP:
        raise InputError(
            "bound",
            f"milp is out of reach for {size:,} cells (task, slot, node)",
            f"{LARGEST_MILP:,} cells at most, or lp, which has no limit",
        )
    best = offline_optimum(cluster, tasks, _MILP)
    return best.bound, best.optimal


_KINDS: Mapping[str, Callable[[Cluster, Sequence[Task]], tuple[float, bool]]] = {
    "lp": _relaxation,
    "milp": _optimum,
}
