"""The auction on markets small enough to price by hand."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from auctune.auction import Pdftsp, PdftspParams, make_eft
from auctune.domain import (
    Cell,
    Cluster,
    InputError,
    Node,
    NodeType,
    Quote,
    Reason,
    Schedule,
    Task,
)
from auctune.domain.money import STEP
from auctune.sim.instance_file import read_instance
from support.playing import answer, utility

ROOT = Path(__file__).parents[3]
# Energy costs 0.8, 0.4, 0.4 at full load; tasks below use half of it.
CLUSTER = Cluster(
    3, 60.0, 1.0, {"gpu": NodeType(8.0, 9.0, (0.8, 0.4, 0.4))}, (Node("a", "gpu"), Node("b", "gpu"))
)
TASK = Task("t", 0, 2, 4.0, 2.0, Decimal("3.0000"), {"gpu": 4.0})
SET = PdftspParams(
    pricing="exponential", compute_low=0.1, compute_high=0.9, memory_low=0.05, memory_high=0.2
)
PAPER = PdftspParams(pricing="paper", alpha=0.5, beta=0.25)


def test_the_price_is_energy_and_the_use_of_an_empty_node() -> None:
    decision = Pdftsp(CLUSTER, SET).offer(TASK, 0)
    # The earlier of the two cheap slots: 0.2 for energy, 4 samples at 0.1, 2 GB at 0.05.
    assert decision.schedule == Schedule((Cell(1, "a"),))
    assert decision.payment == decision.price == Decimal("0.7000")
    assert decision.value == pytest.approx(2.8)
    assert decision.surplus == pytest.approx(2.3)


def test_a_half_used_node_costs_the_geometric_mean() -> None:
    mechanism = Pdftsp(replace(CLUSTER, nodes=CLUSTER.nodes[:1]), SET)
    mechanism.offer(replace(TASK, arrival=1, deadline=1), 1)
    decision = mechanism.offer(replace(TASK, id="u", arrival=1, deadline=1), 1)
    # sqrt(0.1 * 0.9) a sample; a quarter of the memory is used: 0.05 * 4 ** 0.25 a GB.
    assert float(decision.payment) == pytest.approx(0.2 + 4 * 0.3 + 2 * 0.05 * 4**0.25, abs=5e-5)


def test_a_schedule_is_priced_at_its_dearest_cell_or_by_the_sum() -> None:
    one = replace(CLUSTER, nodes=CLUSTER.nodes[:1])
    two_cells = replace(TASK, id="u", arrival=1, work=8.0, bid=Decimal(9))
    prices = {}
    for aggregate in ("max", "sum"):
        mechanism = Pdftsp(one, replace(SET, aggregate=aggregate))
        mechanism.offer(replace(TASK, arrival=1, deadline=1), 1)
        prices[aggregate] = float(mechanism.offer(two_cells, 1).payment)
    compute, memory = (0.1, 0.3), (0.05, 0.05 * 4**0.25)
    assert prices["max"] == pytest.approx(0.4 + 8 * compute[1] + 4 * memory[1], abs=5e-5)
    assert prices["sum"] == pytest.approx(0.4 + 4 * sum(compute) + 2 * sum(memory), abs=5e-5)


def test_the_papers_prices_rise_by_eqs_7_and_8() -> None:
    mechanism = Pdftsp(CLUSTER, PAPER)
    first = mechanism.offer(TASK, 0)
    assert first.price == Decimal("0.2000")
    density = 2.8 / (4 + 2)
    assert mechanism.pricing.lam[1, 0] == pytest.approx(0.5 * density * 4 / 8)
    assert mechanism.pricing.phi[1, 0] == pytest.approx(0.25 * density * 2 / 8)
    lam, phi = mechanism.pricing.lam[1, 0], mechanism.pricing.phi[1, 0]
    same_cell = replace(TASK, id="u", arrival=1, deadline=1, bid=Decimal("9.0000"))
    again = Pdftsp(replace(CLUSTER, nodes=CLUSTER.nodes[:1]), PAPER)
    again.offer(TASK, 0)
    assert float(again.offer(same_cell, 1).payment) == pytest.approx(
        0.2 + 4 * lam + 2 * phi, abs=5e-5
    )
    assert again.pricing.lam[1, 0] > lam * 1.5


def test_checked_looks_at_room_after_it_has_chosen_and_moves_the_papers_prices() -> None:
    one = replace(
        CLUSTER,
        nodes=CLUSTER.nodes[:1],
        node_types={"gpu": NodeType(4.0, 9.0, (0.0, 0.8, 0.8))},
    )
    checked = Pdftsp(one, replace(PAPER, capacity="checked", alpha=0.0, beta=0.0))
    masked = Pdftsp(one, replace(PAPER, alpha=0.0, beta=0.0))
    for mechanism in (checked, masked):
        assert mechanism.offer(TASK, 0).schedule == Schedule((Cell(0, "a"),))
    # The cheapest slot is full: `checked` chooses it all the same, `masked` another one.
    assert checked.offer(replace(TASK, id="u"), 0).reason is Reason.NO_CAPACITY
    assert masked.offer(replace(TASK, id="u"), 0).schedule == Schedule((Cell(1, "a"),))
    moving = Pdftsp(one, replace(PAPER, capacity="checked", alpha=0.01))
    moving.offer(TASK, 0)
    before = moving.pricing.lam[0, 0]
    assert moving.offer(replace(TASK, id="u", deadline=0), 0).reason is Reason.NO_CAPACITY
    assert moving.pricing.lam[0, 0] > before


def test_each_rejection_has_its_reason() -> None:
    one = replace(CLUSTER, nodes=CLUSTER.nodes[:1])
    mechanism = Pdftsp(one, SET)
    slot = replace(TASK, throughput={"gpu": 8.0}, work=8.0, arrival=1, deadline=1)
    poor = mechanism.offer(replace(slot, bid=Decimal("0.1000")), 1)
    assert (poor.reason, poor.price) == (Reason.UNPROFITABLE, Decimal("1.3000"))
    assert mechanism.offer(replace(slot, bid=poor.price or STEP), 1).reason is Reason.UNPROFITABLE
    assert mechanism.offer(replace(slot, bid=Decimal("1.3001")), 1).admitted
    assert mechanism.offer(slot, 1).reason is Reason.NO_CAPACITY
    for never in (
        replace(slot, work=8.1),
        replace(slot, memory_gb=8.1),
        replace(slot, throughput={"gpu": 8.1}),
        replace(slot, quotes=(Quote("v", Decimal(0), 1),)),
    ):
        assert mechanism.offer(never, 1).reason is Reason.NO_FEASIBLE_SCHEDULE


def test_tenths_fill_a_node() -> None:
    # 0.1 + 0.2 + ... + 0.4 is not 1 in float64; the fit allows for that, and for no more.
    cluster = Cluster(1, 60.0, 0.0, {"gpu": NodeType(1.0, 1.0, (0.0,))}, (Node("a", "gpu"),))
    mechanism = make_eft(cluster)
    tenths = [
        Task(f"t{i}", 0, 0, share, share, Decimal(1), {"gpu": share})
        for i, share in enumerate((0.1, 0.2, 0.3, 0.4))
    ]
    assert all(mechanism.offer(task, 0).admitted for task in tenths)
    assert mechanism.offer(
        replace(tenths[0], id="u", work=1e-6, throughput={"gpu": 1e-6}), 0
    ).reason


def test_costs_equal_but_for_rounding_tie_and_the_earlier_slot_wins() -> None:
    # 0.6 + (0.1 + 0.2) and 0.3 + (0.4 + 0.2) differ in their last bit only.
    cluster = Cluster(2, 60.0, 0.0, {"gpu": NodeType(1.0, 1.0, (0.3, 0.6))}, (Node("a", "gpu"),))
    task = Task("t", 0, 1, 1.0, 1.0, Decimal(2), {"gpu": 1.0})
    mechanism = Pdftsp(cluster, PdftspParams(aggregate="sum", pricing="paper", alpha=0.0, beta=0.0))
    mechanism.pricing.lam[:, 0] = (0.4, 0.1)
    mechanism.pricing.phi[:, 0] = (0.2, 0.2)
    sums = [(0.4 + 0.2) + 0.3, (0.1 + 0.2) + 0.6]
    assert sums[0] != sums[1]
    assert sums[0] == pytest.approx(sums[1], rel=1e-15)
    assert mechanism.offer(task, 0).schedule == Schedule((Cell(0, "a"),))


def test_a_task_of_another_market_is_refused_and_changes_nothing() -> None:
    mechanism = Pdftsp(CLUSTER, SET)
    for wrong, message in (
        (replace(TASK, throughput={"tpu": 1.0}), "throughput.tpu"),
        (replace(TASK, deadline=3), "deadline: 3"),
        (replace(TASK, operating_cost={"gpu": (0.0,)}), "operating_cost.gpu: has 1"),
    ):
        with pytest.raises(InputError, match=message):
            mechanism.offer(wrong, 0)
    assert not mechanism.ledger.usage.tasks.any()


def test_learned_ranges_wait_for_the_next_slot() -> None:
    mechanism = Pdftsp(CLUSTER, PdftspParams(pricing="exponential"))
    mechanism.offer(TASK, 0)
    assert answer(mechanism, replace(TASK, id="u")).price == Decimal("0.2000")
    later = mechanism.offer(replace(TASK, id="u", arrival=1), 1)
    assert later.price is not None
    assert later.price > Decimal("0.2000")


def test_the_papers_payment_gains_by_overbidding_and_the_critical_one_does_not() -> None:
    market = read_instance(ROOT / "examples/instances/manipulable.json")
    (task,) = market.tasks
    gains = {}
    for payment in ("paper", "critical"):
        mechanism = Pdftsp(market.cluster, PdftspParams(pricing="exponential", payment=payment))
        truthful = utility(answer(mechanism, task), task.bid)
        gains[payment] = utility(answer(mechanism, task, Decimal(5)), task.bid) - truthful
    # Vendor 1 and energy 3: the price is 4, the paper charges 1 of it; the task is worth 3.
    assert gains == {"paper": Decimal(2), "critical": Decimal(-1)}


def test_eft_and_ntm_charge_the_bid_so_bidding_less_gains() -> None:
    mechanism = make_eft(CLUSTER)
    truthful = utility(answer(mechanism, TASK), TASK.bid)
    assert truthful == 0
    assert utility(answer(mechanism, TASK, Decimal("0.1000")), TASK.bid) == Decimal("2.9000")


@pytest.mark.parametrize("pricing", ["exponential", "paper"])
def test_a_later_bidder_can_be_hurt_by_an_earlier_ones_bid(pricing: str) -> None:
    # What is not claimed: a bid moves later prices.
    params = PAPER if pricing == "paper" else PdftspParams(pricing="exponential")
    prices = []
    for bid in ("1.0000", "8.0000"):
        mechanism = Pdftsp(replace(CLUSTER, nodes=CLUSTER.nodes[:1]), params)
        mechanism.offer(replace(TASK, bid=Decimal(bid), deadline=1), 0)
        prices.append(answer(mechanism, replace(TASK, id="u", arrival=1, deadline=1)).price)
    assert prices[0] is not None
    assert prices[1] is not None
    assert prices[0] < prices[1]


def test_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError, match=r"^payment: 'free'; expected one of critical, paper"):
        PdftspParams(payment="free")  # type: ignore[arg-type]  # as from a file
    with pytest.raises(InputError, match=r"^alpha: is not set"):
        Pdftsp(CLUSTER, PdftspParams(pricing="paper"))
    with pytest.raises(InputError, match=r"^scale: nan; expected a number"):
        PdftspParams(scale=float("nan"))
    with pytest.raises(InputError, match=r"^seed: -1"):
        PdftspParams(seed=-1)


def test_prices_lie_between_low_and_high() -> None:
    mechanism = Pdftsp(CLUSTER, SET)
    for index in range(4):
        mechanism.offer(replace(TASK, id=f"t{index}", work=12.0, bid=Decimal(99)), 0)
    assert mechanism.pricing.lam.max() == pytest.approx(0.9)
    np.testing.assert_array_less(0.1 - 1e-12, mechanism.pricing.lam)
    np.testing.assert_array_less(mechanism.pricing.phi, 0.2)


def test_only_the_papers_prices_are_taken_at_the_dearest_cell_unless_it_is_set() -> None:
    assert PdftspParams().chosen_aggregate == "sum"
    assert PdftspParams(pricing="exponential").chosen_aggregate == "sum"
    assert PdftspParams(pricing="paper").chosen_aggregate == "max"
    assert PdftspParams(pricing="exponential", aggregate="max").chosen_aggregate == "max"
