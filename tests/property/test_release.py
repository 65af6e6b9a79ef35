"""Cells that are given back can be sold again, exactly as before."""

import numpy as np
import pytest

from auctune.auction import Pdftsp
from auctune.auction.baselines.charging import BidCharging
from support.markets import random_market
from support.mechanisms import MECHANISMS, Make
from support.thorough import rotated


@pytest.mark.parametrize("make", rotated(MECHANISMS).values(), ids=rotated(MECHANISMS))
def test_all_cells_given_back_leave_an_empty_market(make: Make) -> None:
    rng = np.random.default_rng(15)
    for _ in range(10):
        market = random_market(rng)
        mechanism = make(market.cluster)
        assert isinstance(mechanism, Pdftsp | BidCharging)
        admitted = []
        for task in market.tasks:
            decision = mechanism.offer(task, task.arrival)
            if decision.schedule is not None:
                admitted.append((task, decision.schedule.cells))
        assert mechanism.ledger.usage.tasks.sum() == sum(len(cells) for _, cells in admitted) > 0
        for index in rng.permutation(len(admitted)):
            mechanism.release(*admitted[index])
        usage, untouched = mechanism.ledger.usage, make(market.cluster)
        assert isinstance(untouched, Pdftsp | BidCharging)
        for now, before in zip(usage, untouched.ledger.usage, strict=True):
            if now is not usage.candidates:
                np.testing.assert_array_equal(now, before)


@pytest.mark.parametrize("make", rotated(MECHANISMS).values(), ids=rotated(MECHANISMS))
def test_cells_given_back_leave_what_others_hold(make: Make) -> None:
    rng = np.random.default_rng(16)
    market = random_market(rng, num_tasks=40)
    mechanism = make(market.cluster)
    assert isinstance(mechanism, Pdftsp | BidCharging)
    expected = np.zeros_like(mechanism.ledger.usage.compute)
    types = [node.type for node in market.cluster.nodes]
    for index, task in enumerate(market.tasks):
        decision = mechanism.offer(task, task.arrival)
        if decision.schedule is None:
            continue
        if index % 2:
            mechanism.release(task, decision.schedule.cells)
            continue
        for slot, node in zip(*mechanism.ledger.indices(decision.schedule.cells), strict=True):
            expected[slot, node] += task.throughput[types[node]]
    np.testing.assert_allclose(mechanism.ledger.usage.compute, expected, atol=1e-12)
    np.testing.assert_array_equal(mechanism.ledger.usage.compute == 0, expected == 0)
