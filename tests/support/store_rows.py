"""Rows for the store's tables, and units of them written and waited for."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import orjson
from sqlalchemy import Table, select

from auctune.service.storage import Committer, Store, WriteBatch
from auctune.service.storage.event_log import NAME as LOG_VERSION
from auctune.service.storage.event_log import VERSION, checksum
from auctune.service.storage.identity import ID
from auctune.service.storage.tables import entries, events, jobs, meta
from support.waits import WAIT_SECONDS


def event_row(
    seq: int, zone: str = "north", job: str | None = None, **changes: Any
) -> dict[str, Any]:
    body = f'{{"number": {seq}}}'.encode()
    kind = "slot.started" if job is None else "job.decided"
    row: dict[str, Any] = {
        "seq": seq,
        "zone": zone,
        "slot": seq // 10,
        "at": 1e9 + seq / 8,
        "type": kind,
        "job": job,
        "body": body,
        "version": VERSION,
        **changes,
    }
    return {**row, "checksum": checksum(**row)}


def job_row(job: str, seq: int, owner: str = "ada", status: str = "queued") -> dict[str, Any]:
    return {
        "id": job,
        "seq": seq,
        "zone": "north",
        "owner": owner,
        "created_at": 1e9 + seq,
        "status": status,
        "body": b"{}",
    }


def file_row(file: str, seq: int, owner: str = "ada", **changes: Any) -> dict[str, Any]:
    return {
        "id": file,
        "seq": seq,
        "owner": owner,
        "created_at": 1e9 + seq,
        "bytes": 3,
        "sha256": "00",
        "filename": f"{file}.jsonl",
        "purpose": "fine-tune",
        "status": "processed",
        "body": b"{}",
        **changes,
    }


def entry_rows(first: int, seq: int, amount: int, at: float = 1e9) -> list[dict[str, Any]]:
    """A payment of `amount` by user:ada to the market."""
    shared = {"seq": seq, "job": None, "at": at}
    return [
        {"id": first, "account": "user:ada", "amount": -amount, **shared},
        {"id": first + 1, "account": "market", "amount": amount, **shared},
    ]


def answer_rows(
    seq: int, user: str, at: float, model: str = "tiny"
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The event of a charge for an answer, and its two entries; they take three numbers."""
    used = {"user": user, "key": "key-1", "model": model, "price": "0.0100", "amount": "0.0001"}
    counts = {"prompt_tokens": 2, "completion_tokens": 8, "carried": None}
    body = orjson.dumps({**used, **counts})
    shared = {"seq": seq, "job": None, "at": at}
    return event_row(seq, "default", at=at, type="tokens.used", body=body), [
        {"id": seq + 1, "account": f"user:{user}", "amount": 1, **shared},
        {"id": seq + 2, "account": "revenue", "amount": -1, **shared},
    ]


def job_unit(committer: Committer, job: str, amount: int = 125) -> WriteBatch:
    """A decided job: event, job and two entries."""
    seq = committer.next_seq(3)
    return (
        WriteBatch()
        .insert(entries, *entry_rows(seq + 1, seq, amount))
        .upsert(jobs, job_row(job, seq))
        .insert(events, event_row(seq, job=job))
    )


def meta_unit(name: str, value: str = "") -> WriteBatch:
    return WriteBatch().insert(meta, {"name": name, "value": value})


def write(committer: Committer, *units: WriteBatch) -> list[Exception | None]:
    """Submit units and wait; their errors, in the order in which they were told."""
    told: SimpleQueue[Exception | None] = SimpleQueue()
    for unit in units:
        unit.done = told.put
        committer.submit(unit)
    return [told.get(timeout=WAIT_SECONDS) for _ in units]


def write_together(committer: Committer, *units: WriteBatch) -> list[Exception | None]:
    """The same, all waiting before the first is written: they share a transaction."""
    told: SimpleQueue[Exception | None] = SimpleQueue()
    with held(committer):
        for unit in units:
            unit.done = told.put
            committer.submit(unit)
    return [told.get(timeout=WAIT_SECONDS) for _ in units]


@contextmanager
def held(committer: Committer) -> Iterator[None]:
    """Meanwhile the committer writes nothing."""
    reached, go_on = threading.Event(), threading.Event()

    def wait(_: Exception | None) -> None:
        reached.set()
        go_on.wait(WAIT_SECONDS)

    committer.submit(WriteBatch(wait))
    assert reached.wait(WAIT_SECONDS)
    try:
        yield
    finally:
        go_on.set()


def rows_of(store: Store, table: Table) -> list[dict[str, Any]]:
    """All rows but the id of the database, by primary key."""
    chosen = select(table).order_by(*table.primary_key.columns)
    if table is meta:
        chosen = chosen.where(meta.c.name.not_in((ID, LOG_VERSION)))
    with store.reader.connect() as connection:
        found = connection.execute(chosen)
        return [dict(row) for row in found.mappings()]


def num_rows(store: Store, tables: Sequence[Table]) -> list[int]:
    return [len(rows_of(store, table)) for table in tables]
