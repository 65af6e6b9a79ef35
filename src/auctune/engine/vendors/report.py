"""Report of a repair: counts, rows that were dropped and why, a few examples."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pydantic import TypeAdapter

from auctune.domain.dataset import RowKind


class Action(StrEnum):
    """A way in which a row was repaired."""

    ENCODING = "encoding"
    """Bytes that were not UTF-8, read as Windows-1252 or UTF-16; or a byte order mark."""
    JSON = "json"
    """Broken JSON: trailing commas, single quotes, Python literals, stray text around it."""
    SCHEMA = "schema"
    """Keys, roles or parts under other names, or keys that no trainer reads."""
    TURNS = "turns"
    """Messages behind the assistant's last one, left out: nothing is learnt of them."""
    KIND = "kind"
    """A row of another kind than most, rewritten without loss."""
    TEXT = "text"
    """Unicode form, control characters, mojibake, white space."""


class DropReason(StrEnum):
    """Why a row was dropped."""

    NOT_JSON = "not_json"
    UNKNOWN_SCHEMA = "unknown_schema"
    UNSUPPORTED = "unsupported"
    OTHER_KIND = "other_kind"
    EMPTY = "empty"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    LANGUAGE = "language"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A dropped row: the line of the source file on which it starts, why, and what was found."""

    line: int
    reason: DropReason
    note: str


@dataclass(frozen=True, slots=True)
class Example:
    """A row before and after the repair, both shortened."""

    line: int
    actions: tuple[Action, ...]
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The report of one repair.

    Attributes:
        vendor: name of the vendor.
        kind: of all rows that are left.
        rows_in: rows found in the source, readable or not.
        rows_out: rows written.
        actions: rows repaired, by action; one row may count under several.
        dropped: dropped rows, in order of their lines.
        examples: a few of the repaired rows, in order of their lines.
    """

    vendor: str
    kind: RowKind
    rows_in: int
    rows_out: int
    actions: Mapping[Action, int]
    dropped: tuple[DroppedRow, ...] = ()
    examples: tuple[Example, ...] = ()

    def __post_init__(self) -> None:
        if self.rows_in - len(self.dropped) != self.rows_out:
            raise ValueError(
                f"{self.rows_in} rows in, {len(self.dropped)} dropped, {self.rows_out} out: "
                "expected in - dropped = out"
            )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values under the attributes' names."""
        values: dict[str, Any] = _ADAPTER.dump_python(self, mode="json")
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "RepairReport":
        """Return the report that `to_json` wrote."""
        return _ADAPTER.validate_python(values)


_ADAPTER = TypeAdapter(RepairReport)
