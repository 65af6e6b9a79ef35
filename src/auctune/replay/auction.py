"""Replay of an auction zone's log."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from auctune.domain import (
    Admission,
    Event,
    Offered,
    PricesLearned,
    Reason,
    Released,
    Replanned,
)
from auctune.domain.decision import MenuLine
from auctune.engine.records import decision_record, read_decision, read_schedule
from auctune.replay.auction_outcome import AuctionOutcome, outcome_under, recorded_outcome
from auctune.replay.compare import Progress, ReplayInput, Tick, ZoneReplay
from auctune.replay.verify import Body, Difference, LogVerifier, Rule, noop
from auctune.service.storage.events import EventType, ZoneEvent
from auctune.service.zones.auction.events import AuctionEventType
from auctune.service.zones.auction.job import (
    cell_records,
    read_cluster,
    read_task,
)
from auctune.service.zones.auction.state import (
    AuctionModel,
    AuctionState,
    build_mechanism,
    empty_model,
    mechanism_event_data,
    window_rolls,
)
from auctune.service.zones.auction.zone import (
    earliest_feasible_slot,
    over_budget,
    preview_decision,
)
from auctune.service.zones.core.snapshots import decode_snapshot
from auctune.sim.comparison import Contender

_NO_PRICES = np.empty(0)
# Relative difference of prices that are the same but for rounding.
_ROUNDING = 1e-9


class AuctionVerifier(LogVerifier[AuctionState, Admission]):
    """Verifies an auction's log: decisions, price updates and new plans, by its mechanism.

    Args:
        model: before the first event.
        rolls: as of `window_rolls`.
    """

    counted = ("decisions", "lessons", "plans")

    def __init__(self, model: AuctionModel, *, rolls: bool = True) -> None:
        super().__init__(model)
        self._rolls = rolls
        # Slots and price updates of the mechanism that must come next in the log.
        self._updates: list[Event] = []
        # Newest event that has changed the mechanism while it was verified.
        self._mechanism_seq = 0

    def counts_of(self, event: ZoneEvent) -> Iterator[str]:
        if event.type == EventType.DECIDED:
            yield "decisions"
        elif event.type == AuctionEventType.PRICES_UPDATED:
            yield "lessons"
        elif event.body.get("plan") is not None:
            yield "plans"

    def apply(self, event: ZoneEvent) -> None:
        if event.seq == self._mechanism_seq:
            self.state.evolve(event)
        else:
            super().apply(event)

    def expected_body(self, event: ZoneEvent) -> Body | None:
        if event.type == EventType.DECIDED:
            # Prices are updated before each bid.
            self._advance(event.slot)
        if event.type not in (EventType.SLOT_STARTED, AuctionEventType.PRICES_UPDATED):
            self.differences += self.missing()
        return super().expected_body(event)

    def missing(self) -> list[Difference]:
        updates, self._updates = self._updates, []
        slot = f"slot {self.state.slot}"
        kinds = (mechanism_event_data(update).type for update in updates)
        return [Difference(kind, slot, "(none)", "an event") for kind in kinds]

    def decided_body(self, event: ZoneEvent) -> Body | None:
        body, slot, mechanism = event.body, event.slot, self.mechanism
        task, recorded = read_task(body["task"]), read_decision(body["decision"])
        line = body["line"]
        self._mechanism_seq = event.seq
        if line is None:
            decision = preview_decision(mechanism, task, slot)
            mechanism.apply(Offered(task, recorded, slot))
        elif recorded.schedule is None:
            # The log has the price of a refused line only here.
            if task.budget is None or recorded.price is None or recorded.price <= task.budget:
                return None
            decision = over_budget(task, recorded.price)
            mechanism.apply(Offered(task, recorded, slot))
        else:
            plan = read_schedule(line["schedule"])
            taken = mechanism.take(task, MenuLine(line["deadline"], recorded.payment, plan), slot)
            if taken is None:
                return None
            decision = taken
        is_over = decision.reason is Reason.OVER_BUDGET
        return {
            **body,
            "decision": decision_record(decision),
            "budget_remaining": str(task.budget) if is_over else None,
            "earliest": earliest_feasible_slot(mechanism, task, decision, slot)
            if self._rolls
            else None,
        }

    def _advance(self, slot: int) -> None:
        self._updates += self.mechanism.advance(slot)

    def _market_update(self, event: ZoneEvent) -> Body | None:
        if not self._updates:
            self._advance(event.body["slot"])
        if not self._updates or mechanism_event_data(self._updates[0]).type != event.type:
            return None
        self._mechanism_seq = event.seq
        update = self._updates.pop(0)
        if not isinstance(update, PricesLearned):
            return mechanism_event_data(update).body()
        recorded = self.state.mechanism_event(event)
        assert isinstance(recorded, PricesLearned)
        self.differences += _diff_prices(recorded, update)
        return event.body

    def _plan_changed(self, event: ZoneEvent) -> Body | None:
        if event.job not in self.state.jobs:
            return None
        wanted = event.body.get("plan")
        if wanted is None:
            return event.body
        change, mechanism = self.state.mechanism_event(event), self.mechanism
        assert isinstance(change, Released | Replanned)
        self._mechanism_seq = event.seq
        given_up = change.cells if isinstance(change, Released) else change.given_up
        mechanism.apply(Released(change.task, given_up))
        rest = replace(change.task, work=wanted["work"], quotes=())
        found = mechanism.plan_rest(rest, wanted["first"])
        if isinstance(change, Replanned):
            mechanism.apply(replace(change, given_up=()))
        return event.body | {"found": cell_records(found or ())}

    rules: ClassVar[Mapping[str, Rule]] = {
        EventType.SLOT_STARTED: _market_update,
        AuctionEventType.PRICES_UPDATED: _market_update,
        AuctionEventType.RELEASED: _plan_changed,
        AuctionEventType.REPLANNED: _plan_changed,
        EventType.PAUSED: _plan_changed,
        EventType.RESUMED: _plan_changed,
    }


def _diff_prices(recorded: PricesLearned, found: PricesLearned) -> Iterator[Difference]:
    """Compare arrays by value: how the log has compressed them depends on the machine's zlib.

    Processors differ in the last bits of powers and exponentials.
    """
    slot = f"slot {recorded.now}"
    if found.now != recorded.now:
        yield Difference("prices.updated: slot", slot, recorded.now, found.now)
    for name in sorted(found.lesson.keys() | recorded.lesson.keys()):
        what = f"prices.updated: {name}"
        old, new = recorded.lesson.get(name, _NO_PRICES), found.lesson.get(name, _NO_PRICES)
        if new.shape != old.shape:
            yield Difference(what, slot, f"shape {old.shape}", f"shape {new.shape}")
        elif num_other := np.count_nonzero(~np.isclose(old, new, _ROUNDING, 0, equal_nan=True)):
            yield Difference(what, slot, f"{old.size:,} values", f"{num_other:,} values differ")


class AuctionReplay(ZoneReplay[AuctionOutcome]):
    """Replay of an auction's log."""

    rows = (
        ("bids", "num_bids", ","),
        ("admitted", "num_admitted", ","),
        ("refunded", "num_refunded", ","),
        ("welfare", "welfare", ",.4f"),
        ("revenue", "revenue", ",.4f"),
        ("vendor cost", "vendor_cost", ",.4f"),
        ("operating cost", "operating_cost", ",.4f"),
        ("compute used", "compute_used", ".1%"),
    )

    def __init__(self, source: ReplayInput) -> None:
        super().__init__(source)
        self._cluster = read_cluster(source.log.opened["cluster"])

    @property
    def mechanism(self) -> str:
        return str(self.log.opened["mechanism"])

    @property
    def basis(self) -> str:
        return self.mechanism

    def check(self, contender: Contender) -> None:
        self._build(contender)

    def verifier(self) -> AuctionVerifier:
        """Return a verifier at the newest snapshot before the range, or at the first event."""
        log = self.log

        def empty() -> AuctionModel:
            return empty_model(log.opened)

        found = self.source.snapshots.load_latest(
            log.zone, lambda body: decode_snapshot(empty, body), until=log.last_seq_before
        )
        model = empty() if found is None else found.state
        return AuctionVerifier(model, rolls=window_rolls(log.opened))

    def recorded_outcome(self, progress: Progress) -> AuctionOutcome:
        tick = self._begin("as recorded", progress)
        return recorded_outcome(self.log.events(), self._cluster, self.log.first_slot, tick)

    def outcome_under(self, contender: Contender, progress: Progress) -> AuctionOutcome:
        tick = self._begin(contender.label, progress)
        return outcome_under(
            self._build(contender), self.log.events(), self._cluster, self.log.first_slot, tick
        )

    def _begin(self, label: str, progress: Progress) -> Tick:
        return progress(label, self.log.count(EventType.DECIDED)) or noop

    def _build(self, contender: Contender) -> Admission:
        return build_mechanism(self.log.opened, contender.mechanism, contender.settings)
