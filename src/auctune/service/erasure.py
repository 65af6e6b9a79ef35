"""A user's data, gone for good on request: files, checkpoints, webhooks, keys, names and notes.

What stays is what the books need: the log's decisions and payments under the user's id, and the
jobs' rows without metadata and suffixes. The log itself is append-only: metadata that was sent with
a bid stays in it, until the database is retired.
"""

import asyncio
import shutil
from dataclasses import replace

from auctune.domain import AuctuneError
from auctune.service.durable import durable
from auctune.service.market import Market
from auctune.service.recorder import job_record, read_job
from auctune.service.store import JobRow as StoredJob
from auctune.service.store import Unit, tables

_AT_ONCE = 500


class StillOpenError(AuctuneError):
    """A user has jobs that are not over."""


async def erase(market: Market, user: str) -> dict[str, int]:
    """Erase a user's data; what was erased, by kind.

    Raises:
        StillOpenError: if jobs of the user are not over; nothing is erased then.
    """
    if market.open_jobs.of(user):
        raise StillOpenError("jobs of this user are not over; cancel them first")
    keys = [key.id for key in market.directory.all_keys() if key.user == user]
    for key in keys:
        await market.directory.revoke_key(key)
    hooks = market.messenger.hooks.of(user)
    for hook in hooks:
        await market.messenger.hooks.remove(hook)
    market.quotes.forget(user)
    num_jobs = await _erase_jobs(market, user)
    return {
        "keys": len(keys),
        "webhooks": len(hooks),
        "jobs": num_jobs,
        "files": await _erase_files(market, user),
    }


async def _erase_files(market: Market, user: str) -> int:
    count = 0
    while files := (await market.library.page(user, _AT_ONCE, None, None, False)).items:
        for record in files:
            # What is found out about it meanwhile must not write it anew.
            async with market.library.leaving(record):
                await market.library.delete(record)
            count += 1
    return count


async def _erase_jobs(market: Market, user: str) -> int:
    count, after = 0, None
    while True:
        page = await asyncio.to_thread(market.pages.jobs, user, _AT_ONCE, after)
        if not page.items:
            return count
        rows = [_without_words(row) for row in page.items]
        unit = Unit().upsert(tables.jobs, *rows)
        await durable(market.committer, unit)
        for row in page.items:
            folder = market.work / row.zone / row.id
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        count, after = count + len(rows), page.items[-1].id


def _without_words(stored: StoredJob) -> dict[str, object]:
    row = read_job(stored)
    request = {**row.body["request"], "metadata": None, "suffix": None}
    return job_record(replace(row, body={**row.body, "request": request, "notes": []}))
