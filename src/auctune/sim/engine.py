"""The slotted engine: bids reach a mechanism in the order of their arrival.

It sees the mechanism through `Admission` alone, the same object that the service drives, and
measures how long each decision takes.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auctune.domain import Admission, Decision, Task
from auctune.sim.instance import Instance

Decide = Callable[[Admission, Sequence[Task], int], list[tuple[Decision, float]]]
Watch = Callable[[Task, Decision], None]


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What a mechanism decided.

    Attributes:
        instance: the market.
        tasks: in the order in which they were decided.
        decisions: one a task, in that order.
        decision_seconds: time that each decision took.
        learning_seconds: time that the beginnings of slots took.
    """

    instance: Instance
    tasks: tuple[Task, ...]
    decisions: tuple[Decision, ...]
    decision_seconds: tuple[float, ...]
    learning_seconds: float = 0.0


def one_by_one(
    mechanism: Admission, tasks: Sequence[Task], now: int
) -> list[tuple[Decision, float]]:
    """Offer the bids of a slot one after the other; each decision is timed by itself."""
    answers = []
    for task in tasks:
        start = time.perf_counter()
        decision = mechanism.offer(task, now)
        answers.append((decision, time.perf_counter() - start))
    return answers


def slot_at_once(
    mechanism: Admission, tasks: Sequence[Task], now: int
) -> list[tuple[Decision, float]]:
    """Offer the bids of a slot together, for a mechanism that weighs them against each other.

    Each decision counts with the time of all of them: none is known earlier.
    """
    start = time.perf_counter()
    decisions = mechanism.offer_slot(tasks, now)
    seconds = time.perf_counter() - start
    return [(decision, seconds) for decision in decisions]


def simulate(
    instance: Instance,
    mechanism: Admission,
    *,
    decide: Decide | None = None,
    watch: Watch | None = None,
) -> SimulationResult:
    """Run a market from its first bid to its last.

    Args:
        instance: the market.
        mechanism: a new one over the instance's cluster; it is left as it is after the last bid.
        decide: how the bids of a slot are offered and timed; none: as the mechanism wants them.
        watch: called after each slot for each of its decisions, in order.
    """
    decide = decide or (slot_at_once if mechanism.by_slot else one_by_one)
    tasks = instance.in_order()
    answers: list[tuple[Decision, float]] = []
    learning = 0.0
    begun = 0
    for now, group in itertools.groupby(tasks, key=lambda task: task.arrival):
        arrived = list(group)
        learning += _begin_slots(mechanism, begun, now)
        begun = now + 1
        answered = decide(mechanism, arrived, now)
        answers += answered
        if watch is not None:
            for task, (decision, _) in zip(arrived, answered, strict=True):
                watch(task, decision)
    return SimulationResult(
        instance,
        tuple(tasks),
        tuple(decision for decision, _ in answers),
        tuple(seconds for _, seconds in answers),
        learning,
    )


def _begin_slots(mechanism: Admission, first: int, last: int) -> float:
    """Begin the slots first..last, those without bids too; the seconds that it took."""
    start = time.perf_counter()
    for slot in range(first, last + 1):
        mechanism.advance(slot)
    return time.perf_counter() - start
