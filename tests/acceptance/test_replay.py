"""A range of a log is verified by its own mechanism, and played under another one."""

from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pytest

from auctune.domain import Admission, RepeatedEnergy, Task
from auctune.registry.mechanisms import build
from auctune.replay.auction import AuctionVerifier, outcome_under, recorded_outcome
from auctune.replay.compare import slot_of
from auctune.replay.verify import VerificationResult
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.auction.state import (
    AuctionEventType,
    AuctionModel,
    AuctionState,
)
from auctune.service.zones.core.events import adapter
from support.zone_player import ZonePlayer
from support.zones import MadeUpZone

PLAN_CHANGES = {
    EventType.CANCELLED,
    EventType.PAUSED,
    EventType.RESUMED,
    AuctionEventType.REPLANNED,
    AuctionEventType.RELEASED,
}


@cache
def recorded(seed: int) -> tuple[list[ZoneEvent], MadeUpZone]:
    """A log in which everything happens: cancels, pauses, lost nodes, short slots, restarts."""
    made = MadeUpZone()
    player = ZonePlayer(made, np.random.default_rng(seed))
    for _ in range(250):
        player.step()
    return made.log.read(), made


def mechanism(made: MadeUpZone, name: str = "pdftsp") -> Admission:
    cluster = made.supply.cluster
    return build(name, cluster, {}, energy=RepeatedEnergy(cluster))


def verify(events: list[ZoneEvent], made: MadeUpZone, first_slot: int = 0) -> VerificationResult:
    verifier = AuctionVerifier(
        AuctionModel(AuctionState(cluster=made.supply.cluster), mechanism(made))
    )
    return verifier.verify_log(events, lambda event: slot_of(event) >= first_slot)


@pytest.mark.slow
def test_the_same_mechanism_decides_identically() -> None:
    decisions = updates = plans = taken = 0
    changes: set[str] = set()
    # Few pauses are followed by a resume that finds slots; these have some.
    for seed in range(6, 11):
        events, made = recorded(seed)
        verified = verify(events, made)
        assert verified.differences == ()
        decided = [event for event in events if event.type == EventType.DECIDED]
        assert verified.counts["decisions"] == len(decided)
        decisions, updates = decisions + len(decided), updates + verified.counts["price_updates"]
        plans += verified.counts["plans"]
        changes |= PLAN_CHANGES & {event.type for event in events}
        taken += sum(event.body["line"] is not None for event in decided)
        assert any(event.type == AuctionEventType.NODE_LOST for event in events)
    assert changes == PLAN_CHANGES
    assert decisions > 200
    assert min(updates, plans, taken) > 10


def test_it_does_so_from_the_middle_of_a_log() -> None:
    events, made = recorded(6)
    verified = verify(events, made, first_slot=20)
    assert verified.differences == ()
    decided = [event for event in events if event.type == EventType.DECIDED]
    before = [event for event in decided if event.slot < 20]
    assert before
    assert verified.counts["decisions"] + len(before) == len(decided)


def test_a_changed_decision_is_the_first_difference() -> None:
    events, made = recorded(2)
    bid = next(
        event
        for event in events
        if event.type == EventType.DECIDED
        and event.body["decision"]["admitted"]
        and event.body["line"] is None
    )
    body = deepcopy(bid.body)
    body["decision"]["payment"] = "0.0001"
    changed = [replace(one, body=body) if one is bid else one for one in events]
    first = verify(changed, made).differences[0]
    assert (first.name, first.what) == (bid.job, "job.decided: decision.payment")
    assert first.recorded == "0.0001"


def test_changed_missing_and_additional_price_updates_are_found() -> None:
    events, made = recorded(2)
    updates = [n for n, event in enumerate(events) if event.type == AuctionEventType.PRICES_UPDATED]
    first, second = (events[n] for n in updates[:2])
    # Once a slot has begun, the update at its start is owed, even where the log ends.
    owed = max(n for n in updates if events[n - 1].type == EventType.SLOT_STARTED)
    update = replace(first, body=first.body | {"update": second.body["update"]})
    for log, what in (
        ([update if one is first else one for one in events], "prices.updated: "),
        ([one for one in events if one is not first], "prices.updated"),
        (events[:owed], "prices.updated"),
        ([*events[: updates[0] + 1], *events[updates[0] :]], "prices.updated"),
    ):
        found = verify(log, made).differences
        assert found, what
        assert found[0].what.startswith(what)


def test_another_mechanism_goes_through_the_same_range() -> None:
    events, made = recorded(8)
    refunded = [row.id for row in made.log.rows.values() if row.body["refunded"]]
    cluster = made.supply.cluster
    before = recorded_outcome(events, cluster, 0)
    paid = [row for row in made.log.rows.values() if _is_kept(row.body)]
    assert before.revenue == sum(_payment(row.body) for row in paid)
    assert before.num_refunded == len(refunded)
    other = outcome_under(mechanism(made, "eft"), events, cluster, 0)
    assert other.num_bids == before.num_bids
    assert other != before
    # EFT charges what is bid.
    assert other.revenue > before.revenue


def _is_kept(body: dict[str, Any]) -> bool:
    decision = body["decision"]
    return decision is not None and decision["admitted"] and not body["refunded"]


def _payment(body: dict[str, Any]) -> Decimal:
    return Decimal(body["decision"]["payment"])


@cache
def quiet(seed: int, slots: int = 40) -> tuple[list[ZoneEvent], MadeUpZone]:
    """A log of bids and cancellations, in which all goes as planned."""
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
    return made.log.read(), made


@pytest.mark.parametrize("first_slot", [0, 1, 15, 38])
def test_the_same_mechanism_as_another_one_earns_what_was_earned(first_slot: int) -> None:
    events, made = quiet(5)
    cluster = made.supply.cluster
    changes = PLAN_CHANGES & {event.type for event in events}
    assert changes == {EventType.CANCELLED, AuctionEventType.RELEASED}
    found = recorded_outcome(events, cluster, first_slot)
    assert outcome_under(mechanism(made), events, cluster, first_slot) == found
    decided = [event for event in events if event.type == EventType.DECIDED]
    assert found.num_bids == sum(event.slot >= first_slot for event in decided)
    assert 0 < found.num_admitted < found.num_bids
    assert 0 < found.compute_used < 1


def test_an_outcome_adds_up() -> None:
    events, made = quiet(5)
    found = recorded_outcome(events, made.supply.cluster, 0)
    admitted = {
        str(event.job): (adapter(Task).validate_python(event.body["task"]), _payment(event.body))
        for event in events
        if event.type == EventType.DECIDED and event.body["decision"]["admitted"]
    }
    bids = sum(float(task.bid) for task, _ in admitted.values())
    assert found.welfare == pytest.approx(bids - float(found.vendor_cost) - found.operating_cost)
    assert found.revenue == sum(payment for _, payment in admitted.values())
    # Each cell that is left costs energy and takes compute.
    kind = made.supply.cluster.node_types["kind"]
    cells = {(row.id, cell["slot"]) for row in made.log.rows.values() for cell in row.body["cells"]}
    share = {name: task.throughput["kind"] / kind.compute for name, (task, _) in admitted.items()}
    cost = sum(share[job] * (0.02 if slot % 3 == 0 else 0.01) for job, slot in cells)
    assert found.operating_cost == pytest.approx(cost)
    used = sum(share[job] for job, slot in cells if slot <= made.zone.state.slot)
    assert found.compute_used == pytest.approx(used / (2 * (made.zone.state.slot + 1)))
