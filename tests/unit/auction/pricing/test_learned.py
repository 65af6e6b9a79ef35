"""Learned prices: the typical day, the forecast, and when prices move."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from auctune.auction import Pdftsp, PdftspParams
from auctune.auction.dual import lagrangian_bound
from auctune.auction.pricing import LearnedParams, LearnedPricing
from auctune.auction.pricing.demand_history import (
    DayRecord,
    DemandHistory,
    join,
    read_days,
    relative_columns,
    select_rows,
)
from auctune.auction.pricing.demand_profile import (
    DemandProfile,
    fit_profile,
    known_profile,
    kronecker_sample,
    value_statistics,
)
from auctune.auction.pricing.forecast import ForecastState, forecast
from auctune.domain import InputError, NodeLost, PricesLearned, Saved, Task
from auctune.domain.money import LARGEST
from auctune.domain.snapshot import write_snapshot
from auctune.sim.engine import simulate
from auctune.sim.metrics import measure
from auctune.sim.workloads.synthetic import SyntheticParams, make_instance

SMALL = make_instance(SyntheticParams(nodes={"a100": 4}, rate=8.0, seed=5))
FORECAST = LearnedParams().in_slots(600.0, 144, 1)
NOTHING_RECENT = LearnedParams(recent_share=0.0)


def history_with(counts: np.ndarray, now: int | None = None) -> DemandHistory:
    """Slots that brought so many bids each, all of them the first one's like."""
    records = DemandHistory(SMALL.cluster, 144, FORECAST.recent)
    for slot, count in enumerate(counts.tolist()[: None if now is None else now + 1]):
        records.begin(slot)
        for _ in range(count):
            records.add(SMALL.tasks[0])
    return records


def seen_with(counts: np.ndarray) -> DayRecord:
    """A day of them."""
    (seen,) = history_with(counts).begin(144)
    return seen


def typical_small() -> DemandProfile:
    typical = fit_profile(read_days(SMALL.tasks, SMALL.cluster, 144, 144))
    assert typical is not None
    return typical


def test_a_daily_curve_is_seen_when_days_agree_on_it() -> None:
    rng = np.random.default_rng(3)
    curve = 40 + 30 * np.sin(np.arange(144) * 2 * np.pi / 144)
    wavy = fit_profile([seen_with(rng.poisson(curve)) for _ in range(2)])
    assert wavy is not None
    assert np.abs(wavy.rate - curve).mean() < 3


def test_bursts_at_another_time_each_day_are_no_daily_curve() -> None:
    days = np.full((3, 144), 5, dtype=np.int64)
    for day, slot in enumerate((20, 77, 110)):
        days[day, slot : slot + 4] += 190
    bursty = fit_profile([seen_with(day) for day in days])
    assert bursty is not None
    assert np.abs(bursty.rate / days.mean() - 1).max() < 0.2
    once = fit_profile([seen_with(days[0])])
    assert once is not None
    assert np.allclose(once.rate, days[0].mean())


def test_days_without_bids_teach_nothing() -> None:
    assert fit_profile([]) is None
    assert fit_profile([seen_with(np.zeros(144, dtype=np.int64))]) is None


def test_idle_days_count_whether_their_slots_begin_or_not() -> None:
    busy = np.full(144, 5, dtype=np.int64)
    leaping, walking = history_with(busy), history_with(busy)
    days = leaping.begin(4 * 144)
    walked = [day for slot in range(144, 4 * 144 + 1) for day in walking.begin(slot)]
    assert [int(day.counts.sum()) for day in days] == [5 * 144, 0, 0, 0]
    for one, other in zip(days, walked, strict=True):
        for a, b in zip((*one.columns, *one[1:]), (*other.columns, *other[1:]), strict=True):
            assert np.array_equal(np.asarray(a), np.asarray(b))
    profile = fit_profile(days)
    assert profile is not None
    assert profile.rate.mean() == pytest.approx(5 / 4)
    assert leaping.begin(10**12)[-1].counts.sum() == 0


def test_idle_days_between_earlier_bids_are_read() -> None:
    later = [replace(t, arrival=t.arrival + 288, deadline=t.deadline + 288) for t in SMALL.tasks]
    days = read_days([*SMALL.tasks, *later], SMALL.cluster, 144, 144)
    assert [int(day.counts.sum()) for day in days] == [len(SMALL.tasks), 0, len(SMALL.tasks)]
    assert [day.num_known for day in days] == [144] * 3


def test_a_slot_that_brought_more_than_expected_lets_more_be_expected() -> None:
    history = typical_small()
    quiet, busy = np.zeros(144, dtype=np.int64), np.zeros(144, dtype=np.int64)
    busy[0] = 30
    totals = []
    for counts in (quiet, busy):
        found = forecast(history, ForecastState(0, history_with(counts, 0).recent()), 40, FORECAST)
        assert found is not None
        totals.append(found.total)
        left = found.scenarios.weights[:, found.scenarios.arrival == 0].sum(axis=1)
        assert left == pytest.approx(found.total - counts[0])
    assert totals[0] == pytest.approx(8, rel=0.2)
    assert totals[1] > 30


def test_a_slot_that_brought_as_many_is_like_this_one_however_its_ratio_is_rounded() -> None:
    # Some counts over their mean, times that mean, are less than the count itself.
    past = np.tile([0, 1, 0, 2, 5, 0, 1], 5)
    for known in range(12, len(past)):
        now = ForecastState(known, history_with(np.append(past[:known], 2), known).recent())
        found = forecast(None, now, 4, FORECAST)
        assert found is not None
        seen = past[max(0, known - FORECAST.recent) : known]
        assert found.total == pytest.approx(seen[seen >= 2].mean(), rel=1e-9)


@pytest.mark.parametrize("factor", [1, 3])
def test_the_level_of_today_is_taken_over(factor: int) -> None:
    history = typical_small()
    today = np.zeros(144, dtype=np.int64)
    today[:72] = np.random.default_rng(1).poisson(8 * factor, 72)
    found = forecast(history, ForecastState(72, history_with(today, 72).recent()), 72, FORECAST)
    assert found is not None
    assert len(found.scenarios.weights) == FORECAST.scenarios
    mean = found.scenarios.weights.sum(axis=1).mean()
    assert mean == pytest.approx(8 * 72 * factor, rel=0.15)


def test_cut_and_joined_columns_keep_each_task_and_its_quotes() -> None:
    tasks = SMALL.tasks[:30]
    columns = relative_columns(tasks, SMALL.cluster)
    rows = np.array([7, 3, 3, 29, 0])
    joined = join([select_rows(columns, rows), select_rows(columns, rows[:2])])
    for i, row in enumerate([*rows.tolist(), *rows[:2].tolist()]):
        task = tasks[row]
        assert joined.bid[i] == float(task.bid)
        assert joined.deadline[i] == task.deadline - task.arrival
        prices = joined.quote_price[joined.first_quote[i] : joined.first_quote[i + 1]]
        assert prices.tolist() == ([float(q.price) for q in task.quotes] or [0.0])


@pytest.mark.parametrize(("count", "size"), [(1, 5), (10, 4), (1000, 20)])
def test_even_samples_are_spread_over_all(count: int, size: int) -> None:
    rows = kronecker_sample(np.full(20, count), size, np.arange(20))
    assert rows.shape == (20, size)
    assert rows.min() >= 0
    assert rows.max() < count
    assert np.all(np.diff(rows) >= count // size)


def learned(history: tuple[tuple[Task, ...], ...] = ()) -> tuple[Pdftsp, LearnedPricing]:
    mechanism = Pdftsp(SMALL.cluster, PdftspParams(), history=history)
    assert isinstance(mechanism.pricing, LearnedPricing)
    return mechanism, mechanism.pricing


@pytest.mark.slow
@pytest.mark.parametrize("num_before", [1, 30])
def test_what_a_bid_is_moves_no_price_but_by_the_next_update(num_before: int) -> None:
    """Also where that bid is the one that makes an update due: it is priced before."""
    others = [replace(t, id=f"o{i}", arrival=0) for i, t in enumerate(SMALL.tasks[:num_before])]
    last = replace(SMALL.tasks[40], id="last", arrival=0)
    prices = []
    for bid in (last.bid, last.bid * 50):
        mechanism, pricing = learned((SMALL.tasks,))
        for task in others:
            mechanism.offer(task, 0)
        mechanism.advance(0)
        before = pricing.lam.copy()
        decision = mechanism.offer(replace(last, bid=bid), 0)
        assert np.array_equal(pricing.lam, before)
        prices.append(decision.price)
    assert prices[0] == prices[1]
    assert prices[0] is not None


def test_cells_cost_nothing_but_their_running_before_anything_is_known() -> None:
    mechanism, pricing = learned()
    mechanism.offer(SMALL.tasks[0], 0)
    assert not pricing.lam.any()
    assert not pricing.phi.any()


def test_what_is_scarcer_costs_more() -> None:
    whole, of_whole = learned((SMALL.tasks,))
    quarter, of_quarter = learned((SMALL.tasks,))
    whole.advance(0)
    quarter.advance(0)
    for node in SMALL.cluster.nodes[:3]:
        quarter.apply(NodeLost(node.id, 0))
    # Prices follow in small steps.
    for slot in range(1, 7):
        whole.advance(slot)
        quarter.advance(slot)
    assert of_quarter.lam[6:30].mean() > 1.5 * of_whole.lam[6:30].mean()


def test_bids_of_zero_teach_nothing_and_break_nothing() -> None:
    mechanism, pricing = learned()
    for i, task in enumerate(SMALL.tasks[:60]):
        mechanism.offer(replace(task, id=f"z{i}", bid=Decimal(0)), task.arrival)
    assert not pricing.lam.any()


def updates_of(mechanism: Pdftsp, tasks: Sequence[Task], now: int) -> int:
    """How often prices are learned while these bids come in one slot."""
    count = 0
    for task in tasks:
        count += sum(isinstance(event, PricesLearned) for event in mechanism.advance(now))
        mechanism.offer(task, now)
    return count


def test_a_first_slot_is_learned_from_a_few_times_however_many_bids_it_brings() -> None:
    mechanism, pricing = learned()
    crowd = [replace(t, id=f"c{i}", arrival=0) for i, t in enumerate(SMALL.tasks[:300])]
    # From 8 bids on, each update expects half as many more.
    assert 5 <= updates_of(mechanism, crowd, 0) <= 1 + np.log(300 / 8) / np.log(1.4)
    assert pricing.lam[1:30].max() > 0


def test_far_prices_are_renewed_less_often_than_near_ones() -> None:
    mechanism, pricing = learned((SMALL.tasks,))
    mechanism.advance(0)
    for slot in range(1, 9):
        before = pricing.lam.copy()
        mechanism.advance(slot)
        moved = np.flatnonzero((pricing.lam != before).any(axis=1))
        renewed = 24 * (slot & -slot)
        assert moved.size
        assert slot <= moved.min() <= moved.max() < slot + renewed


@pytest.mark.slow
def test_a_single_absurd_bid_changes_no_price() -> None:
    """Neither the first one of all nor a later one: money is counted in bids as there are many."""
    prices = []
    for absurd in (None, 0, 50):
        tasks = list(SMALL.in_order())[:300]
        if absurd is not None:
            tasks[absurd] = replace(tasks[absurd], bid=LARGEST)
        mechanism, pricing = learned()
        for task in tasks:
            mechanism.offer(task, task.arrival)
        prices.append(pricing.lam[50:120].mean())
    assert prices[1] == pytest.approx(prices[0], rel=0.5)
    assert prices[2] == pytest.approx(prices[0], rel=0.5)


def test_midnight_forgets_neither_the_rate_nor_the_bids_of_the_last_hours() -> None:
    """An evening brings eight times as many bids, of twice the value."""
    counts = np.full(144, 5, dtype=np.int64)
    counts[108:] = 40
    records, dear = (
        DemandHistory(SMALL.cluster, 144, FORECAST.recent),
        SMALL.tasks[0].bid * 2,
    )
    for slot, count in enumerate(counts.tolist()):
        records.begin(slot)
        for _ in range(count):
            records.add(SMALL.tasks[0] if slot < 108 else replace(SMALL.tasks[0], bid=dear))
    typical = fit_profile(records.begin(144))
    found = forecast(typical, ForecastState(144, records.recent()), 12, FORECAST)
    assert found is not None
    expected = found.scenarios.weights.sum(axis=1).mean() / 12
    assert expected > 1.4 * counts.mean()
    assert found.scenarios.pool.bid.max() == pytest.approx(float(dear), rel=0.2)


@pytest.mark.parametrize("num_slots", [36, 144])
def test_slots_that_a_day_did_not_have_are_not_empty_ones(num_slots: int) -> None:
    tasks = [task for task in SMALL.tasks if task.arrival < num_slots]
    typical = fit_profile(read_days(tasks, SMALL.cluster, 144, num_slots))
    assert typical is not None
    assert typical.rate.mean() == pytest.approx(len(tasks) / num_slots)
    assert len(typical.ratios) == num_slots


def test_earlier_bids_of_two_days_are_two_days() -> None:
    later = [replace(t, arrival=t.arrival + 144, deadline=t.deadline + 144) for t in SMALL.tasks]
    days = read_days([*SMALL.tasks, *later], SMALL.cluster, 144, 144)
    assert [int(day.counts.sum()) for day in days] == [len(SMALL.tasks)] * 2
    assert np.array_equal(days[0].counts, days[1].counts)


def test_a_slot_after_the_last_one_teaches_nothing_and_breaks_nothing() -> None:
    mechanism, _ = learned((SMALL.tasks,))
    mechanism.advance(144)
    with pytest.raises(InputError, match="deadline"):
        mechanism.offer(replace(SMALL.tasks[0], arrival=144, deadline=150), 144)
    mechanism.apply(NodeLost(SMALL.cluster.nodes[0].id, 144))


def test_what_is_kept_of_a_crowded_slot_is_of_all_its_bids_alike() -> None:
    records = DemandHistory(SMALL.cluster, 144, FORECAST.recent)
    records.begin(3)
    for bid in range(1, 2001):
        records.add(replace(SMALL.tasks[0], bid=Decimal(bid)))
    recent = records.recent()
    assert recent.num_seen == 2000
    assert recent.columns.num_tasks == 200
    assert len(set(recent.columns.bid.tolist())) == 200
    assert recent.columns.bid.mean() == pytest.approx(1000, rel=0.15)
    assert recent.columns.bid.max() > 1800


def test_a_history_goes_on_where_a_saved_one_was() -> None:
    one, other = (DemandHistory(SMALL.cluster, 12, 5) for _ in range(2))
    for number, task in enumerate(SMALL.in_order()[:400]):
        if number == 250:
            other.load(one.save())
        for records in (one, other)[: 2 if number >= 250 else 1]:
            records.begin(number // 13)
            records.add(task)
    first, second = one.recent(), other.recent()
    assert np.array_equal(first.past, second.past)
    assert first.num_seen == second.num_seen
    for a, b in zip(first.columns, second.columns, strict=True):
        assert np.array_equal(a, b)


def test_a_history_of_far_more_bids_is_soon_not_believed() -> None:
    """Fifty times as many bids a slot as today brings."""
    typical = fit_profile([seen_with(np.full(144, 50, dtype=np.int64))])
    today = np.ones(144, dtype=np.int64)
    found = forecast(typical, ForecastState(20, history_with(today, 20).recent()), 40, FORECAST)
    assert found is not None
    mean = found.scenarios.weights.sum(axis=1).mean()
    assert mean == pytest.approx(40, rel=0.5)


def test_worth_is_of_bids_above_zero() -> None:
    tasks = [replace(SMALL.tasks[0], bid=Decimal(bid)) for bid in (0, 4, 4, 4)]
    found = value_statistics(relative_columns(tasks, SMALL.cluster))
    assert found.median_bid == 4
    assert found.mean == pytest.approx(np.log(4 / SMALL.tasks[0].work))
    assert found.error == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("place", "damage"),
    [
        ("lam", lambda saved: {"lam": saved["lam"][:, 1:]}),
        ("phi", lambda saved: {"phi": np.full_like(saved["phi"], np.nan)}),
        ("lam", lambda saved: {"lam": -1.0 - saved["lam"]}),
        ("lam", lambda saved: {"lam": saved["lam"].astype(str)}),
        ("unit", lambda _: {"unit": float("inf")}),
        ("enough", lambda _: {"enough": np.zeros(2)}),
        ("counts", lambda saved: {"history": {**saved["history"], "counts": np.zeros(3)}}),
        ("counts", lambda saved: {"days": [{**saved["days"][0], "counts": np.zeros(3)}]}),
        ("bid", lambda saved: {"days": [with_columns(saved["days"][0], "bid", np.inf)]}),
        ("first_quote", lambda saved: {"days": [with_columns(saved["days"][0], "first_quote", 9)]}),
        ("own_cost", lambda saved: {"days": [with_columns(saved["days"][0], "own_cost", 5)]}),
    ],
)
def test_a_snapshot_that_is_not_one_is_refused_before_any_of_it_is_loaded(
    place: str, damage: Callable[[Saved], Saved]
) -> None:
    mechanism, pricing = learned((SMALL.tasks,))
    mechanism.advance(0)
    saved = pricing.save()
    _, other = learned((SMALL.tasks[:100],))
    before = other.save()
    with pytest.raises(InputError, match=f"snapshot.{place}"):
        other.load({**saved, **damage(saved)})
    after = other.save()
    assert write_snapshot(after) == write_snapshot(before)
    assert not other.lam.any()
    other.load(saved)
    assert write_snapshot(other.save()) == write_snapshot(saved)


def with_columns(day: Saved, name: str, last: float) -> Saved:
    """The day with another last entry in one of its columns."""
    column = day["columns"][name].copy()
    column[-1] = last
    return {**day, "columns": {**day["columns"], name: column}}


def test_who_knows_a_day_expects_its_counts_whatever_came_before() -> None:
    counts = np.random.default_rng(4).poisson(6, 144)
    counts[50:60] = 0
    known = known_profile(seen_with(counts))
    for slot in (0, 49, 52, 100):
        records = history_with(counts, slot - 1)
        records.begin(slot)
        now = ForecastState(slot, records.recent())
        found = forecast(known, now, 144 - slot, replace(FORECAST, constants=NOTHING_RECENT))
        assert found is not None
        assert found.total == counts[slot]
        scenarios = found.scenarios
        for ahead, count in enumerate(counts[slot : slot + 40]):
            expected = scenarios.weights[:, scenarios.arrival == ahead].sum(axis=1)
            assert expected == pytest.approx(np.full(8, count))


@pytest.mark.slow
def test_who_knows_each_bid_of_a_day_has_most_of_what_can_be_had() -> None:
    welfare = {}
    for which in (False, True):
        mechanism, pricing = learned()
        pricing.know_day(SMALL.tasks, which=which)
        welfare[which] = measure(simulate(SMALL, mechanism)).welfare
    bound = lagrangian_bound(SMALL.cluster, SMALL.tasks).value
    assert 0.9 * bound < welfare[False] < bound
    assert 0.9 * bound < welfare[True] < bound
