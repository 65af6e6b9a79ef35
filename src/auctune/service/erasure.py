"""Erase a user's data on request: files, checkpoints, webhooks, keys, names and notes.

Accounting data stay: decisions and payments in the log under the user's id, and the rows of jobs,
both without texts of the user. In SQLite the database files contain no erased data afterwards;
PostgreSQL keeps old versions of rows until its VACUUM.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import orjson
from sqlalchemy import ColumnElement, bindparam, delete, select, update

from auctune.domain import AuctuneError
from auctune.service.event_writer import job_record, read_job
from auctune.service.fair_queue import in_thread, in_turns
from auctune.service.jobs.request import checkpoint_name, job_of, model_name, split_name
from auctune.service.ledger import user_account
from auctune.service.service import Service
from auctune.service.storage import Row, WriteBatch, iter_pages, tables
from auctune.service.storage.committer import durable
from auctune.service.storage.engine import Store
from auctune.service.storage.event_log import EVENT_COLUMNS, VERSION, Record, checksum, read_row
from auctune.service.storage.queries import metadata_rows
from auctune.service.storage.snapshots import holds_any
from auctune.service.storage.tables import entries, events, idempotency_keys, snapshots
from auctune.service.zones.core.job import SLOWER_THAN_SOLD

_PAGE = 500
# Events of one batch are rewritten in one transaction, which all other writes wait for.
_JOBS_PER_BATCH = 50
_CHARGES_PER_BATCH = 500

# Fields of a request with texts of its user.
_TEXTS = ("metadata", "suffix", "integrations")
# Fields of events, and of what is nested in them, that may quote a user's data.
_QUOTES = ("message", "text", "note", "why")
_NESTED = ("result", "event")
# Later charges of a job depend on this note, which is the service's own.
_KEPT = SLOWER_THAN_SOLD
_ERASED = "erased"

Names = Mapping[str, str]
"""Names of the models that a user's jobs have trained, without their suffixes, by job."""

# The log is append-only, and triggers refuse every change of it. Erasure is the one exception: it
# replaces bodies of events, with new checksums, in transactions that drop the trigger.
_TRIGGERS = {
    "sqlite": (
        "DROP TRIGGER events_refuse_update",
        "CREATE TRIGGER events_refuse_update BEFORE UPDATE ON events "
        "BEGIN SELECT RAISE(ABORT, 'events is append-only'); END",
    ),
    "postgresql": (
        "ALTER TABLE events DISABLE TRIGGER events_refuse_change",
        "ALTER TABLE events ENABLE TRIGGER events_refuse_change",
    ),
}


def erase_words(
    store: Store, chosen: ColumnElement[bool], without: Callable[[bytes], bytes | None]
) -> None:
    """Replace bodies of events, on the committer's thread; `erase_copies` must follow.

    `chosen` selects a few events: other writes wait until they are read. `without` returns the new
    body of an event, or None if it does not change.
    """
    lift, restore = _TRIGGERS[store.writer.dialect.name]
    with store.writer.begin():
        changes = []
        for columns in store.writer.execute(EVENT_COLUMNS.where(chosen)):
            row = read_row(columns)
            body = without(row.body)
            if body is not None:
                new = checksum(
                    row.seq, row.zone, row.slot, row.at, row.type, row.job, body, VERSION
                )
                changes.append({"of": row.seq, "to": body, "sum": new})
        if changes:
            store.writer.exec_driver_sql(lift)
            store.writer.execute(
                update(events)
                .where(events.c.seq == bindparam("of"))
                .values(body=bindparam("to"), checksum=bindparam("sum"), version=VERSION),
                changes,
            )
            store.writer.exec_driver_sql(restore)


def erase_copies(store: Store, jobs: Collection[str], keys: Collection[str] = ()) -> None:
    """Remove all copies of replaced text from the database's files, on the committer's thread.

    Snapshots that hold one of the jobs are removed: a zone can be loaded without them. So are the
    idempotency keys of API keys.
    """
    jobs = frozenset(jobs)
    with store.writer.begin():
        store.writer.execute(delete(idempotency_keys).where(idempotency_keys.c.key_id.in_(keys)))
        for zone, seq in store.writer.execute(select(snapshots.c.zone, snapshots.c.seq)).all():
            here = (snapshots.c.zone == zone, snapshots.c.seq == seq)
            body = store.writer.execute(select(snapshots.c.body).where(*here)).scalar_one()
            if holds_any(body, jobs):
                store.writer.execute(delete(snapshots).where(*here))
    store.purge()


class StillOpenError(AuctuneError):
    """A user has open jobs."""


async def erase(service: Service, user: str) -> dict[str, int]:
    """Erase a user's data, and return the number of erased objects by kind.

    With open jobs, nothing is erased and StillOpenError is raised.
    """
    if service.open_jobs.jobs_of(user):
        raise StillOpenError("this user has open jobs; cancel them first")
    keys = [key.id for key in service.accounts.all_keys() if key.user == user]
    for key in keys:
        await service.accounts.erase_key(key)
    webhooks = service.webhooks.registry.for_user(user)
    for webhook in webhooks:
        await service.webhooks.registry.remove(webhook)
    for zone in service.zones.values():
        # Otherwise a later charge of a cancelled job would write its row with the erased text.
        await zone.actor.call(lambda one: one.settle(user))
    service.quotes.forget(user)
    service.idempotency.forget(keys)
    names = {row.id: _model_without_text(row) async for row in _jobs(service, user)}
    await _erase_jobs(service, user, names)
    service.models.forget(user)
    num_files = await _erase_files(service, user)
    await _erase_events(service, user, keys, names)
    return {"keys": len(keys), "webhooks": len(webhooks), "jobs": len(names), "files": num_files}


async def _erase_files(service: Service, user: str) -> int:
    count = 0
    read = partial(service.files.page, user, _PAGE, with_expired=True)
    while files := (await in_thread(read)).items:
        for record in files:
            await service.files.delete(record)
            count += 1
    return count


async def _jobs(service: Service, user: str) -> AsyncIterator[Row]:
    async for page in in_turns(iter_pages(partial(service.queries.jobs, user, _PAGE))):
        for row in page.items:
            yield row


async def _erase_jobs(service: Service, user: str, names: Names) -> None:
    async for row in _jobs(service, user):
        erased, request = _job_without_text(row, names), read_job(row).body["request"]
        batch = WriteBatch().upsert(tables.jobs, erased)
        batch.remove(tables.job_metadata, *metadata_rows(row.seq, user, request.get("metadata")))
        await durable(service.committer, batch)
        if request.get("integrations"):
            await service.wandb.forget(row.id)
        for path in (service.work / row.zone).glob(f"{row.id}*"):
            await asyncio.to_thread(_remove, path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


async def _erase_events(service: Service, user: str, keys: Sequence[str], names: Names) -> None:
    store, without = service.store, partial(_event_without_text, names)
    jobs = list(names)
    chosen = [
        events.c.job.in_(jobs[first : first + _JOBS_PER_BATCH])
        for first in range(0, len(jobs), _JOBS_PER_BATCH)
    ]
    charges = await in_thread(_charges, store, user)
    chosen += [
        events.c.seq.in_(charges[first : first + _CHARGES_PER_BATCH])
        for first in range(0, len(charges), _CHARGES_PER_BATCH)
    ]
    for some in chosen:
        change = WriteBatch(then=partial(erase_words, store, some, without))
        await durable(service.committer, change)
    await durable(service.committer, WriteBatch(then=partial(erase_copies, store, jobs, keys)))


def _charges(store: Store, user: str) -> list[int]:
    """Return the numbers of the events that charged a user for answers."""
    query = select(entries.c.seq).where(
        entries.c.account == user_account(user), entries.c.job.is_(None)
    )
    with store.reader.connect() as connection:
        return list(connection.execute(query.distinct()).scalars())


def _event_without_text(names: Names, body: bytes) -> bytes | None:
    event = orjson.loads(body)
    erased = _without_quotes(event)
    if "request" in event:
        erased["request"] = _request_without_text(event["request"], names)
    if "model" in event:
        erased["model"] = _model_name_without_text(event["model"], names)
    if event.get("idempotency_key") is not None:
        erased["idempotency_key"] = None
    for name in _NESTED:
        if isinstance(event.get(name), dict):
            erased[name] = _without_quotes(event[name])
    return None if erased == event else orjson.dumps(erased)


def _without_quotes(record: Record) -> Record:
    texts = {name: record[name] for name in _QUOTES if isinstance(record.get(name), str)}
    found = (name for name, text in texts.items() if text and text != _KEPT)
    return record | dict.fromkeys(found, _ERASED)


def _job_without_text(stored: Row, names: Names) -> dict[str, object]:
    row = read_job(stored)
    request = _request_without_text(row.body["request"], names)
    body = {**row.body, "request": request, "notes": []}
    error = body.get("error")
    if error is not None and error["code"] != "bid_rejected":
        body["error"] = _without_quotes(error)
    return job_record(replace(row, body=body))


def _request_without_text(request: Record, names: Names) -> Record:
    erased = request | {name: None for name in _TEXTS if name in request}
    if request.get("start_from") is not None:
        erased["start_from"] = _model_name_without_text(request["start_from"], names)
    return erased


def _model_without_text(row: Row) -> str:
    request = read_job(row).body["request"]
    return model_name({**request, "suffix": None}, row.id)


def _model_name_without_text(model: str, names: Names) -> str:
    whole, step = split_name(model)
    name = names.get(job_of(whole))
    if name is None:
        return model
    return name if step is None else checkpoint_name(name, step)
