"""Decisions do not depend on the unit of money, where prices follow from use alone.

Payments are rounded to 4 decimals in every unit, so a bid that lies within that rounding of its
price may fall on either side; such markets are set aside, and counted.
"""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, given

from auctune.auction import Pdftsp, PdftspParams
from auctune.domain import Cluster, Decision, Task
from auctune.domain.money import STEP
from support.instances import instances
from support.markets import random_market
from support.mechanisms import params_by_name
from support.playing import offer_all
from support.thorough import drawn, rotated, times

FACTOR = 100
_RANGES = ("compute_low", "compute_high", "memory_low", "memory_high")
SCALE_FREE = {
    name: params for name, params in params_by_name().items() if params.pricing != "paper"
}


def scaled_costs(by_type: Mapping[str, object]) -> dict[str, tuple[float, ...]]:
    return {name: tuple(FACTOR * c for c in costs) for name, costs in by_type.items()}  # type: ignore[attr-defined]


def scaled_cluster(cluster: Cluster) -> Cluster:
    types = {
        name: replace(kind, energy_cost=tuple(FACTOR * cost for cost in kind.energy_cost))
        for name, kind in cluster.node_types.items()
    }
    return replace(cluster, node_types=types)


def scaled_task(task: Task) -> Task:
    own = task.operating_cost
    return replace(
        task,
        bid=FACTOR * task.bid,
        quotes=tuple(replace(quote, price=FACTOR * quote.price) for quote in task.quotes),
        operating_cost=None if own is None else scaled_costs(own),
    )


def scaled_params(params: PdftspParams) -> PdftspParams:
    ranges = {name: getattr(params, name) for name in _RANGES}
    return replace(
        params, **{name: FACTOR * value for name, value in ranges.items() if value is not None}
    )


def both(
    params: PdftspParams, cluster: Cluster, tasks: list[Task]
) -> tuple[list[Decision], list[Decision]]:
    plain = offer_all(Pdftsp(cluster, params), tasks)
    scaled = Pdftsp(scaled_cluster(cluster), scaled_params(params))
    return plain, offer_all(scaled, [scaled_task(task) for task in tasks])


def is_close_call(tasks: list[Task], decisions: list[Decision]) -> bool:
    return any(
        decision.price is not None and abs(decision.price - task.bid) <= STEP
        for task, decision in zip(tasks, decisions, strict=True)
    )


def assert_same(plain: list[Decision], scaled: list[Decision]) -> None:
    for one, hundred in zip(plain, scaled, strict=True):
        assert (one.admitted, one.schedule, one.reason) == (
            hundred.admitted,
            hundred.schedule,
            hundred.reason,
        )
        assert abs(FACTOR * one.payment - hundred.payment) <= FACTOR * STEP / Decimal(2) + STEP


@pytest.mark.parametrize("params", rotated(SCALE_FREE).values(), ids=rotated(SCALE_FREE))
def test_a_hundred_times_the_money_changes_no_decision_on_crowded_markets(
    params: PdftspParams,
) -> None:
    rng = np.random.default_rng(14)
    compared = 0
    for _ in range(times(12)):
        market = random_market(rng)
        plain, scaled = both(params, market.cluster, list(market.tasks))
        if not is_close_call(list(market.tasks), plain):
            assert_same(plain, scaled)
            compared += 1
    assert compared >= 2


@pytest.mark.parametrize("params", rotated(SCALE_FREE).values(), ids=rotated(SCALE_FREE))
@drawn(15)
@given(instance=instances())
def test_a_hundred_times_the_money_changes_no_decision_on_degenerate_markets(
    params: PdftspParams, instance: tuple[Cluster, list[Task]]
) -> None:
    cluster, tasks = instance
    plain, scaled = both(params, cluster, tasks)
    assume(not is_close_call(tasks, plain))
    assert_same(plain, scaled)
