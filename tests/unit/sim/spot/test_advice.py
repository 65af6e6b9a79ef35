from dataclasses import dataclass, replace

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.sim.spot.advice import advise, likely_futures
from auctune.sim.spot.forecasts import SeasonalSpec, parse_forecaster
from auctune.spot import (
    IDLE,
    Ahap,
    OnDemandOnly,
    PastSlot,
    SpotAllocation,
    SpotFirst,
    SpotJob,
    SpotMarket,
    SpotObservation,
    play,
)
from support.spot_files import daily_market

JOB = SpotJob(workload=12, deadline=4, n_max=6)


def test_a_future_begins_as_the_past_and_goes_on_as_it_did_somewhere() -> None:
    past = daily_market(80)
    stretches = {tuple(past.available[s + 1 : s + 6]) for s in range(75) if past.available[s] == 0}
    futures = likely_futures(past, 5, 6)
    assert len(futures) == 9
    for future in futures:
        assert np.array_equal(future.price[:80], past.price)
        assert np.array_equal(future.available[:80], past.available)
        # Slot 79 has none, and so has a half of all: each future is one that followed none.
        assert tuple(future.available[80:]) in stretches
        assert np.all(future.price >= 0)


def test_counts_that_a_job_cannot_use_are_alike() -> None:
    # Odd and even counts are followed by none and by plenty; a job of two cannot tell them apart.
    count = np.tile([5, 0, 4, 9], 50)
    past = SpotMarket(np.full(197, 0.3), count[:197])
    assert {future.available[197] for future in likely_futures(past, 1, 16)} == {0}
    assert {future.available[197] for future in likely_futures(past, 1, 2)} == {0, 5, 9}


def test_futures_are_spread_over_all_moments_that_are_as_like() -> None:
    # The count says which slot a future goes on from: 0 and a number by turns.
    slots = np.arange(402)
    past = SpotMarket(np.full(401, 0.4), np.where(slots % 2 == 0, 0, slots)[:401])
    followed = np.array([future.available[401] for future in likely_futures(past, 1, 1)])
    # 20 of the 200 moments with none, from the first to the last.
    assert len(followed) == 20
    assert (followed.min(), followed.max()) == (1, 399)
    assert set(np.diff(followed)) <= {20, 22}
    few = [future.available[401] for future in likely_futures(past, 1, 1, 3)]
    assert few == [1, 201, 399]


def test_of_moments_with_the_same_count_the_nearest_in_price_are_taken() -> None:
    past = SpotMarket(np.array([1e-6 * slot**2 for slot in range(401)]), np.full(401, 4))
    futures = likely_futures(past, 1, 4)
    # The price of slot s is followed by one that is higher by (2 s + 1) / 10^6.
    rises = [future.price[401] - past.price[400] for future in futures]
    moments = (1e6 * np.array(rises) - 1) / 2
    # 4 * 20 of 400, and every fourth of them.
    assert len(moments) == 20
    assert (moments.min(), moments.max()) == pytest.approx((320, 399))


def test_a_past_too_short_to_tell_is_refused() -> None:
    assert likely_futures(daily_market(13), 5, 6)
    with pytest.raises(InputError, match="12 slots up to the present one"):
        likely_futures(daily_market(12), 5, 6)


def test_in_a_market_that_never_changes_nothing_is_uncertain() -> None:
    market = SpotMarket(np.full(40, 0.4), np.full(40, 4))
    for policy in (SpotFirst(), OnDemandOnly(), Ahap(window=3)):
        whole = SpotMarket(np.full(44, 0.4), np.full(44, 4))
        said = advise(JOB, policy, SeasonalSpec(), market, 38)
        forecasts = None
        if policy.horizon:
            from auctune.spot.forecasts import PerfectForecaster, make_forecasts

            forecasts = make_forecasts(PerfectForecaster(whole), whole, 38, 4, 2)
        expected = play(policy, JOB, whole.between(38, 42), forecasts)
        assert said.slot == 1
        assert said.now == expected.allocations[1]
        assert said.progress == expected.progress[0]
        assert said.cost == pytest.approx(expected.cost)
        assert said.cost_p50 == said.cost_p90 == expected.cost
        assert said.finish_p50 == said.finish_p90 == expected.finish
        assert said.risk == float(expected.finish > JOB.deadline)


def test_what_a_future_holds_does_not_change_what_is_held_now() -> None:
    market = daily_market(60)
    said = {
        advise(JOB, Ahap(window=3), SeasonalSpec(), market, 58, most_futures=n).now
        for n in (1, 7, None)
    }
    assert len(said) == 1


@dataclass(frozen=True)
class SpotAlone:
    """All spot there is, and nothing else."""

    name: str = "spot-alone"
    horizon: int = 0

    def start(self, job: SpotJob) -> "SpotAlone":
        return self

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        return SpotAllocation(0, min(observation.available, 6))


def test_the_risk_is_the_share_of_futures_that_are_late() -> None:
    # By turns four slots with spot and four without; two slots with spot are enough.
    slots = np.arange(396)
    market = SpotMarket(np.full(396, 0.3), np.where(slots % 8 < 4, 6, 0))
    job = replace(JOB, workload=10.0, deadline=2)
    said = advise(job, SpotAlone(), SeasonalSpec(), market, 395)
    futures = likely_futures(market, 1, job.n_max)
    assert said.risk == np.mean([future.available[396] == 0 for future in futures])
    # A slot with spot is the last of its four in one case of four.
    assert 0.15 < said.risk < 0.35
    assert said.finish_p50 <= 2 < said.finish_p90


def on_and_off(num_slots: int, seed: int = 0) -> SpotMarket:
    """Return a market whose GPUs come and go, at a constant price."""
    changed = np.random.default_rng(seed).uniform(size=num_slots) < 0.2
    return SpotMarket(np.full(num_slots, 0.3), 6 * (np.cumsum(changed) % 2))


@pytest.mark.parametrize("num_slots", [40, 300])
def test_p90_has_the_more_room_the_shorter_the_past(num_slots: int) -> None:
    job = replace(JOB, workload=60.0, deadline=16)
    market = on_and_off(num_slots)
    said = advise(job, SpotFirst(), SeasonalSpec(), market, num_slots - 1)
    costs = [
        play(SpotFirst(), job, future.between(num_slots - 1, num_slots + 15)).cost
        for future in likely_futures(market, 15, job.n_max)
    ]
    p50, p90 = np.quantile(costs, (0.5, 0.9), method="hazen")
    assert said.cost_p50 == pytest.approx(p50)
    assert p90 > p50
    room = 1 + 15 / (num_slots - 15)
    none = np.where(np.arange(16) < 1, market.available[-1], 0)
    dry = play(SpotFirst(), job, SpotMarket(np.full(16, 0.3), none)).cost
    assert said.cost_p90 == pytest.approx(min(p50 + room * (p90 - p50), max(*costs, dry)))


def test_a_policy_that_keeps_the_deadline_is_never_expected_after_it() -> None:
    job = replace(JOB, workload=60.0, deadline=16)
    for seed in range(5):
        said = advise(job, SpotFirst(), SeasonalSpec(), on_and_off(40, seed), 39)
        assert said.risk == 0
        assert said.finish_p50 <= said.finish_p90 <= 16 + 1e-9


def test_a_job_that_is_not_running_is_not_advised() -> None:
    market = daily_market(60)
    with pytest.raises(InputError, match="start: 60"):
        advise(JOB, SpotFirst(), SeasonalSpec(), market, 60)
    with pytest.raises(InputError, match="fewer than 4, the job's deadline"):
        advise(JOB, SpotFirst(), SeasonalSpec(), market, 55)
    for label in ("perfect", "noisy:error=0.2"):
        with pytest.raises(InputError, match="knows the future"):
            advise(JOB, SpotFirst(), parse_forecaster(label, "forecast"), market, 58)


def test_a_job_that_is_done_holds_nothing() -> None:
    market = SpotMarket(np.full(40, 0.4), np.full(40, 6))
    said = advise(replace(JOB, workload=4.0), SpotFirst(), SeasonalSpec(), market, 37)
    assert said.is_done
    assert said.now.total == 0


def test_advice_on_a_run_goes_on_from_what_it_did_and_paid() -> None:
    market = SpotMarket(np.full(40, 0.4), np.full(40, 4))
    seen = SpotObservation(0, 0.4, 4, 4, 1.0, 0.0, 0.0, IDLE, None)
    # The model would have had 3.6 done; the run lost most of it, and paid 2.5.
    past = (PastSlot(seen, SpotAllocation(0, 4), 1.0, 2.5),)
    said = advise(JOB, OnDemandOnly(), SeasonalSpec(), market, 38, past=past)
    assert (said.slot, said.progress) == (1, 1.0)
    # 11 are left for three slots: 4 GPUs, and no change.
    assert said.now == SpotAllocation(4, 0)
    assert said.cost == 2.5 + 3 * 4
    assert said.finish_p50 == pytest.approx(1 + 11 / 4)
