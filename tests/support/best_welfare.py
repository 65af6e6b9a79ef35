"""The oracle of the offline optimum: every way to admit the tasks of a tiny market."""

from collections import defaultdict
from collections.abc import Sequence

from auctune.domain import Cell, Cluster, Task
from support.brute_force import Choice, Market, all_choices

Used = dict[Cell, float]


def best_welfare(cluster: Cluster, tasks: Sequence[Task]) -> float:
    """The most welfare there is (Zheng et al., ICPP 2024, eq. 3), by trying everything."""
    return _Search(cluster).best(list(tasks))


class _Search:
    def __init__(self, cluster: Cluster) -> None:
        self._compute: Used = defaultdict(float)
        self._memory: Used = defaultdict(float)
        free: Used = defaultdict(float)
        self._market = Market(cluster, free, free, self._compute, self._memory)

    def best(self, tasks: list[Task]) -> float:
        if not tasks:
            return 0.0
        task, rest = tasks[0], tasks[1:]
        best = self.best(rest)
        hoped_for = float(sum(other.bid for other in rest))
        for choice in all_choices(self._market, task, aggregate="sum", masked=True):
            value = float(task.bid) - choice.cost
            if value <= 0 or value + hoped_for <= best:
                continue
            self._use(task, choice, 1)
            best = max(best, value + self.best(rest))
            self._use(task, choice, -1)
        return best

    def _use(self, task: Task, choice: Choice, sign: int) -> None:
        for slot, index in choice.cells:
            node = self._market.cluster.nodes[index]
            self._compute[Cell(slot, node.id)] += sign * task.throughput[node.type]
            self._memory[Cell(slot, node.id)] += sign * task.memory_gb
