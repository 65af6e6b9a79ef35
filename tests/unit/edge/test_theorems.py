"""Theorems 1, 4 and 5 of Pang et al. (TMC 2024), where they fail as printed: one example each.

That 1 to 3 hold of what is built here are properties: tests/property/test_edge_auction.py.
"""

import numpy as np

from auctune.edge import (
    ByDuration,
    EdgeJob,
    EdgeLedger,
    EdgeMarket,
    Eris,
    ErisParams,
    Move,
    PaperPrices,
    Site,
    SlotPlan,
    first_violation,
    offline_optimum,
)
from auctune.edge.decision import EdgePlan
from auctune.edge.search.fill import pairs_by_omega, printed_fill
from auctune.edge.search.problem import make_subproblem, slot_problem
from auctune.edge.search.search import chunks_of, offers
from auctune.numerics.arrays import Ints


def job_of(chunks: dict[str, int], values: tuple[float, ...], rate: float = 1.0) -> EdgeJob:
    """A job of one core a worker, whose server and parameters take nothing."""
    return EdgeJob(
        id=f"of {chunks}",
        arrival=0,
        epochs=1,
        chunks=chunks,
        worker={"cpu": 1},
        server={},
        chunks_per_worker_slot=rate,
        parameter_mb=0,
        utility=ByDuration(values),
    )


def as_printed(ledger: EdgeLedger, job: EdgeJob, slot: int, target: int) -> tuple[Ints, float]:
    """What Algorithm 3 finds for a slot: chunks [R] by site, and the cost."""
    data = chunks_of(ledger, job)
    subproblem = make_subproblem(ledger, PaperPrices()(ledger, 0), job, data)
    problem, trained = slot_problem(subproblem, slot, data), np.zeros(len(data), dtype=np.int64)
    _, cost = printed_fill(problem, target, pairs_by_omega(problem), trained)
    return trained, cost


def test_theorem_1_fails_as_printed_since_dpc_forgets_which_data_earlier_slots_took() -> None:
    market = EdgeMarket(2, (Site("a", {"cpu": 1}), Site("b", {"cpu": 1})), 10, 1)
    ledger, job = EdgeLedger(market), job_of({"a": 1, "b": 1}, (1, 1))
    ledger.used[:, 1, 0] = 0.5  # b is dearer, and has no room for a worker
    split = [as_printed(ledger, job, slot, 1)[0] for slot in (0, 1)]
    # One chunk a slot, as DPC may split them: both slots train the same one.
    assert [trained.tolist() for trained in split] == [[1, 0], [1, 0]]
    part = [SlotPlan(slot, {"a": 1}, "a", (Move("a", "a", 1),)) for slot in (0, 1)]
    broken = first_violation(job, EdgePlan(tuple(part)), ledger)
    assert broken is not None
    assert broken.constraint == "2a"


def test_theorem_1_fails_as_printed_since_line_14_counts_workers_of_all_sites_together() -> None:
    market = EdgeMarket(1, (Site("a", {"cpu": 4}), Site("b", {"cpu": 4})), 10, 1)
    # A worker trains one chunk and a half: two are enough for three chunks at one site, and three
    # are needed where one lies at a and two at b.
    ledger, job = EdgeLedger(market), job_of({"a": 1, "b": 2}, (1,), rate=1.5)
    trained, cost = as_printed(ledger, job, 0, 3)
    assert np.isfinite(cost)
    assert trained.sum() == 2
    moves = (Move("a", "a", 1), Move("b", "b", 2))
    plan = EdgePlan((SlotPlan(0, {"a": 1, "b": 1}, "a", moves),))
    broken = first_violation(job, plan, ledger)
    assert broken is not None
    assert broken.constraint == "2b"


def test_theorem_4_fails_as_data_stay_at_a_full_site_while_a_free_one_costs_as_much() -> None:
    market = EdgeMarket(1, (Site("a", {"cpu": 2}), Site("b", {"cpu": 2})), 100, 1)
    ledger, job = EdgeLedger(market), job_of({"a": 3}, (1,))
    assert not list(offers(ledger, PaperPrices(), job, 0, printed=True))
    assert list(offers(ledger, PaperPrices(), job, 0))


def test_theorem_5_fails_as_a_job_without_room_in_one_slot_breaks_dual_constraint_4a() -> None:
    # Base 2: prices of a full site are 1, plans of all of a site are small enough for the proof,
    # and both jobs are worth 1 for each core that they use, as it asks.
    slots = 10
    base = dict.fromkeys(("data", "cpu"), 2.0)
    market = EdgeMarket(slots, (Site("a", {"cpu": 1}),), 10, 1, base)
    short, long = job_of({"a": 1}, (1.0,)), job_of({"a": slots}, (float(slots),) * slots)
    eris = Eris(market, ErisParams("paper"))
    first, second = eris.offer(short, 0), eris.offer(long, 0)
    assert first.surplus == 1
    # (7b) has no plan in what is left, so mu is 0; (4a) asks for its worth less what slot 0 costs.
    assert not second.admitted
    prices = eris.prices()
    assert prices.beta[:, 0, 0].tolist() == [1.0] + [0.0] * (slots - 1)
    dual = 1.0 + float((prices.beta * eris.ledger.capacity).sum())
    optimum = offline_optimum(market, (short, long)).welfare
    assert dual == 2
    assert optimum == slots > dual
    assert optimum / 1.0 > 2 * np.log2(2 * 2)
