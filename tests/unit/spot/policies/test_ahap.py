"""Algorithm 1, branch by branch."""

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.spot import Ahap, Policy, SpotAllocation, SpotJob, SpotMarket, play, play_batch
from auctune.spot.account import job_constants
from auctune.spot.deadline import ProgressLine
from auctune.spot.policies.ahap import combine
from support.spot_cases import forecast_of, perfect
from support.spot_markets import random_market
from support.spot_seen import seen

JOB = SpotJob(workload=80, deadline=10, n_min=2, n_max=12)
TERMS = job_constants(JOB, 1.0)


@pytest.mark.parametrize(("line", "progress"), [("slot_end", 16.0), ("slot_start", 8.0)])
def test_who_is_ahead_takes_all_cheap_spot_and_no_on_demand(
    line: ProgressLine, progress: float
) -> None:
    # 8 units a slot: in slot 1 the line is 8 at its start and 16 at its end.
    run = Ahap(1, 1, 0.5, line=line).start(JOB)
    assert run.allocate(seen(progress=progress, price=0.5, available=16)) == SpotAllocation(0, 12)
    assert run.allocate(seen(progress=progress, price=0.51, available=16)) == SpotAllocation(0, 0)
    assert run.allocate(seen(progress=progress, price=0.5, available=1)) == SpotAllocation(0, 0)
    behind = seen(progress=progress - 7, price=0.51, available=16)
    assert run.allocate(behind).total > 0


def test_a_job_behind_the_line_of_its_first_slot_buys_on_demand_at_once() -> None:
    # 36 units in 4 slots, 9 a slot, and no spot GPU. 10 GPUs do 9 in the first slot, with mu_1 =
    # 0.9: just the line at its end. The line at its start is 0, which nothing done has reached.
    job = SpotJob(workload=36, deadline=4, n_max=12)
    drought = seen(0, price=0.9, available=0)
    assert Ahap(1, 1, 0.5).start(job).allocate(drought) == SpotAllocation(10, 0)
    early = Ahap(1, 1, 0.5, line="slot_start").start(job)
    assert early.allocate(drought) == SpotAllocation(0, 0)
    # Four such slots finish in time: 9 + 10 + 10 + 7 of the 10 that the last could do.
    market = SpotMarket(np.full(4, 0.9), np.zeros(4, dtype=np.int64))
    assert play(Ahap(1, 1, 0.5), job, market, perfect(market)).finish <= 4
    late = play(Ahap(1, 1, 0.5, line="slot_start"), job, market, perfect(market))
    assert late.finish > 4


def test_who_is_behind_plans_back_to_the_line() -> None:
    # Of Z_exp(2) = 16 there are 7; a start of 10 GPUs does the 9 that are missing.
    run = Ahap(1, 1, 0.5).start(JOB)
    behind = seen(progress=7.0, slot=1, price=0.9, available=3)
    assert run.allocate(behind) == SpotAllocation(7, 3)


def test_a_plan_waits_for_the_cheaper_slot_that_is_forecast() -> None:
    run = Ahap(2, 1, 0.5).start(SpotJob(workload=8, deadline=4, n_max=8, value=12))
    # Behind by everything in slot 1, with Z_exp(3) = 6; 7 spot GPUs in slot 2 do 6.3.
    observation = seen(slot=1, price=0.9, available=8, forecast=forecast_of([0.2], [8]))
    assert run.allocate(observation) == SpotAllocation(0, 0)
    none = seen(slot=1, price=0.9, available=8, forecast=forecast_of([0.2], [0]))
    assert run.allocate(none).total > 0


def test_the_last_plans_have_their_say_in_the_mean() -> None:
    run = Ahap(2, 2, 0.5, line="slot_start").start(JOB)
    # Slot 0 is ahead: it plans 6 now and 9 in slot 1.
    first = seen(0, price=0.5, available=6, forecast=forecast_of([0.4], [9]))
    assert run.allocate(first) == SpotAllocation(0, 6)
    # Slot 1 is ahead too, but its price is dear: 0 by its own plan, 9 by the last one.
    second = seen(1, price=0.6, available=8, progress=8.0, forecast=forecast_of([0.9], [9]))
    assert run.allocate(second) == SpotAllocation(0, 5)


def test_plans_of_absent_slots_are_not_counted() -> None:
    run = Ahap(3, 3, 0.5, line="slot_start").start(JOB)
    first = seen(0, price=0.5, available=7, forecast=forecast_of([0.9, 0.9], [9, 9]))
    assert run.allocate(first) == SpotAllocation(0, 7)


def plans(*entries: tuple[int, int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """[c, h, 2] that say `entries` of slot c - 1, the oldest plan first."""
    count = len(entries)
    made = np.full((count, count, 2), 99)
    for slot, entry in enumerate(entries):
        made[slot, count - 1 - slot] = entry
    return made


def test_means_are_rounded_half_up_by_kind() -> None:
    assert combine(TERMS, plans((3, 4), (4, 5)), 2, 1, True, 9) == (4, 5)
    assert combine(TERMS, plans((1, 4), (1, 4), (2, 5)), 3, 2, True, 9) == (1, 4)


def test_spot_is_cut_to_what_is_there_and_not_replaced() -> None:
    assert combine(TERMS, plans((2, 6)), 1, 0, False, 4) == (2, 4)


def test_two_halves_rounded_up_stay_within_the_most() -> None:
    assert combine(TERMS, plans((5, 7), (6, 6)), 2, 1, False, 9) == (5, 7)


def test_a_total_under_the_least_is_nothing_when_ahead_and_the_least_when_behind() -> None:
    assert combine(TERMS, plans((0, 3)), 1, 0, True, 1) == (0, 0)
    assert combine(TERMS, plans((0, 3)), 1, 0, False, 1) == (1, 1)
    assert combine(TERMS, plans((0, 0)), 1, 0, False, 1) == (0, 0)


def test_a_window_wider_than_the_forecast_is_refused() -> None:
    run = Ahap(4, 1).start(JOB)
    with pytest.raises(InputError, match="2 slots ahead; expected one of 3 slots"):
        run.allocate(seen(0, forecast=forecast_of([0.5, 0.5], [1, 1])))


def test_at_the_deadline_no_forecast_is_needed() -> None:
    assert Ahap(4, 1, 0.5).start(JOB).allocate(seen(9, progress=79.0, available=2)).total == 2


@pytest.mark.parametrize(
    ("place", "values"),
    [("window", (0, 1, 0.5)), ("commitment", (3, 4, 0.5)), ("sigma", (3, 1, 0.0))],
)
def test_wrong_parameters_are_refused_by_name(place: str, values: tuple[int, int, float]) -> None:
    with pytest.raises(InputError, match=f"^{place}"):
        Ahap(*values)


def test_a_line_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match=r"^line: 'end'; expected one of slot_end"):
        Ahap(line="end")  # type: ignore[arg-type]


def test_a_window_beyond_the_deadline_is_one_up_to_it() -> None:
    market = random_market(6, 4)
    job = SpotJob(workload=30, deadline=6, n_max=8, value=40)
    forecasts = perfect(market)
    wide: list[Policy] = [Ahap(10**12, 10**12), Ahap(10**12, 1, 0.3, plan_always=True)]
    narrow = [Ahap(6, 6), Ahap(6, 1, 0.3, plan_always=True)]
    singly = [play(policy, job, market, forecasts) for policy in narrow]
    assert [play(policy, job, market, forecasts) for policy in wide] == singly
    batch = play_batch(wide, [job], [market], [forecasts])
    assert batch.utility[0].tolist() == [outcome.utility for outcome in singly]
