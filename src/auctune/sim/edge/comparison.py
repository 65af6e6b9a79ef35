"""Instances through mechanisms: decisions, the time they took, and what they come to."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from auctune.edge.checker import first_violation
from auctune.edge.decision import EdgeDecision
from auctune.edge.eris import EdgeEntry, Eris, ErisEntry
from auctune.edge.ledger import EdgeLedger
from auctune.edge.offline.bound import welfare_bound
from auctune.edge.offline.optimum import offline_optimum
from auctune.edge.prices import shares
from auctune.numerics.arrays import Floats
from auctune.numerics.highs import SolveOptions
from auctune.sim.edge.instance_file import EdgeInstance

DEFAULT_ENTRIES = ("eris", "eris:pricing=paper", "tiresias", "antman", "liquid")


@dataclass(frozen=True, slots=True)
class EdgePlayed:
    """What a mechanism made of an instance.

    Attributes:
        label: of the mechanism, with its settings.
        decisions: in the order of arrival.
        seconds: of each decision; empty for what is not decided one by one.
    """

    label: str
    decisions: tuple[EdgeDecision, ...]
    seconds: tuple[float, ...]

    @property
    def welfare(self) -> float:
        """Sum of the utilities of the jobs that run to their ends, money."""
        return math.fsum(one.utility or 0.0 for one in self.decisions)

    @property
    def profit(self) -> float:
        """Sum of the payments, money."""
        return float(sum(one.payment for one in self.decisions))

    @property
    def num_admitted(self) -> int:
        """Jobs that run to their ends."""
        return sum(one.admitted for one in self.decisions)


@dataclass(frozen=True, slots=True)
class EdgeBound:
    """An upper bound on the welfare of an instance, money.

    Attributes:
        kind: "lp": of the pooled linear program; "milp": what HiGHS proved of the whole.
        value: the bound.
        reached: welfare of the best decisions that HiGHS found; None of "lp".
        optimal: whether HiGHS came to its end.
    """

    kind: str
    value: float
    reached: float | None = None
    optimal: bool = False


def play(
    label: str,
    entry: EdgeEntry,
    instance: EdgeInstance,
    clock: Callable[[], float] = time.perf_counter,
) -> EdgePlayed:
    """Play an instance; each decision of Eris is timed.

    Every plan is checked against what was booked before it.

    Raises:
        AssertionError: if a plan breaks a constraint.
    """
    jobs = instance.in_order()
    seconds: list[float] = []
    if isinstance(entry, ErisEntry):
        eris, decisions = Eris(instance.market, entry.params, instance.history), []
        for job in jobs:
            start = clock()
            decisions.append(eris.offer(job, job.arrival))
            seconds.append(clock() - start)
    else:
        decisions = entry.play(instance.market, jobs)
    ledger_of(instance, decisions)
    return EdgePlayed(label, tuple(decisions), tuple(seconds))


def ledger_of(instance: EdgeInstance, decisions: Sequence[EdgeDecision]) -> EdgeLedger:
    """Return what these decisions hold of the market together, each checked before it is booked."""
    ledger = EdgeLedger(instance.market)
    for job, decision in zip(instance.in_order(), decisions, strict=True):
        if decision.plan is not None:
            broken = first_violation(job, decision.plan, ledger, decision.finish)
            assert broken is None, f"{job.id}: {broken}"
            ledger.take(job, decision.plan)
    return ledger


def use_by_slot(instance: EdgeInstance, decisions: Sequence[EdgeDecision]) -> dict[str, Floats]:
    """[T] shares sold: of each type over all sites, and of the traffic ("data")."""
    ledger = ledger_of(instance, decisions)
    total = ledger.capacity.sum(axis=0)
    sold = ledger.used.sum(axis=1) / np.where(total > 0, total, 1.0)
    by_type = {kind: sold[:, index] for index, kind in enumerate(instance.market.types)}
    return {**by_type, "data": shares(ledger, 0)[0]}


def bound_of(
    instance: EdgeInstance, kind: str, time_limit: float, tail: int = 15
) -> EdgeBound | None:
    """Return a bound: "lp", "milp", or "none" for `None`."""
    if kind == "none":
        return None
    if kind == "lp":
        return EdgeBound(kind, welfare_bound(instance.market, instance.in_order()))
    found = offline_optimum(
        instance.market, instance.in_order(), SolveOptions(time_limit=time_limit), tail
    )
    return EdgeBound(kind, found.bound, found.welfare, found.optimal)


def report(instance: EdgeInstance, played: EdgePlayed, bound: EdgeBound | None) -> dict[str, Any]:
    """Return the figures of one mechanism, as JSON."""
    use = use_by_slot(instance, played.decisions)
    figures: dict[str, Any] = {
        "mechanism": played.label,
        "welfare": played.welfare,
        "profit": played.profit,
        "num_jobs": len(played.decisions),
        "num_admitted": played.num_admitted,
        "utilization": {kind: by_slot.tolist() for kind, by_slot in use.items()},
        "decision_seconds": _quantiles(played.seconds),
    }
    if bound is not None:
        figures["bound"] = {
            "kind": bound.kind,
            "value": bound.value,
            "reached": bound.reached,
            "optimal": bound.optimal,
            "ratio": played.welfare / bound.value if bound.value > 0 else None,
        }
    return figures


def _quantiles(seconds: Sequence[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    p50, p99 = np.quantile(np.array(seconds), (0.5, 0.99)).tolist()
    return {"p50": p50, "p99": p99, "max": max(seconds)}
