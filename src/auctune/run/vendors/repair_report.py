"""What a vendor did to a data set: counts, lines dropped and why, a few examples."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from auctune.domain.dataset import RowKind


class Action(StrEnum):
    """A way in which a row was mended."""

    ENCODING = "encoding"
    """Bytes that were not UTF-8, read as Windows-1252 or UTF-16; or a byte order mark."""
    JSON = "json"
    """Broken JSON: trailing commas, single quotes, Python literals, stray text around it."""
    SCHEMA = "schema"
    """Keys, roles or parts under other names, or keys that no trainer reads."""
    KIND = "kind"
    """A row of another kind than most, rewritten without loss."""
    TEXT = "text"
    """Unicode form, control characters, mojibake, white space."""


class DropReason(StrEnum):
    """Why a row was left out."""

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
    """A row left out: the line of the source file on which it starts, why, and what was found."""

    line: int
    reason: DropReason
    note: str


@dataclass(frozen=True, slots=True)
class Example:
    """A row before and after, both shortened for reading."""

    line: int
    actions: tuple[Action, ...]
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The account of one repair.

    Attributes:
        vendor: who did it.
        kind: of all rows that are left.
        rows_in: rows found in the source, readable or not.
        rows_out: rows written.
        actions: rows mended, by action; one row may count under several.
        dropped: rows left out, in order of their lines.
        examples: a few of the mended rows, in order of their lines.
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

    @property
    def drop_counts(self) -> dict[DropReason, int]:
        """Rows left out, by reason; reasons that did not occur are not there."""
        reasons = [row.reason for row in self.dropped]
        return {reason: reasons.count(reason) for reason in DropReason if reason in reasons}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values under the attributes' names."""
        return {
            "vendor": self.vendor,
            "kind": str(self.kind),
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "actions": {str(action): count for action, count in self.actions.items()},
            "dropped": [asdict(row) | {"reason": str(row.reason)} for row in self.dropped],
            "examples": [
                asdict(example) | {"actions": [str(action) for action in example.actions]}
                for example in self.examples
            ],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "RepairReport":
        """The report that `to_json` wrote."""
        return cls(
            vendor=values["vendor"],
            kind=RowKind(values["kind"]),
            rows_in=values["rows_in"],
            rows_out=values["rows_out"],
            actions={Action(action): count for action, count in values["actions"].items()},
            dropped=tuple(
                DroppedRow(row["line"], DropReason(row["reason"]), row["note"])
                for row in values["dropped"]
            ),
            examples=tuple(
                Example(
                    example["line"],
                    tuple(Action(action) for action in example["actions"]),
                    example["before"],
                    example["after"],
                )
                for example in values["examples"]
            ),
        )
