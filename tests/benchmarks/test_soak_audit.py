"""The soak's audit passes correct histories, and reports each violation."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from auctune.domain import Money
from auctune.service.event_writer import to_minor_units
from auctune.service.ledger import Entry, instance_cost
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.storage.queries import JobReadModel, Status
from auctune.service.zones.core.job import Meter
from auctune.service.zones.timeshare.state import TimeshareEventType
from soak.audit.clients import check_clients
from soak.audit.jobs import check_job
from soak.audit.log import check_ledger
from soak.client import ClientRecord, JobChanges, JobRequest
from soak.history import FINAL_EVENTS, History, JobHistory, LedgerEntry
from support.zone_player import ZonePlayer
from support.zones import MadeUpZone

Damage = Callable[[JobHistory], None]


@pytest.fixture(scope="module")
def sold() -> list[JobHistory]:
    """Jobs that have ended, of an auction with events of all types."""
    zone = MadeUpZone()
    player = ZonePlayer(zone, np.random.default_rng(37))
    for _ in range(160):
        player.step()
    jobs: dict[str, JobHistory] = {}
    for event in zone.log.read():
        if event.job is not None:
            jobs.setdefault(event.job, JobHistory(event.job)).events.append(event)
    for event, entries in zone.log.entries:
        if event.job is not None:
            jobs[event.job].entries += ledger_entries(event, entries)
    for name, job in jobs.items():
        job.row = zone.log.rows[name]
    return [job for job in jobs.values() if has_ended(job)]


def has_ended(job: JobHistory) -> bool:
    is_rejected = job.decision is not None and not job.is_admitted
    return is_rejected or job.events[-1].type in FINAL_EVENTS


def ledger_entries(event: ZoneEvent, entries: tuple[Entry, ...]) -> list[LedgerEntry]:
    return [
        LedgerEntry(event.seq, event.job, entry.account, to_minor_units(entry.amount))
        for entry in entries
    ]


def append(job: JobHistory, event_type: str, entries: tuple[Entry, ...] = (), **body: Any) -> None:
    event = ZoneEvent(len(job.events) + 1, "rented", 1, 1.0, event_type, "job", body)
    job.events.append(event)
    job.entries += ledger_entries(event, entries)


def admitted() -> tuple[JobHistory, Meter]:
    """An admitted job whose cap is 1, and its meter."""
    row = JobReadModel("job", "rented", 1, "ann", 1.0, Status.SUCCEEDED, {})
    job, meter = JobHistory("job", row=row), Meter("ann", Money("1"))
    decision = {"admitted": True, "reason": None, "max_cost": "1.0000"}
    request = {"metadata": {"token": "ann-1"}}
    entries = meter.begin()
    append(job, EventType.DECIDED, entries, owner="ann", request=request, decision=decision)
    return job, meter


def rented(*, refunded: bool = False, ended: bool = True) -> JobHistory:
    """A job whose cap is 1, charged 0.3 and 0.2; the service's costs are half of that."""
    job, meter = admitted()
    for slot, amount in enumerate(("0.3", "0.2")):
        cost = str(Money(amount) / 2)
        entries = meter.charge(slot, Money(amount)) + instance_cost("rented", Money(cost))
        append(job, EventType.METERED, entries, slot=slot, amount=amount, cost=cost)
    if refunded:
        end = {"code": "service_failed", "refund": True}
        append(job, EventType.FAILED, meter.end(refunded=True), **end)
    elif ended:
        append(job, EventType.FINISHED, meter.end(refunded=False), files=["file-a"])
    return job


def violations(job: JobHistory, *, is_metered: bool = True) -> list[str]:
    return list(check_job(job, is_metered=is_metered))


def test_jobs_of_an_auction_pass(sold: list[JobHistory]) -> None:
    assert [one for job in sold for one in violations(job, is_metered=False)] == []
    ends = {job.events[-1].type for job in sold}
    assert {EventType.FINISHED, EventType.CANCELLED, EventType.FAILED, EventType.DECIDED} <= ends
    assert any(job.is_refunded for job in sold)


def duplicate(event_type: str) -> Damage:
    def damage(job: JobHistory) -> None:
        index = next(i for i, event in enumerate(job.events) if event.type == event_type)
        job.events.insert(index, job.events[index])

    return damage


def charge_less(job: JobHistory) -> None:
    entry = next(entry for entry in job.entries if entry.account.startswith("user:"))
    job.entries[job.entries.index(entry)] = replace(entry, amount=entry.amount - 1)


def drop_revenue(job: JobHistory) -> None:
    job.entries = [entry for entry in job.entries if entry.account != "revenue"]


def refund_although_finished(job: JobHistory) -> None:
    entry = next(entry for entry in job.entries if entry.account.startswith("user:"))
    job.entries.append(replace(entry, amount=-entry.amount))


def train_after_the_end(job: JobHistory) -> None:
    job.events.append(next(event for event in job.events if event.type == EventType.TRAINED))


def drop_row(job: JobHistory) -> None:
    job.row = None


@pytest.mark.parametrize(
    "damage",
    [
        duplicate(EventType.DECIDED),
        duplicate(EventType.TRAINED),
        duplicate(EventType.FINISHED),
        charge_less,
        drop_revenue,
        refund_although_finished,
        train_after_the_end,
        drop_row,
    ],
)
def test_damage_to_a_sold_job_is_reported(sold: list[JobHistory], damage: Damage) -> None:
    finished = (job for job in sold if job.events[-1].type == EventType.FINISHED)
    job = deepcopy(next(job for job in finished if job.amounts("revenue")))
    damage(job)
    assert violations(job, is_metered=False)


def deny_refund(job: JobHistory) -> None:
    job.events[-1] = replace(job.events[-1], body={**job.events[-1].body, "refund": False})


@pytest.mark.parametrize("refunded", [False, True])
def test_a_metered_job_passes_and_damage_to_it_is_reported(*, refunded: bool) -> None:
    assert violations(rented(refunded=refunded)) == []
    damages = [duplicate(EventType.METERED), charge_less, drop_revenue, refund_although_finished]
    for damage in [*damages, *([deny_refund] if refunded else [])]:
        job = rented(refunded=refunded)
        damage(job)
        assert violations(job), damage


def test_a_charge_above_the_cap_is_reported() -> None:
    job = rented()
    decided = job.events[0]
    decision = {**decided.body["decision"], "max_cost": "0.4000"}
    job.events[0] = replace(decided, body={**decided.body, "decision": decision})
    assert any("above its cap" in one for one in violations(job))


def test_loading_and_one_charge_per_unit_pass_and_a_second_charge_is_reported() -> None:
    def charged(*units: tuple[int, float]) -> JobHistory:
        """A job of a pool, charged for its loading in unit 7 and for its shares of units."""
        job, meter = admitted()
        append(job, TimeshareEventType.JOINED_POOL, unit=7)
        for slot, (unit, share) in enumerate([(7, 0.0), *units]):
            body = {"slot": slot, "unit": unit, "share": share, "amount": "0.1", "cost": "0"}
            append(job, EventType.METERED, meter.charge(slot, Money("0.1")), **body)
        append(job, EventType.FINISHED, meter.end(refunded=False), files=["file-a"])
        return job

    assert violations(charged((7, 0.5), (8, 1.0))) == []
    for twice in [(7, 0.5), (7, 0.5)], [(7, 0.0), (7, 0.5)], [(8, 1.0), (8, 1.0)]:
        assert any("charged twice" in one for one in violations(charged(*twice)))


def test_a_cancelled_job_of_a_pool_has_ended_once_it_is_settled() -> None:
    def cancelled(*, held: str, settled: bool) -> JobHistory:
        """A job of a pool, charged 0.3 and 0.2 and, after it was cancelled, 0.1."""
        job, meter = rented(ended=False), Meter("ann", Money("1"))
        meter.charge(0, Money("0.3"))
        meter.charge(1, Money("0.2"))
        append(job, EventType.CANCELLED, meter.lower(Money(held)), held=held)
        entries = meter.charge(2, Money("0.1"))
        append(job, EventType.METERED, entries, slot=2, amount="0.1", cost="0")
        if settled:
            append(job, TimeshareEventType.SETTLED, meter.end(refunded=False))
        return job

    for held in ("0.5000", "0.2000", "0.1000"):
        assert violations(cancelled(held=held, settled=True)) == []
    assert violations(cancelled(held="0.2000", settled=False))
    job = cancelled(held="0.2000", settled=True)
    job.entries.pop()
    assert violations(job)


def test_a_slot_that_was_slower_than_sold_is_charged_and_refunded() -> None:
    job, meter = admitted()
    append(job, EventType.METERED, meter.charge(0, Money("0.3")), slot=0, amount="0.3", cost="0")
    entries = meter.give_back(Money("0.3"))
    result = {"rows": 1}
    append(job, EventType.TRAINED, entries, slot=0, number=0, result=result, refund="0.3")
    append(job, EventType.FINISHED, meter.end(refunded=False), files=["file-a"])
    assert violations(job) == []
    del job.events[2].body["refund"]
    assert violations(job)


def requested(**fields: Any) -> JobRequest:
    request = JobRequest("ann-1", b"", {}, is_repeatable=True, job_ids={"job"}, num_sent=1)
    return replace(request, **fields)


def disagreements(
    request: JobRequest, *jobs: JobHistory, changes: JobChanges | None = None
) -> list[str]:
    by_job = {} if changes is None else {"job": changes}
    client = ClientRecord("ann", "key", [request], changes=by_job)
    history = History({}, [], {job.job: job for job in jobs})
    return list(check_clients(history, [client], lambda _: []))


def view(**market: Any) -> dict[str, Any]:
    defaults = {"decision": "admitted", "reason": None, "payment": None, "plan": None}
    return {"market": {**defaults, "metered": {"max_cost": "1.0000"}, **market}}


def test_clients_and_log_that_agree_pass() -> None:
    assert disagreements(requested(first_view=view()), rented()) == []
    # An unanswered request may or may not have created a job.
    assert disagreements(requested(job_ids=set(), num_unanswered=1), rented()) == []
    assert disagreements(requested(job_ids=set(), num_unanswered=1)) == []
    assert disagreements(requested(job_ids=set(), refusal=(400, "bad"))) == []
    assert disagreements(requested(), rented(), changes=JobChanges()) == []


@pytest.mark.parametrize(
    "disagree",
    [
        lambda: disagreements(requested()),
        lambda: disagreements(requested(), rented(), replace(rented(), job="another")),
        lambda: disagreements(requested(job_ids=set(), refusal=(400, "bad")), rented()),
        lambda: disagreements(
            requested(job_ids=set(), num_unanswered=1, may_create_job=False), rented()
        ),
        lambda: disagreements(requested(token="ann-2", job_ids=set(), num_unanswered=1), rented()),
        lambda: disagreements(requested(first_view=view(decision="rejected")), rented()),
        lambda: disagreements(requested(first_view=view(metered={"max_cost": "2"})), rented()),
    ],
)
def test_each_disagreement_of_clients_and_log_is_reported(
    disagree: Callable[[], list[str]],
) -> None:
    assert disagree()


def test_an_acknowledged_cancel_that_is_not_recorded_is_reported() -> None:
    changes = JobChanges()
    changes.acknowledged["cancel"] += 1
    assert disagreements(requested(), rented(), changes=changes)


def ledger_violations(job: JobHistory, budget: str = "1") -> Iterator[str]:
    sums: dict[str, int] = {}
    for entry in job.entries:
        sums[entry.account] = sums.get(entry.account, 0) + entry.amount
    balances = {name: str(Decimal(total).scaleb(-4)) for name, total in sums.items()}
    return check_ledger(History({}, job.entries, {}), balances, {"ann": Decimal(budget)})


def test_a_balanced_ledger_within_the_budget_passes_and_violations_are_reported() -> None:
    assert list(ledger_violations(rented())) == []
    assert list(ledger_violations(rented(), "0.9")) == ["user:ann exceeds its budget"]
    job = rented()
    charge_less(job)
    assert any("does not balance" in one for one in ledger_violations(job))
