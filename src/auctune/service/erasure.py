"""Erase a user's data on request: files, checkpoints, webhooks, keys, names and notes.

Accounting data stay: decisions and payments in the log under the user's id, and the rows of jobs,
both without metadata, suffixes and integrations. In SQLite the database files contain no erased
data afterwards; PostgreSQL keeps old versions of rows until its VACUUM.
"""

import asyncio
import shutil
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

import orjson
from sqlalchemy import bindparam, delete, select, update

from auctune.domain import AuctuneError
from auctune.service.event_writer import job_record, read_job
from auctune.service.service import Service
from auctune.service.storage import Row, WriteBatch, tables
from auctune.service.storage.committer import durable
from auctune.service.storage.engine import Store
from auctune.service.storage.event_log import EVENT_COLUMNS, checksum, read_row
from auctune.service.storage.events import Record
from auctune.service.storage.snapshots import holds_any
from auctune.service.storage.tables import events, snapshots

_PAGE = 500
# Events of one batch are rewritten in one transaction, which all other writes wait for.
_JOBS_PER_BATCH = 50

# Fields of a request with texts of its user.
_TEXTS = ("metadata", "suffix", "integrations")

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
    store: Store, jobs: Collection[str], without: Callable[[bytes], bytes | None]
) -> None:
    """Replace bodies of events, on the committer's thread; `erase_copies` must follow.

    `jobs` are a few jobs that are over: other writes wait until their events are read. `without`
    returns the new body of an event, or None if it does not change.
    """
    lift, restore = _TRIGGERS[store.writer.dialect.name]
    with store.writer.begin():
        changes = []
        for columns in store.writer.execute(EVENT_COLUMNS.where(events.c.job.in_(jobs))):
            row = read_row(columns)
            body = without(row.body)
            if body is not None:
                new = checksum(row.seq, row.zone, row.slot, row.at, row.type, row.job, body)
                changes.append({"of": row.seq, "to": body, "sum": new})
        if changes:
            store.writer.exec_driver_sql(lift)
            store.writer.execute(
                update(events)
                .where(events.c.seq == bindparam("of"))
                .values(body=bindparam("to"), checksum=bindparam("sum")),
                changes,
            )
            store.writer.exec_driver_sql(restore)


def erase_copies(store: Store, jobs: Collection[str]) -> None:
    """Remove all copies of replaced text from the database's files, on the committer's thread.

    Snapshots that hold one of the jobs are removed: a zone can be loaded without them.
    """
    jobs = frozenset(jobs)
    with store.writer.begin():
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
    if service.open_jobs.open_jobs(user):
        raise StillOpenError("this user has open jobs; cancel them first")
    keys = [key.id for key in service.accounts.all_keys() if key.user == user]
    for key in keys:
        await service.accounts.revoke_key(key)
    webhooks = service.webhooks.registry.for_user(user)
    for webhook in webhooks:
        await service.webhooks.registry.remove(webhook)
    for zone in service.zones.values():
        # Otherwise a later charge of a cancelled job would write its row with the erased text.
        await zone.actor.call(lambda one: one.settle(user))
    service.quotes.forget(user)
    jobs = await _erase_jobs(service, user)
    num_files = await _erase_files(service, user)
    await _erase_events(service, jobs)
    return {"keys": len(keys), "webhooks": len(webhooks), "jobs": len(jobs), "files": num_files}


async def _erase_files(service: Service, user: str) -> int:
    count = 0
    while files := (await service.files.page(user, _PAGE, None, None, False)).items:
        for record in files:
            # The tombstone keeps an examination in progress from storing the file again.
            async with service.files.tombstone(record):
                await service.files.delete(record)
            count += 1
    return count


async def _erase_jobs(service: Service, user: str) -> list[str]:
    erased: list[str] = []
    after = None
    while True:
        page = await asyncio.to_thread(service.queries.jobs, user, _PAGE, after)
        if not page.items:
            return erased
        rows = [_without_text(row) for row in page.items]
        await durable(service.committer, WriteBatch().upsert(tables.jobs, *rows))
        for row in page.items:
            if read_job(row).body["request"].get("integrations"):
                await service.wandb.forget(row.id)
            folder = service.work / row.zone / row.id
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        erased += [row.id for row in page.items]
        after = page.items[-1].id


async def _erase_events(service: Service, jobs: list[str]) -> None:
    for first in range(0, len(jobs), _JOBS_PER_BATCH):
        batch = jobs[first : first + _JOBS_PER_BATCH]
        change = WriteBatch(then=partial(erase_words, service.store, batch, _event_without_text))
        await durable(service.committer, change)
    await durable(service.committer, WriteBatch(then=partial(erase_copies, service.store, jobs)))


def _event_without_text(body: bytes) -> bytes | None:
    event = orjson.loads(body)
    request = event.get("request")
    if request is None or all(request.get(name) is None for name in _TEXTS):
        return None
    return orjson.dumps({**event, "request": _request_without_text(request)})


def _without_text(stored: Row) -> dict[str, object]:
    row = read_job(stored)
    request = _request_without_text(row.body["request"])
    return job_record(replace(row, body={**row.body, "request": request, "notes": []}))


def _request_without_text(request: Record) -> Record:
    return request | {name: None for name in _TEXTS if name in request}
