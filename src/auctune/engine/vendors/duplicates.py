"""Rows that say what an earlier row said: exactly, or nearly.

Two rows are near-duplicates if the Jaccard similarity of their sets of 5-character shingles
reaches a threshold, and their digits agree: rows made from one template with different
numbers are different facts. MinHash with banded locality-sensitive hashing (Broder 1997; Indyk
and Motwani 1998) finds the candidates, which are then compared exactly, so that no row is dropped
below the threshold; one above it is missed with probability < 1%.

Candidates share a band and all digits: a row is sketched once another one has its digits. Where
many rows share a long template and just miss the threshold, a bucket keeps its first `MAX_BUCKET`
rows, and a row is compared with the `MAX_COMPARED` candidates that share most bands, so that time
grows linearly with the number of rows: beyond these limits a near-duplicate may be missed.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

SHINGLE_CHARACTERS = 5
NUM_PERMUTATIONS = 128
MISS_PROBABILITY = 0.01
MAX_BUCKET = 1000
MAX_COMPARED = 100

# A band, and the hashes of a sketch in it.
_Bucket = tuple[int, bytes]

_BLANKS = re.compile(r"\s+")
_DIGITS = re.compile(r"\d+")


class _Passed(NamedTuple):
    line: int
    shingles: frozenset[str]


@dataclass(slots=True)
class _SameDigits:
    """The rows that passed and have the same digits.

    Attributes:
        passed: in their order.
        num_sketched: of them; the others are in no bucket yet.
        buckets: numbers of passed rows.
    """

    passed: list[_Passed] = field(default_factory=list)
    num_sketched: int = 0
    buckets: dict[_Bucket, list[int]] = field(default_factory=dict)


class DuplicateFilter:
    """Remembers the rows that it let pass.

    Args:
        similarity: Jaccard similarity in (0, 1] from which on rows are near-duplicates.
        seed: of the hash permutations.
    """

    def __init__(self, similarity: float, seed: int) -> None:
        # It brings much of scipy: what only names a vendor must not wait for that.
        from datasketch import MinHash

        # Drawing the permutations takes longer than a row's sketch.
        self._empty_sketch = MinHash(num_perm=NUM_PERMUTATIONS, seed=seed)
        self._similarity = similarity
        self._bands = choose_bands(similarity)
        self._lines: dict[bytes, int] = {}
        self._by_digits: defaultdict[bytes, _SameDigits] = defaultdict(_SameDigits)

    def find_exact(self, parts: Sequence[str]) -> int | None:
        """The line of an earlier row with the same parts but for case and blanks."""
        return self._lines.get(_fingerprint(parts))

    def find_near_or_add(self, parts: Sequence[str], line: int) -> int | None:
        """The line of the most similar earlier near-duplicate, the first of equals.

        If there is none, the row passes, and is remembered under its own `line`.
        """
        text = _normalize(parts)
        shingles = shingle(text)
        same = self._by_digits[sha256(" ".join(_DIGITS.findall(text)).encode()).digest()]
        if same.passed:
            for number in range(same.num_sketched, len(same.passed)):
                self._add(same, number, self._buckets_of(same.passed[number].shingles))
            buckets = self._buckets_of(shingles)
            matches = [
                (-similarity, other.line)
                for other in map(same.passed.__getitem__, _candidates(same, buckets))
                if (similarity := jaccard(shingles, other.shingles)) >= self._similarity
            ]
            if matches:
                return min(matches)[1]
            self._add(same, len(same.passed), buckets)
        self._lines.setdefault(_fingerprint(parts), line)
        same.passed.append(_Passed(line, shingles))
        return None

    def _add(self, same: _SameDigits, number: int, buckets: Sequence[_Bucket]) -> None:
        """Put a passed row into its buckets."""
        for bucket in buckets:
            numbers = same.buckets.setdefault(bucket, [])
            if len(numbers) < MAX_BUCKET:
                numbers.append(number)
        same.num_sketched = number + 1

    def _buckets_of(self, shingles: frozenset[str]) -> list[_Bucket]:
        bands, rows = self._bands
        sketch = self._empty_sketch.copy()
        sketch.update_batch([piece.encode() for piece in sorted(shingles)])
        hashes = sketch.hashvalues
        return [(band, hashes[band * rows : (band + 1) * rows].tobytes()) for band in range(bands)]


def _candidates(same: _SameDigits, buckets: Sequence[_Bucket]) -> list[int]:
    """Return the passed rows to compare with, those that share most buckets first."""
    # By number, not by line: several rows of a JSON array may stand on one line.
    shared = Counter(chain.from_iterable(same.buckets.get(one, ()) for one in buckets))
    return sorted(shared, key=lambda number: (-shared[number], number))[:MAX_COMPARED]


def choose_bands(similarity: float) -> tuple[int, int]:
    """Bands and rows a band: the most selective that miss a pair this similar rarely enough.

    A pair of similarity s shares at least one of b bands of r rows with 1 - (1 - s^r)^b.
    """
    for rows in (16, 8, 4, 2):
        bands = NUM_PERMUTATIONS // rows
        if (1 - similarity**rows) ** bands < MISS_PROBABILITY:
            return bands, rows
    return NUM_PERMUTATIONS, 1


def shingle(text: str) -> frozenset[str]:
    """All runs of 5 characters; a shorter text is one run."""
    last = max(1, len(text) - SHINGLE_CHARACTERS + 1)
    return frozenset(text[start : start + SHINGLE_CHARACTERS] for start in range(last))


def jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """Shared shingles by all shingles."""
    shared = len(left & right)
    return shared / (len(left) + len(right) - shared)


def _normalize(parts: Sequence[str]) -> str:
    return "\n".join(_BLANKS.sub(" ", part).strip().casefold() for part in parts)


def _fingerprint(parts: Sequence[str]) -> bytes:
    return sha256(_normalize(parts).encode()).digest()
