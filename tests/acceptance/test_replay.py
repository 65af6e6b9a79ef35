"""A recorded period replays to identical decisions, and shows what another mechanism would do."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from auctune.domain import Admission, NodeLost, RepeatedEnergy
from auctune.domain.recorded import BidMade, PlanChanged, RecordedPeriod, Why
from auctune.registry import build
from auctune.service.zones.auction.period import happened_of
from auctune.service.zones.auction.state import AuctionState
from auctune.service.zones.core.events import EventType
from auctune.sim.replay import recorded_takings, replay_other, replay_same
from support.zone_player import ZonePlayer
from support.zones import MadeUpZone


def recorded(seed: int, steps: int, first_slot: int = 0) -> tuple[RecordedPeriod, MadeUpZone]:
    """A period in which everything happens: cancels, pauses, lost nodes, short slots, restarts."""
    made = MadeUpZone()
    player = ZonePlayer(made, np.random.default_rng(seed))
    for _ in range(steps):
        player.step()
    happened = happened_of(iter(made.log.read()), AuctionState(made.supply.cluster))
    period = RecordedPeriod(made.supply.cluster, "pdftsp", {}, first_slot, tuple(happened))
    return period, made


def mechanism(period: RecordedPeriod, name: str = "pdftsp") -> Admission:
    return build(name, period.cluster, {}, energy=RepeatedEnergy(period.cluster))


def test_the_same_mechanism_decides_identically() -> None:
    decisions = lessons = plans = taken = 0
    whys: set[Why] = set()
    # Few pauses are followed by a resume that finds slots; these have some.
    for seed in range(6, 11):
        period, made = recorded(seed, 250)
        again = replay_same(period, mechanism(period))
        assert again.differences == ()
        decided = sum(event.kind == EventType.DECIDED for event, _ in made.log.events)
        assert again.num_decisions == decided
        decisions, lessons = decisions + decided, lessons + again.num_lessons
        plans += again.num_plans
        whys |= {one.why for one in period.happened if isinstance(one, PlanChanged)}
        taken += sum(isinstance(one, BidMade) and one.line is not None for one in period.happened)
        assert any(isinstance(one, NodeLost) for one in period.happened)
    assert whys == set(Why)
    assert decisions > 200
    assert min(lessons, plans, taken) > 10


def test_it_does_so_from_the_middle_of_a_log() -> None:
    period, _ = recorded(1, 250, first_slot=20)
    again = replay_same(period, mechanism(period))
    assert again.differences == ()
    before = [h for h in period.happened if isinstance(h, BidMade) and h.now < 20]
    assert before
    assert again.num_decisions + len(before) == sum(
        isinstance(one, BidMade) for one in period.happened
    )


def test_a_changed_record_does_not_pass() -> None:
    period, _ = recorded(2, 250)
    bids = [one for one in period.happened if isinstance(one, BidMade)]
    wrong = next(one for one in bids if one.decision.admitted and one.line is None)
    happened = tuple(
        BidMade(one.task, bids[0].decision, one.now, None) if one is wrong else one
        for one in period.happened
    )
    changed = RecordedPeriod(period.cluster, "pdftsp", {}, 0, happened)
    again = replay_same(changed, mechanism(period))
    assert [one.name for one in again.differences[:1]] == [wrong.task.id]


def test_another_mechanism_goes_through_the_same_period() -> None:
    period, made = recorded(3, 300)
    refunded = [row.id for row in made.log.rows.values() if row.body["refunded"]]
    before = recorded_takings(period)
    paid = [row for row in made.log.rows.values() if _is_kept(row.body)]
    assert before.revenue == sum(_payment(row.body) for row in paid)
    assert before.num_refunded == len(refunded)
    other = replay_other(period, mechanism(period, "eft"))
    assert other.num_bids == before.num_bids
    assert other != before
    # EFT charges what is bid.
    assert other.revenue > before.revenue


def _is_kept(body: dict[str, Any]) -> bool:
    decision = body["decision"]
    return decision is not None and decision["admitted"] and not body["refunded"]


def _payment(body: dict[str, Any]) -> Decimal:
    return Decimal(body["decision"]["payment"])


def quiet(seed: int, slots: int = 40) -> tuple[RecordedPeriod, MadeUpZone]:
    """A period of bids and cancellations, in which all goes as planned."""
    made, rng = MadeUpZone(), np.random.default_rng(seed)
    for slot in range(slots):
        for number in range(3):
            amount = f"{rng.uniform(0, 3):.4f}"
            rows, length = int(rng.integers(20, 400)), int(rng.integers(2, 10))
            name = f"{slot}-{number}"
            made.zone.decide(made.bid(name, amount, rows=rows, slots=length, share=0.5))
        made.keep()
        for name in [job for job in made.zone.state.jobs if rng.random() < 0.05]:
            made.zone.cancel(name)
        made.keep()
        for place in list(made.executor.orders):
            made.answer(*place)
        for name in made.trained:
            made.finish(name)
        made.pass_slots()
    happened = happened_of(iter(made.log.read()), AuctionState(made.supply.cluster))
    return RecordedPeriod(made.supply.cluster, "pdftsp", {}, 0, tuple(happened)), made


@pytest.mark.parametrize("first_slot", [0, 1, 15, 38])
def test_the_same_mechanism_as_another_one_earns_what_was_earned(first_slot: int) -> None:
    period, _ = quiet(5)
    whys = {one.why for one in period.happened if isinstance(one, PlanChanged)}
    assert whys == {Why.CANCELLED, Why.RELEASED}
    period = replace(period, first_slot=first_slot)
    recorded = recorded_takings(period)
    other = replay_other(period, mechanism(period))
    assert other == recorded
    decided = [one for one in period.happened if isinstance(one, BidMade)]
    assert recorded.num_bids == sum(one.now >= first_slot for one in decided)
    assert 0 < recorded.num_admitted < recorded.num_bids
    assert 0 < recorded.compute_used < 1


def test_what_a_period_came_to_adds_up() -> None:
    period, made = quiet(6)
    found = recorded_takings(period)
    admitted = [
        one for one in period.happened if isinstance(one, BidMade) and one.decision.admitted
    ]
    bids = sum(float(one.task.bid) for one in admitted)
    assert found.welfare == pytest.approx(bids - float(found.vendor_cost) - found.operating_cost)
    assert found.revenue == sum(one.decision.payment for one in admitted)
    # Each cell that is left costs energy and takes compute.
    kind = made.supply.cluster.node_types["kind"]
    cells = {(row.id, cell["slot"]) for row in made.log.rows.values() for cell in row.body["cells"]}
    share = {one.task.id: one.task.throughput["kind"] / kind.compute for one in admitted}
    cost = sum(share[job] * (0.02 if slot % 3 == 0 else 0.01) for job, slot in cells)
    assert found.operating_cost == pytest.approx(cost)
    used = sum(share[job] for job, slot in cells if slot <= made.zone.state.slot)
    assert found.compute_used == pytest.approx(used / (2 * (made.zone.state.slot + 1)))
