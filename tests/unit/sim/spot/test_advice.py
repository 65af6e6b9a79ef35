from dataclasses import dataclass, replace

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.sim.spot.advice import advise
from auctune.sim.spot.foretelling import Seasonal, parse_foretelling
from auctune.sim.spot.futures import draw_futures
from auctune.spot import (
    Ahap,
    OnDemandOnly,
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
    for future in draw_futures(past, 5, 40, seed=1):
        assert np.array_equal(future.price[:80], past.price)
        assert np.array_equal(future.available[:80], past.available)
        # Slot 79 has none, and so has a half of all: each future is one that followed none.
        assert tuple(future.available[80:]) in stretches
        assert np.all(future.price >= 0)


def test_fewer_futures_are_the_first_of_more_and_differ_by_seed() -> None:
    past = daily_market(80)
    few, many = draw_futures(past, 5, 5), draw_futures(past, 5, 40)
    assert all(np.array_equal(a.available, b.available) for a, b in zip(few, many[:5], strict=True))
    other = draw_futures(past, 5, 40, seed=2)
    assert any(
        not np.array_equal(a.available, b.available) for a, b in zip(many, other, strict=True)
    )


def test_of_moments_that_are_alike_the_latest_count() -> None:
    # Every other slot has none; between them is 1, and 5 in the last third.
    slots = np.arange(301)
    between = np.where(slots < 200, 1, 5)
    past = SpotMarket(np.full(301, 0.4), np.where(slots % 2 == 0, 0, between))
    futures = draw_futures(past, 1, 400)
    share = np.mean([future.available[301] == 5 for future in futures])
    # A third of all moments is two thirds of those with none: half of them are of the last third.
    assert 0.42 < share < 0.58


def test_a_past_too_short_to_tell_is_refused() -> None:
    assert draw_futures(daily_market(13), 5, 1)
    with pytest.raises(InputError, match="12 slots up to the present one"):
        draw_futures(daily_market(12), 5, 1)


def test_in_a_market_that_never_changes_nothing_is_uncertain() -> None:
    market = SpotMarket(np.full(40, 0.4), np.full(40, 4))
    for policy in (SpotFirst(), OnDemandOnly(), Ahap(window=3)):
        whole = SpotMarket(np.full(44, 0.4), np.full(44, 4))
        said = advise(JOB, policy, Seasonal(), market, 38, num_futures=20)
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
        advise(JOB, Ahap(window=3), Seasonal(), market, 58, num_futures=n, seed=n).now
        for n in (1, 7, 30)
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
    said = advise(job, SpotAlone(), Seasonal(), market, 395, num_futures=400, seed=3)
    futures = draw_futures(market, 1, 400, seed=3)
    assert said.risk == np.mean([future.available[396] == 0 for future in futures])
    # A slot with spot is the last of its four in one case of four.
    assert 0.15 < said.risk < 0.35
    assert said.finish_p50 <= 2 < said.finish_p90


def test_a_job_that_is_not_running_is_not_advised() -> None:
    market = daily_market(60)
    with pytest.raises(InputError, match="start: 60"):
        advise(JOB, SpotFirst(), Seasonal(), market, 60)
    with pytest.raises(InputError, match="fewer than 4, the job's deadline"):
        advise(JOB, SpotFirst(), Seasonal(), market, 55)
    for label in ("perfect", "noisy:error=0.2"):
        with pytest.raises(InputError, match="knows the future"):
            advise(JOB, SpotFirst(), parse_foretelling(label, "forecast"), market, 58)


def test_a_job_that_is_done_holds_nothing() -> None:
    market = SpotMarket(np.full(40, 0.4), np.full(40, 6))
    said = advise(replace(JOB, workload=4.0), SpotFirst(), Seasonal(), market, 37)
    assert said.is_done
    assert said.now.total == 0
