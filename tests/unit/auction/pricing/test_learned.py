"""Learned prices: the typical day, the forecast, and when prices move."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from auctune.auction import Pdftsp, PdftspParams
from auctune.auction.pricing import LearnedPricing
from auctune.auction.pricing.learned.bids import choose, join, place, relative_columns
from auctune.auction.pricing.learned.diary import Diary, Seen, read_day
from auctune.auction.pricing.learned.forecast import Habits, Now, forecast
from auctune.auction.pricing.learned.typical import evenly, typical_day
from auctune.domain import NodeLost, Task
from auctune.sim.workloads.synthetic import SyntheticParams, make_instance

SMALL = make_instance(SyntheticParams(nodes={"a100": 4}, rate=8.0, seed=5))
HABITS = Habits(
    recent=36,
    half_life=24.0,
    fresh=0.5,
    fading=18.0,
    scenarios=8,
    samples=5,
    recent_samples=2,
)


def seen_with(counts: np.ndarray) -> Seen:
    """A day that brought so many bids in each slot, all of them the first one's like."""
    diary = Diary(SMALL.cluster, len(counts))
    for slot, count in enumerate(counts.tolist()):
        for _ in range(count):
            diary.note(SMALL.tasks[0], slot)
    return diary.seen()


def test_a_daily_curve_is_seen_when_days_agree_on_it() -> None:
    rng = np.random.default_rng(3)
    curve = 40 + 30 * np.sin(np.arange(144) * 2 * np.pi / 144)
    wavy = typical_day([seen_with(rng.poisson(curve)) for _ in range(2)])
    assert wavy is not None
    assert np.abs(wavy.rate - curve).mean() < 3


def test_bursts_at_another_time_each_day_are_no_daily_curve() -> None:
    days = np.full((3, 144), 5, dtype=np.int64)
    for day, slot in enumerate((20, 77, 110)):
        days[day, slot : slot + 4] += 190
    bursty = typical_day([seen_with(day) for day in days])
    assert bursty is not None
    assert np.abs(bursty.rate / days.mean() - 1).max() < 0.2
    once = typical_day([seen_with(days[0])])
    assert once is not None
    assert np.allclose(once.rate, days[0].mean())


def test_days_without_bids_teach_nothing() -> None:
    assert typical_day([]) is None
    assert typical_day([seen_with(np.zeros(144, dtype=np.int64))]) is None


def test_a_slot_that_brought_more_than_expected_lets_more_be_expected() -> None:
    history = typical_day([read_day(SMALL.tasks, SMALL.cluster, 144)])
    quiet, busy = np.zeros(144, dtype=np.int64), np.zeros(144, dtype=np.int64)
    busy[0] = 30
    totals = []
    for counts in (quiet, busy):
        found = forecast(history, Now(0, seen_with(counts)), 40, HABITS)
        assert found is not None
        totals.append(found.total)
        for scenario in found.scenarios:
            left = scenario.weights[scenario.columns.arrival == 0].sum()
            assert left == pytest.approx(found.total - counts[0])
    assert totals[0] == pytest.approx(8, rel=0.2)
    assert totals[1] > 30


@pytest.mark.parametrize("factor", [1, 3])
def test_the_level_of_today_is_taken_over(factor: int) -> None:
    history = typical_day([read_day(SMALL.tasks, SMALL.cluster, 144)])
    today = np.zeros(144, dtype=np.int64)
    today[:72] = np.random.default_rng(1).poisson(8 * factor, 72)
    found = forecast(history, Now(72, seen_with(today)), 72, HABITS)
    assert found is not None
    assert len(found.scenarios) == HABITS.scenarios
    mean = np.mean([scenario.weights.sum() for scenario in found.scenarios])
    assert mean == pytest.approx(8 * 72 * factor, rel=0.15)


def test_cut_and_joined_columns_keep_each_task_and_its_quotes() -> None:
    tasks = SMALL.tasks[:30]
    columns = relative_columns(tasks, SMALL.cluster)
    rows = np.array([7, 3, 3, 29, 0])
    joined = join([choose(columns, rows), choose(columns, rows[:2])])
    for i, row in enumerate([*rows.tolist(), *rows[:2].tolist()]):
        task = tasks[row]
        assert joined.bid[i] == float(task.bid)
        assert joined.deadline[i] == task.deadline - task.arrival
        prices = joined.quote_price[joined.first_quote[i] : joined.first_quote[i + 1]]
        assert prices.tolist() == ([float(q.price) for q in task.quotes] or [0.0])
    placed, weights = place(columns, np.repeat([5, 6], 4), np.array([8.0, 2.0]), 4)
    assert placed.arrival.tolist() == [0] * 4 + [1] * 4
    assert weights.tolist() == [2.0] * 4 + [0.5] * 4
    assert placed.deadline.max() <= 1


@pytest.mark.parametrize(("count", "size"), [(1, 5), (10, 4), (1000, 20)])
def test_even_samples_are_spread_over_all(count: int, size: int) -> None:
    for turn in range(20):
        rows = evenly(count, size, turn)
        assert len(rows) == size
        assert rows.min() >= 0
        assert rows.max() < count
        assert np.all(np.diff(rows) >= count // size)


def learned(history: tuple[tuple[Task, ...], ...] = ()) -> tuple[Pdftsp, LearnedPricing]:
    mechanism = Pdftsp(SMALL.cluster, PdftspParams(), history=history)
    assert isinstance(mechanism.pricing, LearnedPricing)
    return mechanism, mechanism.pricing


def test_no_bid_moves_prices_between_two_lessons() -> None:
    first, second = [t for t in SMALL.tasks if t.arrival == 0][:2]
    prices = []
    for bid in (second.bid, second.bid * 50):
        mechanism, pricing = learned((SMALL.tasks,))
        mechanism.offer(first, 0)
        before = pricing.lam.copy()
        mechanism.offer(replace(second, bid=bid), 0)
        assert np.array_equal(pricing.lam, before)
        prices.append(before)
    assert np.array_equal(prices[0], prices[1])
    assert prices[0].max() > 0


def test_cells_cost_nothing_but_their_running_before_anything_is_known() -> None:
    mechanism, pricing = learned()
    mechanism.offer(SMALL.tasks[0], 0)
    assert not pricing.lam.any()
    assert not pricing.phi.any()


def test_a_burst_is_learned_from_within_its_slot() -> None:
    mechanism, pricing = learned()
    crowd = [replace(SMALL.tasks[i], id=f"c{i}", arrival=0, deadline=40) for i in range(300)]
    for task in crowd:
        mechanism.offer(task, 0)
    assert pricing.lam[1:30].max() > 0


def test_what_is_scarcer_costs_more() -> None:
    whole, pricing = learned((SMALL.tasks,))
    whole.advance(0)
    half, of_half = learned((SMALL.tasks,))
    for node in SMALL.cluster.nodes[:3]:
        half.apply(NodeLost(node.id, 0))
    half.advance(1)
    whole.advance(1)
    assert of_half.lam[1:100].mean() > 1.2 * pricing.lam[1:100].mean()


def test_bids_of_zero_teach_nothing_and_break_nothing() -> None:
    mechanism, pricing = learned()
    for i, task in enumerate(SMALL.tasks[:60]):
        mechanism.offer(replace(task, id=f"z{i}", bid=Decimal(0)), task.arrival)
    assert not pricing.lam.any()
