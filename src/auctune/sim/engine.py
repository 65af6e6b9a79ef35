"""The slotted engine: bids reach a mechanism in the order of their arrival.

It sees the mechanism through `Admission` alone, the same object that the service drives, and
measures how long each decision takes.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from auctune.domain import Admission, Decision, Task
from auctune.domain.money import LARGEST
from auctune.sim.instance import Instance
from auctune.sim.outages import Change, Outage, Outages


class Answers(NamedTuple):
    """What became of the bids of a slot."""

    decisions: list[tuple[Decision, float]]  # one a bid, in order, and the seconds that each took
    learning_seconds: float  # between them


Decide = Callable[[Admission, Sequence[Task], int], Answers]
Watch = Callable[[Task, Decision], None]


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What a mechanism decided.

    Attributes:
        instance: the market.
        tasks: in the order in which they were decided.
        decisions: one a task, in that order.
        decision_seconds: time that each decision took.
        learning_seconds: time that learning took, at the beginnings of slots and between bids.
        changes: plans that outages changed, in their order; None where there were no outages.
    """

    instance: Instance
    tasks: tuple[Task, ...]
    decisions: tuple[Decision, ...]
    decision_seconds: tuple[float, ...]
    learning_seconds: float = 0.0
    changes: tuple[Change, ...] | None = None


def one_by_one(mechanism: Admission, tasks: Sequence[Task], now: int) -> Answers:
    """Offer the bids of a slot one after the other; each decision is timed by itself."""
    decisions, learning = [], 0.0
    for task in tasks:
        before = time.perf_counter()
        mechanism.advance(now)
        start = time.perf_counter()
        decision = mechanism.offer(task, now)
        decisions.append((decision, time.perf_counter() - start))
        learning += start - before
    return Answers(decisions, learning)


def slot_at_once(mechanism: Admission, tasks: Sequence[Task], now: int) -> Answers:
    """Offer the bids of a slot together, for a mechanism that weighs them against each other.

    Each decision counts with the time of all of them: none is known earlier.
    """
    start = time.perf_counter()
    decisions = mechanism.offer_slot(tasks, now)
    seconds = time.perf_counter() - start
    return Answers([(decision, seconds) for decision in decisions], 0.0)


@dataclass(frozen=True, slots=True)
class PlayedSlot:
    """What happened in one slot.

    Attributes:
        slot: which.
        changes: plans that outages changed, before the slot's bids.
        tasks: that arrived.
        answers: the decision on each, and the seconds that it took.
        learning_seconds: time that learning took, at its beginning and between its bids.
    """

    slot: int
    changes: Sequence[Change]
    tasks: Sequence[Task]
    answers: Sequence[tuple[Decision, float]]
    learning_seconds: float


def play(
    bids: Iterable[Task],
    mechanism: Admission,
    *,
    decide: Decide | None = None,
    outages: Outages | None = None,
) -> Iterator[PlayedSlot]:
    """Run a market slot by slot; nothing of a slot is kept once the next one is asked for.

    Args:
        bids: by arrival, and within a slot in the order in which they are decided.
        mechanism: a new one; it is left as it is after the last bid and outage.
        decide: how the bids of a slot are offered and timed; None: as the mechanism wants them.
        outages: nodes that are lost and return.
    """
    decide = decide or (slot_at_once if mechanism.by_slot else one_by_one)
    for slot, arrived in _by_slot(bids, -1 if outages is None else outages.last):
        start = time.perf_counter()
        mechanism.advance(slot)
        learning = time.perf_counter() - start
        changes = () if outages is None else outages.begin(mechanism, slot)
        answers, learning_between = decide(mechanism, arrived, slot)
        if outages is not None:
            for task, (decision, _) in zip(arrived, answers, strict=True):
                outages.admitted(task, decision)
        yield PlayedSlot(slot, changes, arrived, answers, learning + learning_between)


def simulate(
    instance: Instance,
    mechanism: Admission,
    *,
    decide: Decide | None = None,
    watch: Watch | None = None,
    outages: Sequence[Outage] = (),
) -> SimulationResult:
    """Run a market from its first bid to its last.

    Args:
        instance: the market.
        mechanism: a new one over the instance's cluster; it is left as it is after the last bid.
        decide: how the bids of a slot are offered and timed; None: as the mechanism wants them.
        watch: called after each slot for each of its decisions, in order.
        outages: nodes that are lost and return.
    """
    tasks = instance.in_order()
    answers: list[tuple[Decision, float]] = []
    changes: list[Change] = []
    learning = 0.0
    failing = Outages(instance.cluster, outages) if outages else None
    for played in play(tasks, mechanism, decide=decide, outages=failing):
        learning += played.learning_seconds
        changes += played.changes
        answers += played.answers
        if watch is not None:
            for task, (decision, _) in zip(played.tasks, played.answers, strict=True):
                watch(task, decision)
    return SimulationResult(
        instance,
        tuple(tasks),
        tuple(decision for decision, _ in answers),
        tuple(seconds for _, seconds in answers),
        learning,
        tuple(changes) if outages else None,
    )


def _by_slot(bids: Iterable[Task], last: int) -> Iterator[tuple[int, list[Task]]]:
    """The slots from 0 to `last` or the last bid, whichever is later, with the bids of each."""
    begun = 0
    for slot, group in itertools.groupby(bids, key=lambda task: task.arrival):
        for empty in range(begun, slot):
            yield empty, []
        yield slot, list(group)
        begun = slot + 1
    for empty in range(begun, last + 1):
        yield empty, []


_MORE_THAN_ANY_NODE = 1e300


def warm_up(instance: Instance, make: Callable[[], Admission]) -> None:
    """Have a mechanism that is thrown away decide in each of the ways there are.

    Args:
        instance: the market to come; its first bid is tried as it is, at any price, and with more
            work and more memory than can be had.
        make: builds the mechanism.
    """
    if not instance.tasks:
        return
    mechanism = make()
    first = instance.in_order()[0]
    for task in (
        first,
        replace(first, bid=LARGEST),
        replace(first, work=_MORE_THAN_ANY_NODE),
        replace(first, memory_gb=_MORE_THAN_ANY_NODE),
    ):
        decision = mechanism.offer(task, task.arrival)
        if decision.schedule is not None:
            mechanism.release(task, decision.schedule.cells)
