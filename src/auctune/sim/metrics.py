"""What a simulated market came to: welfare, accounts, use of the nodes, time to decide.

Welfare (Zheng et al., ICPP 2024, eq. 3) is the sum over admitted tasks of
 b_i - q_in - sum of e_ikt over the cells;
payments pass from users to the provider and cancel out. Bids stand for values.
"""

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auctune.domain import Cluster, Decision, Task
from auctune.domain.money import ZERO
from auctune.sim.accounts import Accounts, vendor_price
from auctune.sim.bound import WelfareBound
from auctune.sim.days import day_of, num_days
from auctune.sim.engine import SimulationResult

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Utilization:
    """Shares of all nodes' compute, and memory beside the base model, sold in each slot."""

    compute: tuple[float, ...]
    memory: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DecisionSeconds:
    """Time to decide one task: median, 99th percentile, longest; none where there was no task."""

    p50: float | None
    p99: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper bound on welfare, how it was found, and welfare over it.

    Attributes:
        kind: of `auctune.sim.bound`.
        value: money; none for kind `none`.
        ratio: welfare / value; none without a value, or where it is 0.
        exact: whether the value is the optimum; none without a value.
    """

    kind: str = "none"
    value: float | None = None
    ratio: float | None = None
    exact: bool | None = None


@dataclass(frozen=True, slots=True)
class DayFigures:
    """What the tasks that arrived on one day came to.

    Attributes:
        num_tasks, num_admitted: how many bid, and how many will run.
        welfare: money.
        bound: on their welfare if nobody else had come; none without a bound.
        ratio: welfare / bound; none without a bound, or where it is 0.
    """

    num_tasks: int
    num_admitted: int
    welfare: float
    bound: float | None
    ratio: float | None


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """The figures of one simulated market; money where nothing else is said.

    Attributes:
        welfare: see the module.
        revenue: payments.
        vendor_cost, operating_cost: what admitted tasks cost the provider.
        num_tasks, num_admitted: how many bid, and how many will run.
        utilization: by slot.
        decision_seconds: over all tasks, learning not counted.
        learning_seconds: time that the beginnings of slots took, in which prices are learned.
        bound: on welfare.
        real_operating_cost: at the real price of energy, which may be below zero where mechanisms
            see zero; none where the instance does not say.
        by_day: by day of arrival; empty where the instance does not go beyond one day.
    """

    welfare: float
    revenue: float
    vendor_cost: float
    operating_cost: float
    num_tasks: int
    num_admitted: int
    utilization: Utilization
    decision_seconds: DecisionSeconds
    learning_seconds: float
    bound: Bound
    real_operating_cost: float | None = None
    by_day: tuple[DayFigures, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As in OUT.json, keys in that order."""
        real_cost = self.real_operating_cost
        return {
            "welfare": self.welfare,
            "revenue": self.revenue,
            "vendor_cost": self.vendor_cost,
            "operating_cost": self.operating_cost,
            **({} if real_cost is None else {"real_operating_cost": real_cost}),
            "num_tasks": self.num_tasks,
            "num_admitted": self.num_admitted,
            "utilization": {
                "compute": list(self.utilization.compute),
                "memory": list(self.utilization.memory),
            },
            "decision_seconds": {
                "p50": self.decision_seconds.p50,
                "p99": self.decision_seconds.p99,
                "max": self.decision_seconds.max,
            },
            "learning_seconds": self.learning_seconds,
            "bound": {
                "kind": self.bound.kind,
                "value": self.bound.value,
                "ratio": self.bound.ratio,
                **({} if self.bound.exact is None else {"exact": self.bound.exact}),
            },
            **({"by_day": [asdict(day) for day in self.by_day]} if self.by_day else {}),
        }


def measure(result: SimulationResult, bound: WelfareBound | None = None) -> SimulationReport:
    """The figures of a simulation, from its decisions alone, beside a bound on its welfare."""
    bound = bound or WelfareBound()
    cluster = result.instance.cluster
    accounts = Accounts(cluster)
    admitted = [
        (task, decision, decision.schedule)
        for task, decision in zip(result.tasks, result.decisions, strict=True)
        if decision.schedule is not None
    ]
    # Sums of Decimal are exact, and fsum is rounded once: no figure depends on the order.
    bids = sum((task.bid for task, _, _ in admitted), ZERO)
    revenue = sum((decision.payment for _, decision, _ in admitted), ZERO)
    vendors = sum((vendor_price(task, schedule) for task, _, schedule in admitted), ZERO)
    operating = math.fsum(accounts.operating_cost(task, schedule) for task, _, schedule in admitted)
    welfare = float(bids - vendors) - operating
    return SimulationReport(
        welfare=welfare,
        revenue=float(revenue),
        vendor_cost=float(vendors),
        operating_cost=operating,
        num_tasks=len(result.tasks),
        num_admitted=len(admitted),
        utilization=_utilization(cluster, [(task, decision) for task, decision, _ in admitted]),
        decision_seconds=_decision_seconds(result.decision_seconds),
        learning_seconds=result.learning_seconds,
        bound=Bound(
            bound.kind,
            bound.value,
            _ratio(welfare, bound.value),
            None if bound.value is None else bound.exact,
        ),
        real_operating_cost=_real_operating_cost(result),
        by_day=_by_day(result, bound),
    )


def welfare_by_slot(result: SimulationResult) -> Floats:
    """[slots] welfare of the tasks that arrived in each slot, money."""
    accounts = Accounts(result.instance.cluster)
    gained = np.zeros(result.instance.cluster.slots)
    for task, decision in zip(result.tasks, result.decisions, strict=True):
        if decision.schedule is not None:
            costs = accounts.operating_cost(task, decision.schedule)
            vendor = vendor_price(task, decision.schedule)
            gained[task.arrival] += float(task.bid - vendor) - costs
    return gained


def _by_day(result: SimulationResult, bound: WelfareBound) -> tuple[DayFigures, ...]:
    cluster = result.instance.cluster
    if num_days(cluster) == 1:
        return ()
    day = [day_of(cluster, slot) for slot in range(cluster.slots)]
    gained = np.bincount(day, weights=welfare_by_slot(result)).tolist()
    came = Counter(day[task.arrival] for task in result.tasks)
    stayed = Counter(
        day[task.arrival]
        for task, decision in zip(result.tasks, result.decisions, strict=True)
        if decision.admitted
    )
    bounds: tuple[float | None, ...] = bound.by_day or (None,) * len(gained)
    return tuple(
        DayFigures(came[index], stayed[index], welfare, most, _ratio(welfare, most))
        for index, (welfare, most) in enumerate(zip(gained, bounds, strict=True))
    )


def _ratio(welfare: float, bound: float | None) -> float | None:
    return welfare / bound if bound else None


def _real_operating_cost(result: SimulationResult) -> float | None:
    costs = result.instance.real_energy_cost
    if costs is None:
        return None
    accounts = Accounts(result.instance.cluster, costs)
    return math.fsum(
        accounts.operating_cost(task, decision.schedule)
        for task, decision in zip(result.tasks, result.decisions, strict=True)
        if decision.schedule is not None
    )


def _utilization(cluster: Cluster, admitted: list[tuple[Task, Decision]]) -> Utilization:
    type_of = {node.id: node.type for node in cluster.nodes}
    compute, memory = np.zeros(cluster.slots), np.zeros(cluster.slots)
    for task, decision in admitted:
        assert decision.schedule is not None
        for slot, node in decision.schedule.cells:
            compute[slot] += task.throughput[type_of[node]]
            memory[slot] += task.memory_gb
    kinds = [cluster.node_types[node.type] for node in cluster.nodes]
    compute /= math.fsum(kind.compute for kind in kinds)
    memory /= math.fsum(kind.memory_gb - cluster.base_memory_gb for kind in kinds)
    return Utilization(tuple(compute.tolist()), tuple(memory.tolist()))


def _decision_seconds(seconds: tuple[float, ...]) -> DecisionSeconds:
    if not seconds:
        return DecisionSeconds(None, None, None)
    p50, p99 = np.quantile(np.array(seconds), (0.5, 0.99)).tolist()
    return DecisionSeconds(p50, p99, max(seconds))
