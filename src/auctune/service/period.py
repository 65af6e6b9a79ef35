"""A period of a zone's log in domain terms: what the simulator goes through again."""

from collections.abc import Iterator

from auctune.domain import Event, InputError, NodeLost, NodeReturned, Released, Replanned
from auctune.domain.events import PricesLearned, SlotAdvanced
from auctune.domain.menu import MenuLine
from auctune.domain.recorded import BidMade, Happened, PlanChanged, RecordedPeriod, Why
from auctune.run.records import read_decision, read_schedule
from auctune.service.store.event_log import EventLog
from auctune.service.zone.event import Kind, ZoneEvent
from auctune.service.zone.market_events import to_market
from auctune.service.zone.records import read_cluster, read_task
from auctune.service.zone.restart import opening_of, read_event
from auctune.service.zone.state import ZoneState

_WHY = {
    Kind.CANCELLED: Why.CANCELLED,
    Kind.PAUSED: Why.PAUSED,
    Kind.RESUMED: Why.RESUMED,
    Kind.REPLANNED: Why.REPLANNED,
    Kind.RELEASED: Why.RELEASED,
}


def read_period(
    zone: str, log: EventLog, first_slot: int = 0, last_slot: int | None = None
) -> RecordedPeriod:
    """What a log says of a zone.

    Args:
        zone: its name.
        log: to read.
        first_slot: the first slot of the period.
        last_slot: its last one; none: the newest.

    Raises:
        InputError: if the log knows of no such zone.
    """
    opened = opening_of(zone, log)
    if opened is None:
        raise InputError("zone", f"the log knows of no {zone!r}", "a zone that was opened")
    cluster = read_cluster(opened.body["cluster"])
    events = (read_event(row) for row in log.of_zone(zone))
    within = (e for e in events if last_slot is None or _slot(e) <= last_slot)
    return RecordedPeriod(
        cluster,
        opened.body["mechanism"],
        opened.body["settings"],
        first_slot,
        tuple(happened_of(within, ZoneState(cluster))),
    )


def happened_of(events: Iterator[ZoneEvent], state: ZoneState) -> Iterator[Happened]:
    """Events in domain terms.

    Args:
        events: of a zone, from its first one on.
        state: before them.
    """
    for event in events:
        told = to_market(event, state)
        found = _happened(event, told, state)
        state.apply(event)
        if found is not None:
            yield found


def _slot(event: ZoneEvent) -> int:
    return int(event.body["slot"]) if event.kind is Kind.SLOT_BEGAN else event.slot


def _happened(event: ZoneEvent, told: Event | None, state: ZoneState) -> Happened | None:
    if event.kind is Kind.DECIDED:
        body = event.body
        task, decision = read_task(body["task"]), read_decision(body["decision"])
        line = body["line"]
        chosen = None
        if line is not None and decision.schedule is not None:
            plan = read_schedule(line["schedule"])
            chosen = MenuLine(line["deadline"], decision.payment, plan)
        return BidMade(task, decision, event.slot, chosen)
    if event.kind in _WHY:
        if event.kind is Kind.CANCELLED and event.job not in state.jobs:
            return None
        assert told is None or isinstance(told, Released | Replanned)
        assert event.job is not None
        why, sought = _WHY[event.kind], event.body.get("plan") or {}
        work, first = sought.get("work"), sought.get("first", 0)
        return PlanChanged(told, event.job, why, event.slot, work, first)
    if isinstance(told, SlotAdvanced | PricesLearned | NodeLost | NodeReturned):
        return told
    return None
