"""A mechanism rebuilt from its record decides as the one that made it, to the last bit."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings

from auctune.domain import Admission, Cluster, Event, Offered, Released, Task
from support.instances import instances
from support.markets import random_market
from support.mechanisms import MECHANISMS, Make
from support.playing import offer_all


def record(mechanism: Admission, tasks: list[Task], rng: np.random.Generator) -> list[Event]:
    """Offer the tasks, releasing what is left of some admitted ones; all that happened."""
    events: list[Event] = []
    for task in tasks:
        decision = mechanism.offer(task, task.arrival)
        events.append(Offered(task, decision, task.arrival))
        if decision.schedule is not None and rng.random() < 0.3:
            kept = int(rng.integers(0, len(decision.schedule.cells)))
            cells = decision.schedule.cells[kept:]
            mechanism.release(task, cells)
            events.append(Released(task, cells))
    return events


def assert_rebuilt(make: Make, cluster: Cluster, tasks: list[Task], seed: int) -> None:
    half = len(tasks) // 2
    first = make(cluster)
    events = record(first, tasks[:half], np.random.default_rng(seed))
    second = make(cluster)
    for event in events:
        second.apply(event)
    for task in tasks[half:]:
        assert second.quote(task, task.arrival) == first.quote(task, task.arrival)
        assert second.offer(task, task.arrival) == first.offer(task, task.arrival)


@pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
def test_a_rebuilt_mechanism_decides_identically_on_crowded_markets(make: Make) -> None:
    rng = np.random.default_rng(7)
    for seed in range(12):
        market = random_market(rng)
        assert_rebuilt(make, market.cluster, list(market.tasks), seed)


@pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
@settings(max_examples=20, deadline=None)
@given(instance=instances())
def test_a_rebuilt_mechanism_decides_identically_on_degenerate_markets(
    make: Make, instance: tuple[Cluster, list[Task]]
) -> None:
    assert_rebuilt(make, *instance, seed=0)


@pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
def test_the_same_bids_get_the_same_answers(make: Make) -> None:
    market = random_market(np.random.default_rng(8), num_tasks=60)
    answers = offer_all(make(market.cluster), market.tasks)
    assert offer_all(make(market.cluster), market.tasks) == answers


@pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
def test_a_slot_offered_at_once_is_a_loop_unless_its_bids_are_weighed(make: Make) -> None:
    market = random_market(np.random.default_rng(9), num_tasks=60)
    mechanism = make(market.cluster)
    answers = []
    for slot in range(market.cluster.slots):
        arrived = [task for task in market.tasks if task.arrival == slot]
        answers += mechanism.offer_slot(arrived, slot)
    is_a_loop = answers == offer_all(make(market.cluster), market.tasks)
    assert is_a_loop != mechanism.by_slot


@pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)
def test_quotes_have_no_side_effects(make: Make) -> None:
    market = random_market(np.random.default_rng(10), num_tasks=40)
    silent, asked = make(market.cluster), make(market.cluster)
    for index, task in enumerate(market.tasks):
        for other in market.tasks[index : index + 3]:
            asked.quote(other, task.arrival)
        assert asked.offer(task, task.arrival) == silent.offer(task, task.arrival)


def test_mechanisms_can_be_copied_in_full() -> None:
    # The tests ask copies; a copy that shared its cells with the original would prove nothing.
    market = random_market(np.random.default_rng(11))
    for make in MECHANISMS.values():
        original = make(market.cluster)
        offer_all(original, market.tasks[:10])
        duplicate = copy.deepcopy(original)
        offer_all(duplicate, market.tasks[10:])
        rest = offer_all(original, market.tasks[10:])
        assert rest == offer_all(
            rebuilt(make, market.cluster, list(market.tasks[:10])), market.tasks[10:]
        )


def rebuilt(make: Make, cluster: Cluster, tasks: list[Task]) -> Admission:
    mechanism = make(cluster)
    offer_all(mechanism, tasks)
    return mechanism
