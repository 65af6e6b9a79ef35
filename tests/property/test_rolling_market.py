"""A market without an end decides as one with an end does, and keeps nothing of what has passed."""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from auctune.auction import GreedyAdmission, Pdftsp, make_eft, make_ntm
from auctune.domain import (
    Cluster,
    EnergyForecast,
    Event,
    InputError,
    NodeLost,
    NodeReturned,
    Offered,
    Released,
    SlotAdvanced,
)
from auctune.sim.instance import Instance
from auctune.sim.outages import Outages
from support.markets import random_market
from support.mechanisms import params_by_name
from support.thorough import rotated
from support.windows import WINDOW, first_window, in_window, known_costs

Mechanism = Pdftsp | GreedyAdmission
Make = Callable[[Cluster, EnergyForecast | None], Mechanism]


def auction(name: str) -> Make:
    return lambda cluster, energy: Pdftsp(cluster, params_by_name()[name], energy=energy)


MAKERS: Mapping[str, Make] = {
    # Learned prices look as far ahead as the market goes: there, an end makes a difference.
    **{
        name: auction(name)
        for name in params_by_name(("critical",))
        if not name.endswith("-learned")
    },
    "eft": lambda cluster, energy: make_eft(cluster, energy=energy),
    "ntm": lambda cluster, energy: make_ntm(cluster, 3, energy=energy),
}
REVEALED = "critical-masked-max-revealed-range"
LEARNED = "critical-masked-sum-learned"
MAKERS_AND_LEARNED = {**MAKERS, LEARNED: auction(LEARNED)}


def long_market(seed: int, *, slots: int = 60, num_tasks: int = 120) -> Instance:
    return random_market(np.random.default_rng(seed), slots=slots, num_tasks=num_tasks)


@pytest.mark.slow
@pytest.mark.parametrize("make", rotated(MAKERS).values(), ids=rotated(MAKERS))
def test_a_rolling_market_decides_as_one_with_an_end(make: Make) -> None:
    admitted = 0
    for seed in range(4):
        market = long_market(seed)
        whole = make(market.cluster, None)
        rolling = make(first_window(market.cluster), known_costs(market.cluster))
        for task in market.tasks:
            expected = whole.offer(task, task.arrival)
            assert rolling.offer(in_window(task), task.arrival) == expected
            assert rolling.quote(in_window(task), task.arrival) == whole.quote(task, task.arrival)
            if expected.schedule is not None and len(expected.schedule.cells) > 1:
                for mechanism in (whole, rolling):
                    mechanism.release(task, expected.schedule.cells[-1:])
            admitted += expected.admitted
    assert admitted > 100


@pytest.mark.parametrize("name", [REVEALED, "critical-checked-sum-set-range", "eft", "ntm"])
def test_it_does_so_when_nodes_are_lost_and_return(name: str) -> None:
    changed = 0
    for seed in range(6):
        market = long_market(seed + 20)
        events = (
            NodeLost(market.cluster.nodes[0].id, 11),
            NodeLost(market.cluster.nodes[1].id, 15),
            NodeReturned(market.cluster.nodes[0].id, 27),
        )
        whole = MAKERS[name](market.cluster, None)
        rolling = MAKERS[name](first_window(market.cluster), known_costs(market.cluster))
        failing = [Outages(market.cluster, events) for _ in range(2)]
        for slot in range(market.cluster.slots):
            expected = failing[0].begin(whole, slot)
            assert failing[1].begin(rolling, slot) == expected
            changed += len(expected)
            for task in market.tasks:
                if task.arrival == slot:
                    mine = in_window(task)
                    decision = whole.offer(task, slot)
                    assert rolling.offer(mine, slot) == decision
                    failing[0].admitted(task, decision)
                    failing[1].admitted(mine, decision)
    assert changed > 5


def bytes_of(value: object, seen: set[int]) -> int:
    """Memory of a mechanism: arrays and containers, and all that these hold."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    size = sys.getsizeof(value)
    if isinstance(value, np.ndarray):
        return max(size, value.nbytes)
    return size + sum(bytes_of(part, seen) for part in parts_of(value))


def parts_of(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, list | tuple | set | deque):
        yield from value
    elif hasattr(value, "__dict__"):
        yield from vars(value).values()


@pytest.mark.slow
@pytest.mark.parametrize("name", [REVEALED, "critical-masked-sum-paper", "eft", "ntm"])
def test_nothing_grows_however_long_it_runs(name: str) -> None:
    market = long_market(5, slots=3 * WINDOW, num_tasks=60)
    rolling = MAKERS[name](first_window(market.cluster), known_costs(market.cluster))
    sizes = []
    admitted = 0
    for round_ in range(120):  # 360 windows, 7,200 bids
        for task in market.tasks:
            arrival = task.arrival + round_ * market.cluster.slots
            deadline = task.deadline + round_ * market.cluster.slots
            later = replace(
                in_window(task), id=f"{round_}-{task.id}", arrival=arrival, deadline=deadline
            )
            admitted += rolling.offer(later, arrival).admitted
        sizes.append(bytes_of(rolling, set()))
    assert admitted > 1000
    # By the 60th round the latest bids fill what the price range remembers.
    assert abs(sizes[-1] - sizes[60]) < 500
    assert rolling.state().first_slot >= 119 * market.cluster.slots


@pytest.mark.slow
def test_learned_prices_remember_days_and_not_years() -> None:
    """Days of six slots: seven of them are kept, and the bids of the last hours."""
    market = long_market(5, slots=3 * WINDOW, num_tasks=60)
    cluster = replace(first_window(market.cluster), slot_seconds=14_400.0)
    rolling = Pdftsp(cluster, params_by_name()[LEARNED], energy=known_costs(market.cluster))
    sizes, admitted = [], 0
    for round_ in range(30):  # 120 days, 1,800 bids
        for task in market.tasks:
            shift = round_ * market.cluster.slots
            later = replace(
                in_window(task),
                id=f"{round_}-{task.id}",
                arrival=task.arrival + shift,
                deadline=task.deadline + shift,
            )
            admitted += rolling.offer(later, later.arrival).admitted
        sizes.append(bytes_of(rolling, set()))
    assert admitted > 300
    assert max(sizes[20:]) < 1.05 * max(sizes[5:15])


@pytest.mark.parametrize("name", [REVEALED, LEARNED, "critical-checked-max-paper", "eft", "ntm"])
def test_a_log_rebuilds_it_without_the_forecast(name: str) -> None:
    market = long_market(7)

    def unknown(node_type: str, slot: int) -> float:
        raise AssertionError((node_type, slot))

    make = MAKERS_AND_LEARNED[name]
    first = make(first_window(market.cluster), known_costs(market.cluster))
    second = make(first_window(market.cluster), unknown)
    half = len(market.tasks) // 2
    events: list[Event] = []
    for task in map(in_window, market.tasks[:half]):
        slot = task.arrival
        events += first.advance(slot)
        decision = first.offer(task, slot)
        events.append(Offered(task, decision, slot))
        if decision.schedule is not None and task.bid % 2 < 1:
            cells = decision.schedule.cells[1:]
            first.release(task, cells)
            events.append(Released(task, cells))
    for event in events:
        second.apply(event)
    for task in market.tasks[half:]:
        for event in first.advance(task.arrival):
            second.apply(event)
        mine = in_window(task)
        decision = first.offer(mine, task.arrival)
        assert second.preview(mine, task.arrival) == decision
        second.apply(Offered(mine, decision, task.arrival))


@pytest.mark.parametrize("name", [REVEALED, "eft"])
def test_a_deadline_outside_the_window_is_refused(name: str) -> None:
    market = long_market(8)
    rolling = MAKERS[name](first_window(market.cluster), known_costs(market.cluster))
    task = replace(
        market.tasks[0], id="far", arrival=100, deadline=100 + WINDOW, operating_cost=None
    )
    with pytest.raises(InputError, match="a slot of the horizon, 100 to 107"):
        rolling.offer(task, 100)
    near = replace(task, deadline=99 + WINDOW, bid=Decimal(1000), work=0.5, memory_gb=0.0)
    assert rolling.offer(near, 100).admitted


def test_slots_come_with_the_energy_costs_of_all_types() -> None:
    market = long_market(9)
    rolling = MAKERS["eft"](first_window(market.cluster), known_costs(market.cluster))
    name = next(iter(market.cluster.node_types))
    with pytest.raises(InputError, match="energy_cost"):
        rolling.apply(SlotAdvanced(2, {name: (1.0,)}))
    assert rolling.entering(2).energy_cost[name] == tuple(
        market.cluster.node_types[name].energy_cost[WINDOW : WINDOW + 2]
    )


@pytest.mark.parametrize("name", [REVEALED, LEARNED])
def test_a_leap_of_many_windows_leaves_an_empty_market(name: str) -> None:
    market = long_market(10)
    rolling = MAKERS_AND_LEARNED[name](first_window(market.cluster), known_costs(market.cluster))
    for task in market.tasks[:20]:
        rolling.offer(in_window(task), task.arrival)
    rolling.advance(1000)
    state = rolling.state()
    assert state.first_slot == 1000
    assert not state.compute_used.any()
    assert state.compute_price.shape == (WINDOW, len(market.cluster.nodes))
