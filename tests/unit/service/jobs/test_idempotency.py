"""Stored idempotency keys: they are found for a day, and then removed."""

import asyncio

import pytest

from auctune.service.jobs import request
from auctune.service.jobs.request import KEY_SECONDS, IdempotencyStore
from auctune.service.storage import Committer, Store, WriteBatch
from auctune.service.storage.tables import idempotency_keys
from support.store_rows import rows_of, write

pytest_plugins = ["support.store_fixtures"]


def test_only_keys_that_are_no_longer_valid_are_removed(
    store: Store, committer: Committer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "_PAGE", 2)
    now = 1e9
    ages = {"new": 0.0, "valid": KEY_SECONDS - 1, **{f"old{n}": KEY_SECONDS + n for n in (1, 2, 3)}}
    rows = [
        {"key_id": "key-1", "token": token, "digest": "d", "job": f"job-{token}", "at": now - age}
        for token, age in ages.items()
    ]
    assert write(committer, WriteBatch().upsert(idempotency_keys, *rows)) == [None]
    keys = IdempotencyStore(store.reader, lambda: now)
    asyncio.run(keys.prune(committer))
    assert [row["token"] for row in rows_of(store, idempotency_keys)] == ["new", "valid"]
