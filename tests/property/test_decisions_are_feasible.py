"""No mechanism, whatever its options, decides what cannot be carried out (4a to 4h) or paid.

That nobody pays more than the bid is Theorem 4 of Zheng et al., ICPP 2024.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given

from auctune.domain import Cluster, Decision, Task
from auctune.domain.money import STEP
from auctune.sim.engine import simulate
from auctune.sim.feasibility import violations
from support.instances import instances
from support.markets import random_market
from support.mechanisms import MECHANISMS, Make
from support.playing import offer_all
from support.thorough import drawn, rotated, times


def assert_sound(cluster: Cluster, tasks: Sequence[Task], decisions: Sequence[Decision]) -> None:
    """All constraints hold, and nobody pays more than the bid, or anything for nothing."""
    assert violations(cluster, tasks, decisions) == []
    for task, decision in zip(tasks, decisions, strict=True):
        assert 0 <= decision.payment <= (task.bid if decision.admitted else 0)
        assert decision.payment == decision.payment.quantize(STEP)


@pytest.mark.parametrize("make", rotated(MECHANISMS).values(), ids=rotated(MECHANISMS))
@drawn(40)
@given(instance=instances())
def test_every_decision_is_sound_on_degenerate_markets(
    make: Make, instance: tuple[Cluster, list[Task]]
) -> None:
    cluster, tasks = instance
    assert_sound(cluster, tasks, offer_all(make(cluster), tasks))


@pytest.mark.parametrize("make", rotated(MECHANISMS).values(), ids=rotated(MECHANISMS))
def test_every_decision_is_sound_on_crowded_markets(make: Make) -> None:
    rng = np.random.default_rng(1)
    admitted = rejected = 0
    for _ in range(times(15)):
        market = random_market(rng)
        result = simulate(market, make(market.cluster))
        assert_sound(market.cluster, result.tasks, result.decisions)
        admitted += sum(decision.admitted for decision in result.decisions)
        rejected += sum(not decision.admitted for decision in result.decisions)
    # A mechanism that admits nothing is feasible and proves nothing.
    assert admitted > 10
    assert rejected > 10
