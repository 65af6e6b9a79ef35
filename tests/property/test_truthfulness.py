"""No bidder gains by bidding anything but its value, where the critical payment is charged.

Theorem 3 of Zheng et al., ICPP 2024, which fails with their payment (14).

"Gains" is exact: payments and bids are decimals. Everything that a bidder can reach by its bid is
tried: nothing, all money, one step to either side of the price, and random amounts between.
"""

from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import Admission, Cluster, Task
from auctune.domain.money import LARGEST, STEP
from support.instances import instances
from support.markets import money, random_market
from support.mechanisms import TRUTHFUL, Make
from support.playing import answer, offer_all, utility
from support.thorough import drawn, rotated, times


def misreports(
    rng: np.random.Generator, truth: Decimal, price: Decimal | None
) -> Iterator[Decimal]:
    yield from (Decimal(0), STEP, truth + STEP, 2 * truth, LARGEST)
    yield from (max(truth - STEP, Decimal(0)), truth / 2 // STEP * STEP)
    if price is not None:
        yield from (price, price + STEP, max(price - STEP, Decimal(0)))
    for factor in rng.uniform(0, 3, 4):
        yield money(float(truth) * float(factor))


def best_gain(mechanism: Admission, task: Task, rng: np.random.Generator) -> Decimal:
    """The most that the task's owner can gain over bidding its value, the task's bid."""
    honest = answer(mechanism, task)
    truthful = utility(honest, task.bid)
    return max(
        utility(answer(mechanism, task, bid), task.bid) - truthful
        for bid in misreports(rng, task.bid, honest.price)
    )


@pytest.mark.parametrize("make", rotated(TRUTHFUL).values(), ids=rotated(TRUTHFUL))
def test_no_misreport_gains_on_crowded_markets(make: Make) -> None:
    rng = np.random.default_rng(2)
    admitted = unprofitable = 0
    for _ in range(times(90)):
        market = random_market(rng, num_tasks=20)
        bidder = int(rng.integers(3, 20))
        mechanism = make(market.cluster)
        offer_all(mechanism, market.tasks[:bidder])
        task = market.tasks[bidder]
        assert best_gain(mechanism, task, rng) <= 0
        honest = answer(mechanism, task)
        admitted += honest.admitted
        unprofitable += honest.reason == "unprofitable"
    assert admitted > 0
    assert unprofitable > 0


@pytest.mark.parametrize("make", rotated(TRUTHFUL).values(), ids=rotated(TRUTHFUL))
@drawn(25)
@given(instance=instances(), data=st.data())
def test_no_misreport_gains_on_degenerate_markets(
    make: Make, instance: tuple[Cluster, list[Task]], data: st.DataObject
) -> None:
    cluster, tasks = instance
    bidder = data.draw(st.integers(0, len(tasks) - 1))
    mechanism = make(cluster)
    offer_all(mechanism, tasks[:bidder])
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    assert best_gain(mechanism, tasks[bidder], rng) <= 0
