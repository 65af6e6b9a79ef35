"""Eris by property: plans that can be carried out, no gain by a lie, no loss, no side effects."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import read_snapshot, write_snapshot
from auctune.edge import (
    ByDuration,
    EdgeJob,
    EdgeLedger,
    Eris,
    ErisParams,
    first_violation,
)
from auctune.numerics.rng import stream
from support.edge_cases import small_job, small_market, used_ledger
from support.thorough import drawn

SEEDS = st.integers(0, 2**32)
PARAMS = st.sampled_from(
    (
        ErisParams(),
        ErisParams("paper"),
        ErisParams(worth=100),
        ErisParams(worth=300, rise=1),
        ErisParams("paper", search="printed"),
    )
)
VALUES = st.lists(st.floats(0, 500), min_size=1, max_size=6).map(
    lambda values: ByDuration(tuple(sorted(values, reverse=True)))
)


def drawn_market(seed: int, params: ErisParams) -> tuple[Eris, EdgeJob]:
    """A market in which others hold something, and a job."""
    random = stream(seed, "edge property")
    market = small_market(random)
    eris = Eris(market, params, [small_job(random, market, "before")])
    eris.ledger.load(used_ledger(random, market).save())
    return eris, small_job(random, market)


@drawn(200)
@given(SEEDS, PARAMS)
def test_theorem_1_every_admitted_plan_keeps_all_constraints(seed: int, params: ErisParams) -> None:
    random = stream(seed, "edge property")
    market = small_market(random)
    eris, booked = Eris(market, params), EdgeLedger(market)
    jobs = [small_job(random, market, f"j{index}") for index in range(5)]
    for job in sorted(jobs, key=lambda job: job.arrival):
        decision = eris.offer(job, job.arrival)
        if decision.plan is not None:
            assert first_violation(job, decision.plan, booked, decision.finish) is None
            booked.take(job, decision.plan)
    assert np.array_equal(booked.used, eris.ledger.used)
    assert np.array_equal(booked.traffic, eris.ledger.traffic)


@drawn(200)
@given(SEEDS, PARAMS, VALUES)
def test_theorem_3_no_lie_about_f_gains(seed: int, params: ErisParams, said: ByDuration) -> None:
    eris, job = drawn_market(seed, params)
    truth = eris.preview(job, job.arrival)
    lie = eris.preview(replace(job, utility=said), job.arrival)
    gained = truth.surplus or 0.0
    if lie.finish is not None:
        assert job.value(lie.finish) - float(lie.payment) <= gained + 1e-9


@drawn(200)
@given(SEEDS, PARAMS)
def test_theorem_2_nobody_pays_more_than_the_finish_is_worth_or_less_than_nothing(
    seed: int, params: ErisParams
) -> None:
    eris, job = drawn_market(seed, params)
    decision = eris.offer(job, job.arrival)
    if decision.finish is None:
        assert decision.payment == 0
    else:
        assert 0 <= decision.payment < job.value(decision.finish)


@drawn(200)
@given(SEEDS, PARAMS, VALUES)
def test_the_menu_has_no_f_in_it_and_asking_changes_nothing(
    seed: int, params: ErisParams, said: ByDuration
) -> None:
    eris, job = drawn_market(seed, params)
    before = write_snapshot(eris.save())
    menu = eris.quote(job, job.arrival)
    assert eris.quote(replace(job, utility=said), job.arrival) == menu
    eris.preview(job, job.arrival)
    assert write_snapshot(eris.save()) == before
    prices = [line.price for line in menu.lines]
    finishes = [line.finish for line in menu.lines]
    assert prices == sorted(set(prices), reverse=True)
    assert finishes == sorted(set(finishes))


@drawn(100)
@given(SEEDS, PARAMS)
def test_one_that_was_restored_decides_alike(seed: int, params: ErisParams) -> None:
    eris, job = drawn_market(seed, params)
    restored = Eris(eris.market, params)
    restored.load(read_snapshot(write_snapshot(eris.save())))
    assert restored.offer(job, job.arrival) == eris.offer(job, job.arrival)
