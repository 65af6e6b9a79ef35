"""The schedule search equals brute force over all schedules, in cost and in the tie order."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.auction.ledger import CapacityLedger
from auctune.auction.search import ScheduleSearch
from auctune.domain import Task
from support.brute_force import best_choice, market_of
from support.instances import clusters, cost, tasks
from support.random_states import Floats, random_state
from support.thorough import drawn, times


@st.composite
def states(draw: st.DrawFn, num_types: int) -> tuple[CapacityLedger, Task, Floats, Floats]:
    """A ledger with some of it sold, free prices that follow no rule, and a task."""
    cluster = draw(clusters(max_types=num_types, max_slots=5 if num_types == 1 else 4))
    ledger = CapacityLedger(cluster, prune=False)
    sell_at_random(draw, ledger)
    shape = ledger.usage.compute.shape
    levels = draw(st.sampled_from([[0.0], [0.0, 0.25, 1.0], None]))
    values = cost if levels is None else st.sampled_from(levels)
    lam = np.array([draw(values) for _ in range(ledger.usage.compute.size)]).reshape(shape)
    phi = np.array([draw(values) for _ in range(ledger.usage.compute.size)]).reshape(shape)
    return ledger, draw(tasks(cluster)), lam, phi


def sell_at_random(draw: st.DrawFn, ledger: CapacityLedger) -> None:
    share = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
    for slot in range(ledger.horizon.num_slots):
        for node in range(len(ledger.node_ids)):
            kind = ledger.capacity.type_of[node]
            compute = draw(share) * ledger.capacity.compute[kind]
            memory = draw(share) * ledger.capacity.memory[kind]
            throughput = np.full(len(ledger.type_names), compute)
            ledger.allocate(np.array([slot]), np.array([node]), throughput, float(memory))


@pytest.mark.slow
@pytest.mark.parametrize("num_types", [1, 2, 3])
@pytest.mark.parametrize("aggregate", ["max", "sum"])
@drawn(400)
@given(data=st.data(), masked=st.booleans())
def test_search_finds_the_first_schedule_of_the_total_order(
    data: st.DataObject, masked: bool, aggregate: str, num_types: int
) -> None:
    ledger, task, lam, phi = data.draw(states(num_types))
    assert_exact(ledger, task, lam, phi, aggregate, masked)


@pytest.mark.slow
@pytest.mark.parametrize("num_types", [1, 2, 3])
@pytest.mark.parametrize("aggregate", ["max", "sum"])
def test_search_is_exact_on_a_thousand_markets_of_each_kind(aggregate: str, num_types: int) -> None:
    rng = np.random.default_rng([num_types, len(aggregate), ord(aggregate[0])])
    found = [
        assert_exact(*random_state(rng, num_types, slots=4), aggregate, masked=i % 4 > 0)
        for i in range(times(1000))
    ]
    # A search that finds nothing proves nothing.
    assert 0.2 < sum(found) / len(found) < 1


@pytest.mark.parametrize("aggregate", ["max", "sum"])
def test_search_is_exact_with_six_types_and_many_cells_of_each(aggregate: str) -> None:
    rng = np.random.default_rng(6)
    found = []
    for _ in range(times(25)):
        ledger, task, lam, phi = random_state(rng, 6, nodes=6)
        # Many cells of every type, so that many choices do the work.
        slow = {name: float(rng.uniform(1.0, 1.6)) for name in task.throughput}
        task = replace(task, work=5.5, arrival=0, deadline=4, throughput=slow)
        found.append(assert_exact(ledger, task, lam, phi, aggregate, masked=False))
    assert sum(found) > 4


@pytest.mark.parametrize("num_types", [1, 2])
@pytest.mark.parametrize("aggregate", ["max", "sum"])
def test_prices_that_differ_by_rounding_tie(aggregate: str, num_types: int) -> None:
    rng = np.random.default_rng([3, num_types])
    found = []
    for _ in range(times(150)):
        state, task, lam, phi = random_state(rng, num_types, slots=4, nodes=3)
        # Few levels, some units in the last place apart; energy costs the same in all slots.
        kinds = state.cluster.node_types.items()
        types = {name: replace(kind, energy_cost=(0.25,) * 4) for name, kind in kinds}
        ledger = CapacityLedger(replace(state.cluster, node_types=types), prune=False)
        ledger.load({**state.save(), "energy_cost": ledger.save()["energy_cost"]})
        lam, phi = (
            np.round(3 * prices) / 3 * (1 + 2.0**-52 * rng.integers(-2, 3, prices.shape))
            for prices in (lam, phi)
        )
        task = replace(task, arrival=0, deadline=3)
        found.append(assert_exact(ledger, task, lam, phi, aggregate, masked=True))
    assert sum(found) > 0.4 * len(found)


def assert_exact(
    ledger: CapacityLedger, task: Task, lam: Floats, phi: Floats, aggregate: str, masked: bool
) -> bool:
    """Compare with brute force; whether there was a schedule at all."""
    search = ScheduleSearch(ledger, lam, phi, aggregate=aggregate, masked=masked)
    found = search.find(search.request(task, task.arrival), task)
    expected = best_choice(market_of(ledger, lam, phi), task, aggregate=aggregate, masked=masked)
    if expected is None:
        assert found is None
        return False
    assert found is not None
    assert found.cost == pytest.approx(expected.cost, rel=1e-9, abs=1e-9)
    quote = task.quotes.index(found.quote) if found.quote else 0
    cells = tuple(zip(found.slots.tolist(), found.nodes.tolist(), strict=True))
    assert (cells[-1][0], len(cells), quote, cells) == expected.ties
    return True
