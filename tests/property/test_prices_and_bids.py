"""Neither the price of a bid nor its payment or plan depends on what is bid."""

import copy
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from auctune.domain import Reason
from auctune.domain.money import LARGEST
from support.markets import random_market
from support.mechanisms import AUCTIONS, TRUTHFUL, Make
from support.playing import answer, offer_all
from support.thorough import rotated, times


@pytest.mark.parametrize("make", rotated(TRUTHFUL).values(), ids=rotated(TRUTHFUL))
def test_the_price_is_the_greatest_bid_that_is_rejected(make: Make) -> None:
    rng = np.random.default_rng(4)
    prices = 0
    for _ in range(times(15)):
        market = random_market(rng)
        mechanism = make(market.cluster)
        offer_all(mechanism, market.tasks[:15])
        task = market.tasks[15]
        top = answer(mechanism, task, LARGEST)
        if not top.admitted:
            continue
        prices += 1
        assert top.price is not None
        assert top.payment == top.price
        assert answer(mechanism, task, top.price).reason is Reason.UNPROFITABLE
        assert answer(mechanism, task, top.min_bid).payment == top.payment
    assert prices > 1


@pytest.mark.parametrize("make", rotated(AUCTIONS).values(), ids=rotated(AUCTIONS))
def test_price_payment_and_plan_do_not_depend_on_the_bid(make: Make) -> None:
    rng = np.random.default_rng(5)
    compared = 0
    for _ in range(times(25)):
        market = random_market(rng)
        mechanism = make(market.cluster)
        offer_all(mechanism, market.tasks[:15])
        task = market.tasks[15]
        answers = [
            answer(mechanism, task, bid)
            for bid in (*(Decimal(units) / 2 for units in range(25)), LARGEST)
        ]
        admitted = [decision for decision in answers if decision.admitted]
        assert len({(d.price, d.payment, d.schedule) for d in admitted}) <= 1
        assert len({d.price for d in answers if d.price is not None}) <= 1
        # Once a bid is enough, more is enough too.
        assert [d.admitted for d in answers] == sorted(d.admitted for d in answers)
        compared += len(admitted) > 1
    assert compared > 1


@pytest.mark.parametrize(
    "name", ["critical-masked-max-revealed-range", "critical-masked-sum-paper"]
)
def test_a_bid_may_move_later_prices_but_not_its_own_slots_where_bids_reveal_them(
    name: str,
) -> None:
    # What truthfulness does not cover, shown: docs/explanation/auction.md says so.
    rng = np.random.default_rng(6)
    market = random_market(rng, max_types=1, num_tasks=40)
    mechanism = TRUTHFUL[name](market.cluster)
    offer_all(mechanism, market.tasks[:20])
    probe = market.tasks[20]
    refused = replace(market.tasks[21], id="refused", arrival=probe.arrival, work=1e9)
    other = copy.deepcopy(mechanism)
    mechanism.offer(replace(refused, bid=Decimal(0)), probe.arrival)
    other.offer(replace(refused, bid=LARGEST), probe.arrival)
    now = [answer(m, probe, LARGEST) for m in (mechanism, other)]
    assert now[0].price == now[1].price
