"""What a simulated market came to: welfare, accounts, use of the nodes, time to decide.

Welfare (Zheng et al., ICPP 2024, eq. 3) is the sum over admitted tasks of

    b_i - q_in - sum of e_ikt over the cells;

payments pass from users to the provider and cancel out. Bids stand for values. A task that was
refunded brings nothing, and what it has cost until then counts.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auctune.sim.bound import WelfareBound
from auctune.sim.engine import SimulationResult
from auctune.sim.instance import day_of, num_days
from auctune.sim.tally import OutageFigures, Tally

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Utilization:
    """Shares of all nodes' compute, and memory beside the base model, sold in each slot."""

    compute: tuple[float, ...]
    memory: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DecisionSeconds:
    """Time to decide one task: median, 99th percentile, longest; None where there was no task."""

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
        revenue: payments, less refunds.
        vendor_cost, operating_cost: what admitted tasks cost the provider.
        num_tasks, num_admitted: how many bid, and how many will run.
        utilization: by slot.
        decision_seconds: over all tasks, learning not counted.
        learning_seconds: time that learning took, at beginnings of slots and between bids.
        bound: on welfare.
        real_operating_cost: at the real price of energy, which may be below zero where mechanisms
            see zero; None where the instance does not say.
        by_day: by day of arrival; empty where the instance does not go beyond one day.
        outages: what became of tasks on lost nodes; None where no outages were played.
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
    outages: OutageFigures | None = None

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
            **({} if self.outages is None else {"outages": asdict(self.outages)}),
        }


def measure(result: SimulationResult, bound: WelfareBound | None = None) -> SimulationReport:
    """The figures of a simulation, from its decisions alone, beside a bound on its welfare."""
    return report_of(_tally(result), result.learning_seconds, bound)


def report_of(
    tally: Tally, learning_seconds: float, bound: WelfareBound | None = None
) -> SimulationReport:
    """Return the figures of a market whose decisions were counted as they came."""
    bound = bound or WelfareBound()
    return SimulationReport(
        welfare=tally.welfare,
        revenue=float(tally.payments),
        vendor_cost=float(tally.vendor_cost),
        operating_cost=tally.operating_cost,
        num_tasks=sum(tally.tasks_by_slot),
        num_admitted=sum(tally.admitted_by_slot),
        utilization=_utilization(tally),
        decision_seconds=_decision_seconds(tally.seconds),
        learning_seconds=learning_seconds,
        bound=Bound(
            bound.kind,
            bound.value,
            _ratio(tally.welfare, bound.value),
            None if bound.value is None else bound.exact,
        ),
        real_operating_cost=tally.real_operating_cost,
        by_day=_by_day(tally, bound),
        outages=tally.outages,
    )


def welfare_by_slot(result: SimulationResult) -> Floats:
    """[slots] welfare of the tasks that arrived in each slot, money."""
    return np.array(_tally(result).welfare_by_slot)


def _tally(result: SimulationResult) -> Tally:
    tally = Tally(result.instance.cluster, result.instance.real_energy_cost)
    for task, decision, seconds in zip(
        result.tasks, result.decisions, result.decision_seconds, strict=True
    ):
        tally.add(task, decision, seconds)
    if result.changes is not None:
        tally.change_all(result.changes)
    return tally


def _by_day(tally: Tally, bound: WelfareBound) -> tuple[DayFigures, ...]:
    cluster = tally.cluster
    if num_days(cluster) == 1:
        return ()
    day = [day_of(cluster, slot) for slot in range(cluster.slots)]
    gained, came, stayed = (
        np.bincount(day, weights=by_slot).tolist()
        for by_slot in (tally.welfare_by_slot, tally.tasks_by_slot, tally.admitted_by_slot)
    )
    bounds: tuple[float | None, ...] = bound.by_day or (None,) * len(gained)
    return tuple(
        DayFigures(int(came[index]), int(stayed[index]), welfare, most, _ratio(welfare, most))
        for index, (welfare, most) in enumerate(zip(gained, bounds, strict=True))
    )


def _ratio(welfare: float, bound: float | None) -> float | None:
    return welfare / bound if bound else None


def _utilization(tally: Tally) -> Utilization:
    cluster = tally.cluster
    kinds = [cluster.node_types[node.type] for node in cluster.nodes]
    compute = np.array(tally.compute) / math.fsum(kind.compute for kind in kinds)
    memory = np.array(tally.memory) / math.fsum(
        kind.memory_gb - cluster.base_memory_gb for kind in kinds
    )
    return Utilization(tuple(compute.tolist()), tuple(memory.tolist()))


def _decision_seconds(seconds: Sequence[float]) -> DecisionSeconds:
    if not seconds:
        return DecisionSeconds(None, None, None)
    p50, p99 = np.quantile(np.array(seconds), (0.5, 0.99)).tolist()
    return DecisionSeconds(p50, p99, max(seconds))
