"""The log of a rented zone once more: prices by its market, decisions by what it had seen of it,
charges by what was held.

What was held itself followed from the training of a job: that is on record with the job's own
process, which asks the policy again whenever it goes on.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from auctune.domain import Money, round_money
from auctune.run.rental.estimate import Renting
from auctune.run.rental.market import ReplayedRecord
from auctune.run.rental.order import JobTerms
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.events import EventType, ZoneEvent
from auctune.service.zones.core.metered import MeteredEventType
from auctune.service.zones.metered.again import Body
from auctune.service.zones.spot.bid import EstimateInputs
from auctune.service.zones.spot.decision import (
    OVER_CAP,
    charge_amount,
    estimate_of,
    first_slot,
    rejection_reason,
    reserved_amount,
    value_at,
)
from auctune.service.zones.spot.job import SpotEventType, SpotJobState
from auctune.service.zones.spot.state import SpotState


class SpotAgain:
    """A `Judge` of a zone of this kind, at the zone's beginning.

    Args:
        market: that the zone replays.
        clock: of the zone.
    """

    def __init__(self, market: ReplayedRecord, clock: SlotClock) -> None:
        self._market, self._clock = market, clock
        self._state = SpotState()

    def again(self, event: ZoneEvent) -> Body | None:
        """See `Judge`."""
        rule = _RULES.get(event.kind)
        if rule is not None:
            return rule(self, event)
        return event.body if event.job is None or self._is_open(event.job) else None

    def take(self, event: ZoneEvent) -> None:
        """See `Judge`."""
        self._state.apply(event)

    def _is_open(self, job: str) -> bool:
        return job in self._state.jobs or job in self._state.received

    def _began(self, event: ZoneEvent) -> Body | None:
        slot = event.body["slot"]
        if slot <= self._state.slot:
            return None
        price, available = self._market.beginning(slot)
        return {**event.body, "price": price, "available": available}

    def _received(self, event: ZoneEvent) -> Body | None:
        return None if self._is_open(str(event.job)) else event.body

    def _decided(self, event: ZoneEvent) -> Body | None:
        body = event.body
        if event.job in self._state.jobs:
            return None
        made = EstimateInputs.from_record(body["estimated"])
        cap = Money(body["request"]["max_cost"])
        left = None if body["left"] is None else Money(body["left"])
        terms = JobTerms.from_record(body["terms"])
        asked = replace(terms, deadline=made.deadline, hard_factor=made.hard_factor)
        renting = Renting(**body["renting"])
        estimate = estimate_of(
            asked,
            made.first,
            made.slot,
            made.pace,
            renting,
            self._market,
            self._clock,
            body["unit_price"],
        )
        need = estimate.p90_cost
        reason = rejection_reason(need, cap, left, len(self._state.jobs), body["jobs"])
        decision = {
            "admitted": reason is None,
            "reason": reason,
            "max_cost": str(cap),
            "least_max_cost": str(need) if reason == OVER_CAP else None,
            "estimate": estimate.to_record(),
        }
        held = str(reserved_amount(cap, left))
        first = first_slot(self._clock, self._state.slot, body["ready_at"])
        return {**body, "decision": decision, "held": held, "first": first}

    def _metered(self, event: ZoneEvent) -> Body | None:
        body, job = event.body, self._state.jobs.get(str(event.job))
        if job is None or job.meter.is_charged(body["slot"]):
            return None
        held = self._ending(body, job) if body["price"] is None else self._slot(body, job)
        cost = round_money(held["paid"] * job.unit_cost)
        amount = charge_amount(held.pop("paid"), job.unit_price, job.meter.remaining)
        charged = {"slot": job.meter.next_slot, "amount": str(amount), "cost": str(cost)}
        return {**body, **held, **charged}

    def _slot(self, body: Mapping[str, Any], job: SpotJobState) -> dict[str, Any]:
        """A slot's price is one that the market had in it, and no more was held than there was."""
        at = job.first + job.meter.next_slot
        there = self._market.trace(at, 1)
        price = body["price"] if body["price"] in there["price"] else there["price"][0]
        spot = min(body["spot"], max(there["available"]))
        spot_cost = spot * price
        paid = body["on_demand"] * self._market.market.on_demand_price + spot_cost
        return {"at": at, "share": 1.0, "price": price, "spot": spot, "paid": paid}

    def _ending(self, body: Mapping[str, Any], job: SpotJobState) -> dict[str, Any]:
        """What is left at the deadline runs on all on-demand instances that the job can use."""
        on_demand_price = self._market.market.on_demand_price
        paid = on_demand_price * job.terms.n_max * body["share"]
        return {"on_demand": job.terms.n_max, "spot": 0, "paid": paid}

    def _trained(self, event: ZoneEvent) -> Body | None:
        job = self._state.jobs.get(str(event.job))
        is_new = job is not None and event.body["number"] >= job.next_trained
        return event.body if is_new else None

    def _ended(self, event: ZoneEvent) -> Body | None:
        job = self._state.jobs.get(str(event.job))
        if job is None:
            return None
        done = self._clock.slot_start(job.first) + event.body["finish"] * self._clock.slot_seconds
        worth = value_at(job.worth, done)
        return {**event.body, "worth": None if worth is None else str(worth)}


_RULES: dict[str, Callable[[SpotAgain, ZoneEvent], Body | None]] = {
    EventType.SLOT_BEGAN: SpotAgain._began,
    EventType.RECEIVED: SpotAgain._received,
    EventType.DECIDED: SpotAgain._decided,
    MeteredEventType.METERED: SpotAgain._metered,
    EventType.TRAINED: SpotAgain._trained,
    SpotEventType.ENDED: SpotAgain._ended,
}
