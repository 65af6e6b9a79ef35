"""Searches for jobs by their metadata: of each pair a number is stored, and indexed."""

from collections.abc import Iterator, Mapping
from hashlib import blake2b

import orjson
from sqlalchemy import ColumnElement, exists, select

from auctune.service.storage.tables import job_metadata, jobs


def pair_number(owner: str, key: str, value: str) -> int:
    """Return the number of a pair of metadata of an owner's jobs, of 63 bits.

    Two pairs of one number would be found together; that is less likely than a defect of the disk.
    """
    digest = blake2b(orjson.dumps([owner, key, value]), digest_size=8).digest()
    return int.from_bytes(digest) >> 1


def metadata_rows(seq: int, owner: str, metadata: Mapping[str, str] | None) -> list[dict[str, int]]:
    """Return the rows of a job's metadata; `seq` is the job's."""
    pairs = (metadata or {}).items()
    return [{"seq": seq, "pair": number} for number in {pair_number(owner, *one) for one in pairs}]


def metadata_conditions(owner: str, metadata: Mapping[str, str]) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions of an owner's jobs that have all of some metadata; of {}: have none."""
    if not metadata:
        yield ~exists().where(job_metadata.c.seq == jobs.c.seq)
    for one in metadata.items():
        same = job_metadata.c.pair == pair_number(owner, *one)
        yield jobs.c.seq.in_(select(job_metadata.c.seq).where(same))
