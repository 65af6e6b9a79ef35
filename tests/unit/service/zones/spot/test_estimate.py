"""What a job is expected to cost is never more than it can be charged."""

from statistics import fmean

import pytest

from auctune.domain import round_money
from auctune.engine.spot.job_config import estimate
from support.late_rentals import LateRentals


@pytest.mark.parametrize("seed", range(3))
def test_no_play_costs_more_than_the_cap_in_what_is_expected(seed: int) -> None:
    rentals = LateRentals(seed)
    bid, rental = rentals.estimated(), rentals.zone.rental
    inputs, pace = bid.estimate_inputs, bid.estimate_inputs.pace
    terms = rental.terms(
        bid.training, bid.size, bid.worth, range(inputs.first, inputs.first + 20), pace.speed
    )
    speeds = [speed / pace.speed for speed in pace.speeds]
    history = rental.market.history(inputs.slot)
    plays = estimate(terms.job(), rental.renting, history, inputs.first - inputs.slot, speeds)
    costs = [cost * rental.unit_price for cost in plays.costs]
    assert plays.cost == pytest.approx(fmean(plays.costs))

    def expected(cap: float | None) -> float:
        money = None if cap is None else round_money(cap)
        found = rental.estimate(terms, inputs.first, inputs.slot, pace, money)
        limit = found.p90_cost if money is None else money
        assert found.p90_cost == round_money(plays.cost_p90 * rental.unit_price)
        assert found.expected_cost <= limit
        paid = fmean(min(cost, float(limit)) for cost in costs)
        assert found.expected_cost == round_money(paid)
        return float(found.expected_cost)

    lowest, highest = min(costs), max(costs)
    assert lowest < highest
    assert expected(lowest) < expected((lowest + highest) / 2) < expected(2 * highest)
    expected(None)
