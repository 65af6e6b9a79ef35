"""A mechanism rebuilt from its record decides as the one that made it, to the last bit."""

import copy
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given

from auctune.auction.pricing import LearnedPricing
from auctune.auction.pricing.exponential import RevealedRange
from auctune.domain import (
    Admission,
    Cell,
    Cluster,
    InputError,
    MenuLine,
    Offered,
    PricesLearned,
    Schedule,
    Task,
    write_snapshot,
)
from support.endless import ENDLESS, days_of_six_slots
from support.instances import instances
from support.markets import random_market
from support.mechanisms import MECHANISMS, Make
from support.playing import offer_all
from support.recording import (
    Recorder,
    assert_alike,
    assert_same_state,
    play_day,
    rebuilt,
)
from support.thorough import drawn, rotated, times
from support.windows import in_window


def assert_rebuilt(make: Make, cluster: Cluster, tasks: list[Task], seed: int) -> int:
    """Half of the bids are recorded, the rest go to both; the number of updates in the record."""
    half = len(tasks) // 2
    recorder = Recorder(make(cluster), cluster)
    nodes = [node.id for node in cluster.nodes]
    play_day(recorder, tasks[:half], nodes, np.random.default_rng(seed))
    second = rebuilt(make(cluster), recorder.events)
    assert_alike(recorder.mechanism, second, tasks[half:])
    return sum(isinstance(event, PricesLearned) for event in recorder.events)


@pytest.mark.parametrize("name", rotated(MECHANISMS))
def test_a_rebuilt_mechanism_goes_on_identically_on_crowded_markets(name: str) -> None:
    rng = np.random.default_rng(7)
    updates = 0
    for seed in range(times(12)):
        market = random_market(rng, num_tasks=40)
        updates += assert_rebuilt(MECHANISMS[name], market.cluster, list(market.tasks), seed)
    # Ranges that are set and prices of the paper learn nothing, nor do baselines.
    assert (updates > 3) == ("learned" in name or "revealed" in name)


@pytest.mark.parametrize("make", rotated(MECHANISMS).values(), ids=rotated(MECHANISMS))
@drawn(20)
@given(instance=instances())
def test_a_rebuilt_mechanism_goes_on_identically_on_degenerate_markets(
    make: Make, instance: tuple[Cluster, list[Task]]
) -> None:
    assert_rebuilt(make, *instance, seed=0)


@pytest.mark.parametrize("name", rotated(ENDLESS))
def test_a_rebuilt_mechanism_goes_on_identically_for_days_without_an_end(name: str) -> None:
    updates = 0
    for seed in range(times(4)):
        market = days_of_six_slots(seed)
        tasks = [in_window(task) for task in market.tasks]
        half = len(tasks) // 2
        recorder = Recorder(ENDLESS[name](market, seed), market.cluster)
        nodes = [node.id for node in market.cluster.nodes]
        play_day(recorder, tasks[:half], nodes, np.random.default_rng(seed))
        second = rebuilt(ENDLESS[name](market, seed), recorder.events)
        assert_alike(recorder.mechanism, second, tasks[half:])
        updates += sum(isinstance(event, PricesLearned) for event in recorder.events)
    assert (updates > 5) == ("learned" in name or "revealed" in name)


def test_a_record_is_applied_without_learning_again(monkeypatch: pytest.MonkeyPatch) -> None:
    market = random_market(np.random.default_rng(3), num_tasks=40)
    recorders = {}
    for name in ("critical-masked-sum-learned", "critical-masked-max-revealed-range"):
        recorders[name] = Recorder(MECHANISMS[name](market.cluster), market.cluster)
        for task in market.tasks:
            recorders[name].offer(task, task.arrival)

    def learn(*_: object) -> None:
        raise AssertionError("learned again")

    monkeypatch.setattr(LearnedPricing, "_learn", learn)
    monkeypatch.setattr(RevealedRange, "estimate", learn)
    for name, recorder in recorders.items():
        assert any(isinstance(event, PricesLearned) for event in recorder.events)
        again = rebuilt(MECHANISMS[name](market.cluster), recorder.events)
        assert_same_state(again.state(), recorder.mechanism.state())


@pytest.mark.parametrize("name", [*rotated(MECHANISMS), *rotated(ENDLESS)])
def test_a_record_of_offers_alone_rebuilds_what_they_learned_from(name: str) -> None:
    first, tasks = market_and_bids(name, 8)
    second, _ = market_and_bids(name, 8)
    half = len(tasks) // 2
    offered = []
    for task in tasks[:half]:
        # A bid that is refused is in no record, and teaches nothing.
        with pytest.raises(InputError, match="deadline"):
            first.offer(replace(task, deadline=10**6), task.arrival)
        offered.append(Offered(task, first.offer(task, task.arrival), task.arrival))
    assert_alike(first, rebuilt(second, offered), tasks[half:])


def market_and_bids(name: str, seed: int) -> tuple[Admission, list[Task]]:
    """A new market of this name, and bids for it."""
    if name in MECHANISMS:
        market = random_market(np.random.default_rng(seed), num_tasks=60)
        return MECHANISMS[name](market.cluster), list(market.tasks)
    market = days_of_six_slots(seed)
    return ENDLESS[name](market, 0), [in_window(task) for task in market.tasks]


@pytest.mark.parametrize("name", [*rotated(MECHANISMS), *rotated(ENDLESS)])
def test_a_bid_that_is_refused_begins_no_slot(name: str) -> None:
    mechanism, tasks = market_and_bids(name, 12)
    half = len(tasks) // 2
    offer_all(mechanism, tasks[:half])
    before, later = write_snapshot(mechanism.save()), tasks[half].arrival + 2
    beyond = replace(tasks[half], deadline=10**6)
    for refused in (
        lambda: mechanism.offer(beyond, later),
        lambda: mechanism.offer_slot([tasks[half], beyond], later),
    ):
        with pytest.raises(InputError, match="deadline"):
            refused()
        assert write_snapshot(mechanism.save()) == before
    node = mechanism.ledger.node_ids[0]  # type: ignore[attr-defined]  # cells are sold by all
    line = MenuLine(later, Decimal(0), Schedule((Cell(later, node),)))
    assert mechanism.take(replace(tasks[half], deadline=later + 2), line, later) is None
    assert write_snapshot(mechanism.save()) == before


def test_a_record_that_ends_with_an_update_is_not_given_it_again() -> None:
    market = random_market(np.random.default_rng(5), num_tasks=60)
    half = len(market.tasks) // 2
    slot = market.tasks[half].arrival
    for name in ("critical-masked-sum-learned", "critical-masked-max-revealed-range"):
        recorder = Recorder(MECHANISMS[name](market.cluster), market.cluster)
        for task in market.tasks[:half]:
            recorder.offer(task, task.arrival)
        recorder.events += recorder.mechanism.advance(slot + 1)
        assert isinstance(recorder.events[-1], PricesLearned)
        second = rebuilt(MECHANISMS[name](market.cluster), recorder.events)
        assert second.advance(slot + 1) == ()
        later = [task for task in market.tasks if task.arrival > slot]
        assert_alike(recorder.mechanism, second, later)


def test_who_calls_advance_first_has_all_updates_on_record() -> None:
    market = random_market(np.random.default_rng(4), num_tasks=60)
    mechanism = MECHANISMS["critical-masked-sum-learned"](market.cluster)
    for task in market.tasks:
        mechanism.advance(task.arrival)
        before = mechanism.state()
        decision = mechanism.offer(task, task.arrival)
        np.testing.assert_array_equal(before.compute_price, mechanism.state().compute_price)
        assert decision.task == task.id


@pytest.mark.parametrize("make", rotated(MECHANISMS).values(), ids=rotated(MECHANISMS))
def test_a_slot_offered_at_once_is_a_loop_unless_its_bids_are_weighed(make: Make) -> None:
    market = random_market(np.random.default_rng(9), num_tasks=60)
    mechanism = make(market.cluster)
    answers = []
    for slot in range(market.cluster.slots):
        arrived = [task for task in market.tasks if task.arrival == slot]
        answers += mechanism.offer_slot(arrived, slot)
    is_a_loop = answers == offer_all(make(market.cluster), market.tasks)
    assert is_a_loop != mechanism.by_slot


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
            begun_with(make, market.cluster, list(market.tasks[:10])), market.tasks[10:]
        )


def begun_with(make: Make, cluster: Cluster, tasks: list[Task]) -> Admission:
    mechanism = make(cluster)
    offer_all(mechanism, tasks)
    return mechanism
