"""What is guaranteed to who bids several times where prices learn from bids, and what is not.

Guaranteed: each bid by itself, given all that came before, is best at its value. Not guaranteed:
that an early bid at its value is best for what its bidder bids later, since prices learned later
take the early bid for a sample of what is to come. Both are shown here on the same markets.
"""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import pytest

from auctune.auction import Pdftsp, PdftspParams
from auctune.domain import Decision, Task
from auctune.domain.money import STEP
from auctune.sim.workloads.synthetic import SyntheticParams, make_instance
from support.playing import offer_all, utility

# One node, so that a single bid weighs much; the gains shrink as markets grow.
MARKETS = {
    seed: make_instance(SyntheticParams(nodes={"a100": 1}, rate=6.0, slots=24, seed=seed))
    for seed in (1, 2, 4)
}
EARLY, LATE = 2, 4


def play(seed: int, bids: Mapping[str, Decimal]) -> tuple[list[Task], dict[str, Decision]]:
    """The first slots with true values, and the decisions when some bid otherwise."""
    market = MARKETS[seed]
    tasks = [task for task in market.in_order() if task.arrival < LATE]
    mechanism = Pdftsp(market.cluster, PdftspParams(pricing="learned"))
    told = [replace(task, bid=bids.get(task.id, task.bid)) for task in tasks]
    return tasks, {found.task: found for found in offer_all(mechanism, told)}


@pytest.mark.parametrize("seed", MARKETS)
def test_a_low_early_bid_never_gains_by_itself(seed: int) -> None:
    tasks, honest = play(seed, {})
    for task in [t for t in tasks if t.arrival < EARLY]:
        _, lying = play(seed, {task.id: STEP})
        assert utility(lying[task.id], task.bid) <= utility(honest[task.id], task.bid)


def test_a_low_early_bid_can_gain_for_a_later_bid_of_the_same_bidder() -> None:
    """The instance behind the warning in docs/explanation/learned-prices.md."""
    gains = []
    for seed in MARKETS:
        tasks, honest = play(seed, {})
        losing = [t for t in tasks if t.arrival < EARLY and not honest[t.id].admitted]
        for early in losing:
            _, lying = play(seed, {early.id: STEP})
            gains += [
                utility(lying[late.id], late.bid) - utility(honest[late.id], late.bid)
                for late in tasks
                if late.arrival >= EARLY and not lying[early.id].admitted
            ]
    assert max(gains) > 0
