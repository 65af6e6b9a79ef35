"""A Markov chain of the market: its rates, what it has not seen, and its quantiles."""

import numpy as np
import pytest
from scipy import optimize

from auctune.domain import InputError
from auctune.numerics.arrays import Floats
from auctune.spot import SpotMarket
from auctune.spot.forecasts import MarkovChain
from auctune.spot.forecasts.chain import AGES, LEVEL, SMOOTHNESS, log_hazard


def on_and_off(num_slots: int, leave: float, come: float, seed: int = 0) -> SpotMarket:
    """One instance that comes and goes with these probabilities."""
    random = np.random.default_rng(seed)
    there, available = True, []
    for chance in random.uniform(size=num_slots):
        available.append(int(there))
        there = chance >= leave if there else chance < come
    return SpotMarket(np.full(num_slots, 0.3), np.array(available))


def test_the_rates_of_a_chain_are_learnt_from_its_past() -> None:
    leave, come = 0.03, 0.06
    market = on_and_off(40_000, leave, come)
    forecast = MarkovChain().forecast(market, 3)
    chain = forecast.chain
    assert chain is not None
    up = chain.available > 0
    for state in range(len(up)):
        change = chain.transition[state, up != up[state]].sum()
        # Few times down last for 81 slots: there the prior counts.
        slack = 0.015 if up[state] or state % (len(AGES) + 1) < len(AGES) else 0.04
        assert change == pytest.approx(leave if up[state] else come, abs=slack)
    assert np.allclose(chain.transition.sum(axis=1), 1.0)
    assert np.all(chain.price == pytest.approx(0.3))
    assert bool(up[chain.present]) == bool(market.available[-1])


@pytest.mark.parametrize("count", [0, 3])
def test_what_was_never_seen_is_possible(count: int) -> None:
    market = SpotMarket(np.full(300, 0.3), np.full(300, count))
    chain = MarkovChain().forecast(market, 1).chain
    assert chain is not None
    up = chain.available > 0
    assert up.any()
    assert not up.all()
    # After 288 slots alike it is rarer than at first.
    assert 0 < chain.transition[chain.present, up != (count > 0)].sum() < 1 / (1 + 72)


def test_what_has_just_come_is_likelier_to_go() -> None:
    # Either is gone after two slots, or stays for eighty.
    runs = [2, 2, 2, 80, 2, 2, 80, 2] * 6
    available = np.repeat(np.arange(len(runs)) % 2, runs)
    market = SpotMarket(np.full(len(available), 0.3), available)
    chance = []
    for slot in (sum(runs) - 2, sum(runs) - 4):
        chain = MarkovChain(refit=sum(runs) - 40).forecast(market.until(slot), 1).chain
        assert chain is not None
        up = chain.available > 0
        chance.append(chain.transition[chain.present, up != up[chain.present]].sum())
    just_come, long_gone = chance
    assert just_come > 3 * long_gone


def test_the_log_hazard_is_the_mode_of_its_posterior() -> None:
    """Against a search over all of them, with the prior without changes as its other end."""
    random = np.random.default_rng(1)
    slots = random.integers(0, 400, len(AGES) + 1).astype(np.float64)
    changes = np.floor(slots * random.uniform(0, 0.2, len(slots)))
    nothing = np.zeros(len(slots))
    prior, _ = log_hazard(AGES, nothing, nothing)

    def minus_log_posterior(log: Floats) -> float:
        off = log - prior
        likely = slots @ np.exp(log) - changes @ log
        return float(
            likely + LEVEL / 2 * off @ off + SMOOTHNESS / 2 * np.square(np.diff(off)).sum()
        )

    found, deviation = log_hazard(AGES, slots, changes)
    best = optimize.minimize(minus_log_posterior, prior, method="BFGS", tol=1e-10)
    assert found == pytest.approx(best.x, abs=1e-4)
    step = 1e-3 * np.eye(len(found))
    curvature = [
        [
            minus_log_posterior(found + i + j)
            - minus_log_posterior(found + i - j)
            - minus_log_posterior(found - i + j)
            + minus_log_posterior(found - i - j)
            for i in step
        ]
        for j in step
    ]
    covariance = np.linalg.inv(np.array(curvature) / 4e-6)
    assert deviation == pytest.approx(np.sqrt(np.diag(covariance)), rel=0.01)


def test_the_worst_market_has_less_spot_and_nears_the_mean_with_what_is_seen() -> None:
    lost = []
    for num_slots in (300, 30_000):
        chain = MarkovChain().forecast(on_and_off(num_slots, 0.03, 0.06), 1).chain
        assert chain is not None
        assert chain.worst is not None
        assert np.allclose(chain.worst.sum(axis=1), 1.0)
        up = chain.available > 0
        shares = []
        for transition in (chain.transition, chain.worst):
            law = np.linalg.matrix_power(transition, 4096)[chain.present]
            shares.append(law[up].sum())
        lost.append(shares[0] - shares[1])
    assert lost[0] > lost[1] > 0


def test_price_and_count_go_together_in_classes() -> None:
    cycle = np.array([(0, 0.9), (2, 0.6), (8, 0.2)])
    slots = np.repeat(cycle, 7, axis=0)[np.arange(600) % 21]
    forecast = MarkovChain().forecast(SpotMarket(slots[:, 1], slots[:, 0].astype(int)), 5)
    chain = forecast.chain
    assert chain is not None
    pairs = {
        (int(count), round(float(price), 6))
        for count, price in zip(chain.available, chain.price, strict=True)
    }
    assert pairs == {(0, 0.9), (2, 0.6), (8, 0.2)}


def test_quantiles_are_those_of_the_chain() -> None:
    market = on_and_off(500, 0.3, 0.3)
    forecast = MarkovChain().forecast(market, 4)
    chain = forecast.chain
    assert chain is not None
    law = np.eye(len(chain.available))[chain.present]
    for h in range(4):
        law = law @ chain.transition
        none = law[chain.available == 0].sum()
        expected = [0 if level <= none else 1 for level in forecast.levels]
        assert forecast.available_quantiles[h].tolist() == expected


def test_the_chain_stands_between_two_counts_of_changes() -> None:
    market = on_and_off(64, 0.3, 0.3)
    forecaster = MarkovChain(refit=20)
    made = [forecaster.forecast(market.until(slot), 2).chain for slot in range(64)]
    different = [
        slot
        for slot in range(1, 64)
        if made[slot].transition is not made[slot - 1].transition  # type: ignore[union-attr]
    ]
    # At powers of two, then at multiples of `refit`; slot t is the (t + 1)th.
    assert different == [1, 3, 7, 15, 19, 39, 59]


def test_a_wrong_setting_is_refused() -> None:
    with pytest.raises(InputError, match="refit"):
        MarkovChain(refit=0)
