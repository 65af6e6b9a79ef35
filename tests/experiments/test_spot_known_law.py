"""The best policy under a known law, on markets whose law leaves nothing open."""

import numpy as np
import pytest

from auctune.numerics.arrays import Floats
from auctune.spot import InstanceStart, SpotJob, SpotMarket, UniformProgress, offline_optimum, play
from auctune.spot.forecasts import make_forecasts
from known_law import KnownLaw, Survival, class_ages, geometric, rounded_lognormal, spell_chain

PRICE = 0.3


def lasting(num_slots: int) -> Survival:
    """Return the law of times that all last as long."""

    def survival(age: Floats) -> Floats:
        return np.asarray(age < num_slots).astype(np.float64)

    return survival


def alternating(down: int, up: int, num_slots: int) -> SpotMarket:
    available = np.arange(num_slots) % (down + up) >= down
    return SpotMarket(np.full(num_slots, PRICE), available.astype(np.int64))


@pytest.mark.parametrize("start", [40, 43, 48])
@pytest.mark.parametrize(("workload", "deadline"), [(20.0, 32), (30.0, 36), (12.0, 60)])
def test_where_all_times_are_sure_the_known_law_gives_the_optimum(
    start: int, workload: float, deadline: int
) -> None:
    down, up = 4, 7
    market = alternating(down, up, 200)
    job = SpotJob(
        workload=workload,
        deadline=deadline,
        n_max=1,
        hard_factor=1.0,
        value=1000.0,
        overhead=InstanceStart(1.2),
    )
    law = KnownLaw.of(job, spell_chain(lasting(down), lasting(up), 100, PRICE))
    forecasts = make_forecasts(law, market, start, deadline, deadline - 1)
    slots = market.between(start, start + deadline)
    found = play(law, job, slots, forecasts)
    assert found.finish <= deadline
    assert found.utility == pytest.approx(offline_optimum(job, slots).utility)
    assert found.utility >= play(UniformProgress(), job, slots).utility - 1e-9


def test_a_time_without_memory_ends_as_likely_at_any_age() -> None:
    chain = spell_chain(geometric(0.2), geometric(0.05), 300, PRICE)
    up = chain.available > 0
    for state, there in enumerate(up):
        change = chain.transition[state, up != there].sum()
        assert change == pytest.approx(0.05 if there else 0.2)
    assert np.allclose(chain.transition.sum(axis=1), 1.0)


def test_a_log_normal_time_has_the_hazard_of_its_draws() -> None:
    random = np.random.default_rng(0)
    mean, spread = 12.0, 1.5
    drawn = mean * np.exp(spread * random.normal(size=400_000) - spread**2 / 2)
    times = np.maximum(1, np.round(drawn))
    chain = spell_chain(rounded_lognormal(4.0, 1.0), rounded_lognormal(mean, spread), 300, PRICE)
    first = class_ages(300)
    for age in (0, 1, 5, 11):
        expected = (times == age + 1).sum() / (times > age).sum()
        found = chain.transition[len(first) + age, 0]
        assert found == pytest.approx(expected, abs=0.01)
