"""Jobs, markets, utilities and prices: what they say, and what they refuse."""

import math
from dataclasses import replace

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.edge import (
    ByDuration,
    EdgeLedger,
    EdgeMarket,
    Logistic,
    PaperPrices,
    SharePrices,
    Site,
    cost_of,
)
from auctune.edge.job import EdgeJob
from support.edge_plans import JOB, MARKET, PLAN


def test_the_logistic_utility_is_the_papers() -> None:
    utility = Logistic(3000, 3)
    assert utility(0) == 1500
    assert utility(3) == pytest.approx(3000 / (1 + math.e))
    assert utility(10_000) == 0


def test_a_table_is_worth_nothing_beyond_its_end() -> None:
    assert [ByDuration((5, 5, 2))(duration) for duration in range(5)] == [5, 5, 2, 0, 0]


def test_a_job_that_finishes_in_its_arrival_slot_has_duration_zero() -> None:
    assert JOB.value(1) == 50


@pytest.mark.parametrize("chunks", range(1, 60))
def test_the_workers_are_the_least_that_train_so_many_chunks(chunks: int) -> None:
    job = replace(JOB, epochs=30, chunks_per_worker_slot=30 * 27 / 80)
    workers = job.workers_for(chunks)
    able = job.chunks_per_worker_slot * (1 + 1e-9)
    assert able * workers >= 30 * chunks
    assert able * (workers - 1) < 30 * chunks


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"id": ""}, "id"),
        ({"arrival": -1}, "arrival"),
        ({"epochs": 0}, "epochs"),
        ({"chunks": {"a": -1, "b": 2}}, "chunks.a"),
        ({"chunks": {"a": 0}}, "chunks"),
        ({"worker": {"gpu": math.nan}}, "worker.gpu"),
        ({"worker": {"gpu": 0}}, "worker"),
        ({"server": {"cpu": -1}}, "server.cpu"),
        ({"chunks_per_worker_slot": 0}, "chunks_per_worker_slot"),
        ({"parameter_mb": -1}, "parameter_mb"),
    ],
)
def test_a_job_names_what_is_wrong_with_it(change: dict[str, object], place: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(JOB, **change)  # type: ignore[arg-type]
    assert caught.value.place == place


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"slots": 0}, "slots"),
        ({"sites": ()}, "sites"),
        ({"sites": (Site("a", {"gpu": 1}), Site("a", {"gpu": 1}))}, "sites[1].id"),
        ({"sites": (Site("a", {"data": 1}),)}, "sites"),
        ({"traffic_mb_per_slot": 0}, "traffic_mb_per_slot"),
        ({"chunk_mb": -1}, "chunk_mb"),
        ({"price_base": {"gpu": 1}}, "price_base.gpu"),
        ({"price_base": {"disk": 10}}, "price_base.disk"),
    ],
)
def test_a_market_names_what_is_wrong_with_it(change: dict[str, object], place: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(MARKET, **change)  # type: ignore[arg-type]
    assert caught.value.place == place


@pytest.mark.parametrize(
    ("job", "place"),
    [
        (replace(JOB, arrival=5), "arrival"),
        (replace(JOB, chunks={"c": 1}), "chunks.c"),
        (replace(JOB, server={"disk": 1}), "server.disk"),
    ],
)
def test_a_market_refuses_a_job_of_another_market(job: EdgeJob, place: str) -> None:
    with pytest.raises(InputError) as caught:
        MARKET.check(job)
    assert caught.value.place == place


@pytest.mark.parametrize(
    ("values", "place"), [((), "values"), ((1, 2), "values[1]"), ((math.inf,), "values[0]")]
)
def test_a_table_does_not_rise(values: tuple[float, ...], place: str) -> None:
    with pytest.raises(InputError) as caught:
        ByDuration(values)
    assert caught.value.place == place


def test_prices_are_those_of_equation_6() -> None:
    ledger = EdgeLedger(MARKET)
    ledger.traffic[2], ledger.used[2, 0] = 10, (1, 8)
    prices = PaperPrices()(ledger, 1)
    assert prices.alpha.tolist() == pytest.approx([0, math.sqrt(10) - 1, 0, 0])
    assert prices.beta[1, 0].tolist() == pytest.approx([100**0.5 - 1, 1000 - 1])
    assert not prices.beta[1, 1].any()


def test_share_prices_rise_from_the_reserve_whatever_the_units() -> None:
    ledger = EdgeLedger(MARKET)
    ledger.traffic[0], ledger.used[0, 0] = 10, (0, 8)
    prices = SharePrices(5, 4)(ledger)
    assert prices.alpha[:2].tolist() == pytest.approx([10 / 20, 5 / 20])
    assert prices.beta[0, 0].tolist() == pytest.approx([5 / 2, 20 / 8])


def test_the_cost_of_a_plan_is_equation_8() -> None:
    ledger = EdgeLedger(MARKET)
    ledger.traffic[:] = 4
    ledger.used[...] = 1
    prices = PaperPrices()(ledger, 1)
    alpha = 10 ** (4 / 20) - 1
    gpu_a, gpu_b, cpu = 100**0.5 - 1, 100 - 1, 1000 ** (1 / 8) - 1
    first = 2 * (gpu_a + 2 * cpu) + (gpu_b + 2 * cpu) + cpu + 5 * alpha
    second = 2 * (gpu_a + 2 * cpu) + cpu + 14 * alpha
    assert cost_of(ledger, prices, JOB, PLAN) == pytest.approx(first + second)


@pytest.mark.parametrize(("reserve", "rise"), [(-1, 10), (10, 0.5), (math.nan, 10), (1, math.inf)])
def test_share_prices_refuse_what_falls(reserve: float, rise: float) -> None:
    with pytest.raises(InputError):
        SharePrices(reserve, rise)


def test_a_type_that_a_site_has_none_of_costs_nothing_there() -> None:
    market = EdgeMarket(2, (Site("a", {"gpu": 0}), Site("b", {"gpu": 1})), 10, 1)
    for pricing in (PaperPrices(), SharePrices(1, 2)):
        assert np.isfinite(pricing(EdgeLedger(market)).beta).all()
