"""Each job by itself: its life cycle, its entries in the ledger, and its charges."""

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise

from auctune.service.event_writer import to_minor_units
from auctune.service.ledger import (
    ENERGY_COSTS,
    HELD,
    INSTANCE_COSTS,
    REVENUE,
    VENDOR_COSTS,
    hold_account,
    provider_account,
    user_account,
)
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.auction.state import AuctionEventType
from auctune.service.zones.core.job import SLOWER_THAN_SOLD
from auctune.service.zones.timeshare.state import TimeshareEventType
from soak.history import FINAL_EVENTS, JobHistory

_AT_MOST_ONCE = (EventType.RECEIVED, EventType.DECIDED, *FINAL_EVENTS)
_REFUNDED = ("deadline_missed", "service_failed", "training_failed", "vendor_failed")
_NOT_REFUNDED = (
    "cap_reached",
    "deadline_passed",
    "step_too_long",
    "target_not_reached",
    "training_diverged",
)
# Refunded as well if the machine was slower than sold.
_LATE = ("step_too_long", "target_not_reached")


def check_job(job: JobHistory, *, is_metered: bool) -> Iterator[str]:
    """Check a job that has ended.

    Args:
        job: its history.
        is_metered: whether its zone charges by use; else it sells at a price.
    """
    yield from _check_life_cycle(job)
    if job.decision is None or not job.is_admitted:
        if job.entries:
            yield f"{job.job} was not admitted, and has entries"
        return
    yield from _check_refund(job)
    check = _check_metered_job if is_metered else _check_sold_job
    yield from check(job, job.decision)


def _check_life_cycle(job: JobHistory) -> Iterator[str]:
    if job.row is None:
        yield f"{job.job} has events and no row"
    counts = Counter(event.type for event in job.events)
    for event_type in _AT_MOST_ONCE:
        if counts[event_type] > 1:
            yield f"{job.job} has {counts[event_type]} events {event_type}"
    last = job.events[-1]
    ends = [event for event in job.events if event.type in FINAL_EVENTS or _is_rejection(event)]
    if len(ends) != 1 or not (ends[0] is last or _is_settlement(ends[0], last)):
        types = [event.type for event in job.events[-3:]]
        yield f"{job.job} does not end with exactly one final event: {types}"
    if len({event.zone for event in job.events}) > 1:
        yield f"{job.job} is in two zones"


def _is_rejection(event: ZoneEvent) -> bool:
    return event.type == EventType.DECIDED and not event.body["decision"]["admitted"]


def _is_settlement(end: ZoneEvent, last: ZoneEvent) -> bool:
    """Return whether a job was cancelled in a pool and settled when it had left the pool."""
    return "held" in end.body and last.type == TimeshareEventType.SETTLED


def _check_refund(job: JobHistory) -> Iterator[str]:
    """Check that a failed job is refunded if and only if the service is to blame."""
    last = job.events[-1]
    if last.type != EventType.FAILED:
        return
    code = last.body.get("code")
    if code not in (*_REFUNDED, *_NOT_REFUNDED):
        yield f"{job.job} failed with an unknown code: {code}"
    elif last.body["refund"] != (code in _REFUNDED or _is_late_by_the_machine(job, code)):
        yield f"{job.job} failed ({code}), with refund {last.body['refund']}"


def _is_late_by_the_machine(job: JobHistory, code: str) -> bool:
    """Return whether a pool that was slower than sold is why a job missed its target."""
    notes = [event.body["text"] for event in job.events_of(EventType.NOTE_ADDED)]
    return code in _LATE and SLOWER_THAN_SOLD in notes


def _check_sold_job(job: JobHistory, decision: ZoneEvent) -> Iterator[str]:
    """Check a job sold at a price: charged once, refunded in full or not at all, trained once."""
    payment = _minor_units(decision.body["decision"]["payment"])
    refund = [-payment] if job.is_refunded else []
    yield from _check_amounts(
        job,
        {
            user_account(job.owner): [payment, *refund],
            HELD: [-payment, payment],
            REVENUE: [] if refund else [-payment],
        },
    )
    num_repairs = len(job.events_of(AuctionEventType.REPAIRED))
    if num_repairs > 1 or len(job.amounts(VENDOR_COSTS)) > num_repairs:
        yield f"{job.job} was repaired {num_repairs} times, for {job.amounts(VENDOR_COSTS)}"
    trained = job.events_of(EventType.TRAINED)
    if len(job.amounts(ENERGY_COSTS)) > len(trained):
        yield f"{job.job} has costs of energy for slots without training"
    for slot, count in Counter(event.body["slot"] for event in trained).items():
        if count > 1:
            yield f"{job.job} was trained {count} times in slot {slot}"
    rows = [event.body["result"]["rows"] for event in trained]
    if rows != sorted(rows):
        yield f"{job.job}: trained rows decreased: {rows}"
    is_done = bool(trained) and trained[-1].body["result"]["state"] == "done"
    if job.events[-1].type == EventType.FINISHED and not is_done:
        yield f"{job.job} is finished and was not trained to its end"


def _check_metered_job(job: JobHistory, decision: ZoneEvent) -> Iterator[str]:
    """Check a metered job: its cap is held, each slot or unit charged once, the rest released."""
    cap = _minor_units(decision.body.get("held", decision.body["decision"]["max_cost"]))
    metered = job.events_of(EventType.METERED)
    charges = [_charge(event) for event in job.events]
    costs = [_minor_units(event.body["cost"]) for event in metered]
    if sum(charges) > cap:
        yield f"{job.job} was charged {sum(charges)}, above its cap of {cap}"
    charged = [*charges, *([-sum(charges)] if job.is_refunded else [])]
    held = _held_amounts(job, cap)
    yield from _check_amounts(
        job,
        {
            user_account(job.owner): charged,
            REVENUE: [-amount for amount in charged],
            HELD: held,
            hold_account(job.owner): [-amount for amount in held],
            INSTANCE_COSTS: costs,
            provider_account(job.zone): [-cost for cost in costs],
        },
    )
    slots = [event.body["slot"] for event in metered]
    if any(later <= earlier for earlier, later in pairwise(slots)):
        yield f"{job.job}: slots were charged twice, or out of order: {slots}"
    units = list(_charged_units(job))
    if len(set(units)) < len(units):
        yield f"{job.job}: units were charged twice: {units}"


def _charge(event: ZoneEvent) -> int:
    """Return what a slot or unit is charged; negative: refunded, as it was slower than sold."""
    if event.type == EventType.METERED:
        return _minor_units(event.body["amount"])
    if event.type == EventType.TRAINED and event.body.get("refund"):
        return -_minor_units(event.body["refund"])
    return 0


def _check_amounts(job: JobHistory, expected: Mapping[str, list[int]]) -> Iterator[str]:
    for account, amounts in expected.items():
        found, nonzero = job.amounts(account), [amount for amount in amounts if amount]
        if found != nonzero:
            yield f"{job.job}: {account} has entries {found}, expected {nonzero}"


def _held_amounts(job: JobHistory, cap: int) -> list[int]:
    """Return the entries on `held`: the cap, what was used or released of it, and the rest."""
    amounts = [-cap]
    for event in job.events:
        if event.type == EventType.CANCELLED and "held" in event.body:
            amounts.append(-sum(amounts) - _minor_units(event.body["held"]))
        else:
            amounts.append(_charge(event))
    return [*amounts, -sum(amounts)]


def _charged_units(job: JobHistory) -> Iterator[int]:
    """Yield units of charged training; loading a job into a pool has a charge of its own."""
    for before, event in pairwise(job.events):
        is_load = before.type == TimeshareEventType.JOINED_POOL and not event.body.get("share")
        if event.type == EventType.METERED and "unit" in event.body and not is_load:
            yield event.body["unit"]


def _minor_units(amount: str) -> int:
    return to_minor_units(Decimal(amount))
