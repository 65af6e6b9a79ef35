"""Rows that say what an earlier row said: exactly, or nearly.

Two rows are near-duplicates if the Jaccard similarity of their sets of 5-character shingles
reaches a threshold, and their digits agree: rows made from one template with different
numbers are different facts. MinHash with banded locality-sensitive hashing (Broder 1997; Indyk
and Motwani 1998) finds the candidates, which are then compared exactly, so that no row is dropped
below the threshold; one above it is missed with probability < 1%.
"""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datasketch import MinHash

SHINGLE_CHARACTERS = 5
NUM_PERMUTATIONS = 128
MISS_PROBABILITY = 0.01

_BLANKS = re.compile(r"\s+")
_DIGITS = re.compile(r"\d+")


class _Passed(NamedTuple):
    line: int
    shingles: frozenset[str]
    digits: tuple[str, ...]


class DuplicateFilter:
    """Remembers the rows that it let pass.

    Args:
        similarity: Jaccard similarity in (0, 1] from which on rows are near-duplicates.
        seed: of the hash permutations.
    """

    def __init__(self, similarity: float, seed: int) -> None:
        # It brings much of scipy: what only names a vendor must not wait for that.
        from datasketch import MinHash, MinHashLSH

        self._new_sketch = MinHash
        self._similarity = similarity
        self._seed = seed
        self._lines: dict[bytes, int] = {}
        self._passed: list[_Passed] = []
        self._index = MinHashLSH(num_perm=NUM_PERMUTATIONS, params=choose_bands(similarity))

    def find_exact(self, parts: Sequence[str]) -> int | None:
        """The line of an earlier row with the same parts but for case and blanks."""
        return self._lines.get(_fingerprint(parts))

    def find_near_or_add(self, parts: Sequence[str], line: int) -> int | None:
        """The line of the most similar earlier near-duplicate, the first of equals.

        If there is none, the row passes, and is remembered under its own `line`.
        """
        text = _normalize(parts)
        shingles, digits = shingle(text), tuple(_DIGITS.findall(text))
        sketch = self._sketch(shingles)
        # By number, not by line: several rows of a JSON array may stand on one line.
        numbers: list[int] = sorted(self._index.query(sketch))
        matches = [
            (-similarity, other.line)
            for other in map(self._passed.__getitem__, numbers)
            if other.digits == digits
            and (similarity := jaccard(shingles, other.shingles)) >= self._similarity
        ]
        if matches:
            return min(matches)[1]
        self._lines.setdefault(_fingerprint(parts), line)
        self._index.insert(len(self._passed), sketch, check_duplication=False)
        self._passed.append(_Passed(line, shingles, digits))
        return None

    def _sketch(self, shingles: frozenset[str]) -> "MinHash":
        sketch = self._new_sketch(num_perm=NUM_PERMUTATIONS, seed=self._seed)
        sketch.update_batch([piece.encode() for piece in sorted(shingles)])
        return sketch


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
