"""Searches for jobs by their metadata: of each pair a number is stored, and indexed."""

from collections.abc import Mapping
from hashlib import blake2b

import orjson


def _number(*words: str) -> int:
    """Return a number of 63 bits for an owner, and a pair of metadata of its jobs.

    Two pairs of one number would be found together; that is less likely than a defect of the disk.
    """
    return int.from_bytes(blake2b(orjson.dumps(words), digest_size=8).digest()) >> 1


def pair_numbers(owner: str, metadata: Mapping[str, str] | None) -> list[int]:
    """Return the numbers of the pairs of an owner's metadata, or the one for jobs without any."""
    return list({_number(owner, *one) for one in (metadata or {}).items()} or {_number(owner)})


def metadata_rows(seq: int, owner: str, metadata: Mapping[str, str] | None) -> list[dict[str, int]]:
    """Return the rows of a job's metadata; `seq` is the job's."""
    return [{"seq": seq, "pair": number} for number in pair_numbers(owner, metadata)]
