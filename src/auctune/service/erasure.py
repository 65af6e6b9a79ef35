"""A user's data, gone for good on request: files, checkpoints, webhooks, keys, names and notes.

What stays is what the books need: the log's decisions and payments under the user's id, and the
jobs' rows, both without metadata and suffixes. In SQLite nothing of what was erased is left in the
database's files; PostgreSQL keeps old versions of rows until its VACUUM.
"""

import asyncio
import shutil
from dataclasses import replace
from functools import partial

import orjson

from auctune.domain import AuctuneError
from auctune.service.durable import durable
from auctune.service.market import Market
from auctune.service.recorder import job_record, read_job
from auctune.service.store import JobRow as StoredJob
from auctune.service.store import Unit, tables
from auctune.service.store.erasing import erase_copies, erase_words

_AT_ONCE = 500
# Their events are read and written in one transaction, for which all other writes wait.
_JOBS_AT_ONCE = 50


class StillOpenError(AuctuneError):
    """A user has jobs that are not over."""


async def erase(market: Market, user: str) -> dict[str, int]:
    """Erase a user's data; what was erased, by kind.

    Raises:
        StillOpenError: if jobs of the user are not over; nothing is erased then.
    """
    if market.open_jobs.open_jobs(user):
        raise StillOpenError("jobs of this user are not over; cancel them first")
    keys = [key.id for key in market.directory.all_keys() if key.user == user]
    for key in keys:
        await market.directory.revoke_key(key)
    webhooks = market.webhooks.registry.for_user(user)
    for webhook in webhooks:
        await market.webhooks.registry.remove(webhook)
    for zone in market.zones.values():
        # Rows of cancelled jobs that are charged later would bring the words back.
        await zone.desk.call(lambda one: one.settle(user))
    market.quotes.forget(user)
    jobs = await _erase_jobs(market, user)
    num_files = await _erase_files(market, user)
    await _erase_events(market, jobs)
    return {"keys": len(keys), "webhooks": len(webhooks), "jobs": len(jobs), "files": num_files}


async def _erase_files(market: Market, user: str) -> int:
    count = 0
    while files := (await market.library.page(user, _AT_ONCE, None, None, False)).items:
        for record in files:
            # What is found out about it meanwhile must not write it anew.
            async with market.library.tombstone(record):
                await market.library.delete(record)
            count += 1
    return count


async def _erase_jobs(market: Market, user: str) -> list[str]:
    erased: list[str] = []
    after = None
    while True:
        page = await asyncio.to_thread(market.pages.jobs, user, _AT_ONCE, after)
        if not page.items:
            return erased
        rows = [_without_words(row) for row in page.items]
        unit = Unit().upsert(tables.jobs, *rows)
        await durable(market.committer, unit)
        for row in page.items:
            folder = market.work / row.zone / row.id
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        erased += [row.id for row in page.items]
        after = page.items[-1].id


async def _erase_events(market: Market, jobs: list[str]) -> None:
    """Take the words out of jobs' events, a few jobs at a time: others' writes come in between."""
    for first in range(0, len(jobs), _JOBS_AT_ONCE):
        some = jobs[first : first + _JOBS_AT_ONCE]
        change = Unit(then=partial(erase_words, market.store, some, _event_without_words))
        await durable(market.committer, change)
    await durable(market.committer, Unit(then=partial(erase_copies, market.store, jobs)))


def _event_without_words(body: bytes) -> bytes | None:
    event = orjson.loads(body)
    request = event.get("request")
    if request is None or (request.get("metadata"), request.get("suffix")) == (None, None):
        return None
    return orjson.dumps({**event, "request": {**request, "metadata": None, "suffix": None}})


def _without_words(stored: StoredJob) -> dict[str, object]:
    row = read_job(stored)
    request = {**row.body["request"], "metadata": None, "suffix": None}
    return job_record(replace(row, body={**row.body, "request": request, "notes": []}))
