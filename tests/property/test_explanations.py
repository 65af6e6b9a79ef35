"""Explanations add up to the price that was asked, and nothing that was passed over is cheaper."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from auctune.domain import (
    Admission,
    Cell,
    Decision,
    Explanation,
    InputError,
    PricedPlan,
    Reason,
    Schedule,
    Task,
)
from auctune.domain.money import LARGEST, round_money
from auctune.numerics.arrays import TIE
from support.markets import random_market
from support.mechanisms import AUCTIONS, MECHANISMS, Make
from support.thorough import rotated

MASKED = {name: make for name, make in AUCTIONS.items() if "-masked-" in name}


def explained(
    make: Make, seed: int, num_markets: int = 3
) -> Iterator[tuple[Admission, Task, Decision, Explanation]]:
    """Bids on markets that fill up, each explained before it is decided."""
    rng = np.random.default_rng(seed)
    for _ in range(num_markets):
        market = random_market(rng, num_tasks=30)
        mechanism = make(market.cluster)
        for task in market.tasks:
            mechanism.advance(task.arrival)
            decision = mechanism.preview(task, task.arrival)
            yield mechanism, task, decision, mechanism.explain(task, decision, task.arrival)
            assert mechanism.offer(task, task.arrival) == decision


def by_hand(task: Task, mechanism: Admission, plan: PricedPlan, name: str) -> float:
    """The price of a plan from the market's state and the formula of its aggregate."""
    state = mechanism.state()
    nodes = plan_nodes(mechanism)
    samples = task.throughput
    types = node_types(mechanism)
    lams = [state.compute_price[slot, nodes.index(node)] for slot, node in plan.schedule.cells]
    phis = [state.memory_price[slot, nodes.index(node)] for slot, node in plan.schedule.cells]
    speeds = [samples[types[node]] for _, node in plan.schedule.cells]
    if "-max-" in name:
        lams, phis = [max(lams)] * len(lams), [max(phis)] * len(phis)
    total = sum(lam * s for lam, s in zip(lams, speeds, strict=True))
    total += sum(phi * task.memory_gb for phi in phis)
    total += sum(cell.operating_cost for cell in plan.cells) + plan.vendor_price
    return float(total)


def plan_nodes(mechanism: Admission) -> list[str]:
    return list(mechanism.ledger.node_ids)  # type: ignore[attr-defined]  # the auction's alone


def node_types(mechanism: Admission) -> dict[str, str]:
    nodes = mechanism.ledger.cluster.nodes  # type: ignore[attr-defined]  # the auction's alone
    return {node.id: node.type for node in nodes}


@pytest.mark.parametrize("name", rotated(AUCTIONS))
def test_parts_add_up_to_the_price_of_the_decision(name: str) -> None:
    priced = 0
    for mechanism, task, decision, told in explained(AUCTIONS[name], 61):
        if told.chosen is None:
            assert decision.price is None
            continue
        chosen = told.chosen
        whole = chosen.vendor_price + chosen.operating_cost + chosen.compute + chosen.memory
        assert chosen.cost == whole
        assert chosen.price == round_money(whole)
        if decision.surplus is not None:
            # The unrounded price, to the last bit.
            assert decision.surplus == float(task.bid) - whole
        if decision.price is not None:
            assert decision.price == chosen.price
            assert told.min_bid == decision.min_bid
        assert whole == pytest.approx(by_hand(task, mechanism, chosen, name), rel=1e-12)
        for part in ("compute", "memory", "operating_cost"):
            by_cell = sum(getattr(cell, part) for cell in chosen.cells)
            assert by_cell == pytest.approx(getattr(chosen, part), rel=1e-12)
        priced += 1
    assert priced > 30


@pytest.mark.parametrize("name", rotated(AUCTIONS))
def test_nothing_that_was_passed_over_is_cheaper(name: str) -> None:
    others = 0
    for _, task, _, told in explained(AUCTIONS[name], 62):
        if told.chosen is None:
            continue
        for plan in (*told.by_vendor.values(), *told.by_node_type.values(), told.earlier):
            if plan is not None:
                assert plan.cost >= told.chosen.cost * (1 - TIE)
                others += 1
        assert {told.chosen.schedule.vendor, *told.by_vendor} - {None} == {
            quote.vendor for quote in task.quotes
        }
        if told.earlier is not None:
            assert told.earlier.schedule.finish < told.chosen.schedule.finish
        if told.later is not None:
            assert told.later.price is not None
            assert told.chosen.price is not None
            assert told.later.price < told.chosen.price
            assert told.later.schedule.finish > task.deadline
    assert others > 50


@pytest.mark.parametrize("make", rotated(MASKED).values(), ids=rotated(MASKED))
def test_alternatives_are_what_such_a_bid_would_have_got(make: Make) -> None:
    compared = 0
    for mechanism, task, _, told in explained(make, 63, num_markets=2):
        rich = replace(task, bid=LARGEST)
        for quote in task.quotes:
            if quote.vendor in told.by_vendor:
                only = replace(rich, quotes=(quote,))
                assert_answers(mechanism, only, told.by_vendor[quote.vendor])
                compared += 1
        for kind, plan in told.by_node_type.items():
            assert_answers(mechanism, replace(rich, throughput={kind: task.throughput[kind]}), plan)
            compared += 1
        if told.chosen is not None and told.chosen.schedule.finish > task.arrival:
            sooner = replace(rich, deadline=told.chosen.schedule.finish - 1)
            assert_answers(mechanism, sooner, told.earlier)
            compared += 1
    assert compared > 50


def assert_answers(mechanism: Admission, task: Task, plan: PricedPlan | None) -> None:
    decision = mechanism.preview(task, task.arrival)
    assert decision.schedule == (None if plan is None else plan.schedule)
    assert decision.price == (None if plan is None else plan.price)


@pytest.mark.parametrize("make", rotated(MASKED).values(), ids=rotated(MASKED))
def test_a_rejected_bid_is_told_the_earliest_deadline_that_can_be_met(make: Make) -> None:
    told_of = without = 0
    for mechanism, task, decision, told in explained(make, 64, num_markets=6):
        if decision.reason not in (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE):
            continue
        assert told.min_bid is None
        last = len(mechanism.state().compute_price) - 1
        first = next(
            (
                deadline
                for deadline in range(task.arrival, last + 1)
                if mechanism.preview(
                    replace(task, deadline=deadline, bid=LARGEST), task.arrival
                ).admitted
            ),
            None,
        )
        if first is None:
            assert told.earliest is None
            without += 1
            continue
        assert told.earliest is not None
        assert told.earliest.schedule.finish == first > task.deadline
        assert_answers(mechanism, replace(task, deadline=first, bid=LARGEST), told.earliest)
        told_of += 1
    assert told_of > 5
    assert without > 2


CRITICAL = {name: make for name, make in MASKED.items() if name.startswith("critical")}


@pytest.mark.parametrize("make", rotated(CRITICAL).values(), ids=rotated(CRITICAL))
def test_the_later_plan_is_the_next_line_of_a_longer_menu(make: Make) -> None:
    found = 0
    for mechanism, task, _, told in explained(make, 65, num_markets=2):
        if told.chosen is None:
            assert told.later is None
            continue
        last = len(mechanism.state().compute_price) - 1
        menu = mechanism.quote(replace(task, deadline=last), task.arrival)
        assert told.chosen.price is not None
        lines = [line for line in menu.lines if line.price < told.chosen.price]
        expected = lines[0] if lines else None
        assert (told.later and told.later.schedule) == (expected and expected.schedule)
        found += expected is not None
    assert found > 5


@pytest.mark.parametrize("name", ["eft", "ntm", "titan"])
def test_who_charges_the_bid_explains_what_a_plan_costs_to_run(name: str) -> None:
    admitted = rejected = 0
    for _, task, decision, told in explained(MECHANISMS[name], 66):
        assert told.min_bid is None
        if decision.value is not None:
            assert told.chosen is not None
            assert told.chosen.schedule == decision.schedule
            assert decision.value == pytest.approx(float(task.bid) - told.chosen.cost, rel=1e-12)
            assert told.chosen.price is None
            admitted += 1
        elif told.earliest is not None:
            if name == "eft":
                assert told.earliest.schedule.finish > task.deadline
            rejected += 1
    assert admitted > 20
    assert rejected > 2


@pytest.mark.parametrize("name", ["critical-masked-sum-set-range", "eft"])
def test_plans_of_others_are_not_explained(name: str) -> None:
    market = random_market(np.random.default_rng(67))
    mechanism = MECHANISMS[name](market.cluster)
    task = replace(market.tasks[0], quotes=(), bid=Decimal(10))
    late = Schedule((Cell(task.deadline, "n9"),))
    with pytest.raises(InputError, match="could not run by it"):
        mechanism.explain(task, late, task.arrival)
