"""The repair itself: from a file of doubtful rows to clean rows and an account of each."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auctune.domain.dataset import RowKind
from auctune.run.vendors.duplicates import DuplicateFilter
from auctune.run.vendors.language import identify_language
from auctune.run.vendors.mending import parse_or_mend
from auctune.run.vendors.raw_rows import RawRow, read_raw_rows
from auctune.run.vendors.repair_params import RepairParams
from auctune.run.vendors.repair_report import (
    Action,
    DroppedRow,
    DropReason,
    Example,
    RepairReport,
)
from auctune.run.vendors.row_cleaning import clean_row, convert_row, has_content
from auctune.run.vendors.schema import CONTEXT, ShapedRow, shape_row, unsupported_part

EXAMPLES_PER_ACTION = 3
EXAMPLE_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class Draft:
    """A row on its way: its source, its present form, and what was done to it so far."""

    raw: RawRow
    row: ShapedRow
    actions: frozenset[Action]

    @property
    def parts(self) -> tuple[str, ...]:
        """Its texts in order."""
        return tuple(text for _, text in self.row.texts)

    @property
    def identity(self) -> tuple[str, ...]:
        """Its texts as duplicates are told by: a message that is not learnt is another one."""
        return tuple(f"0 {text}" if part == CONTEXT else text for part, text in self.row.texts)


@dataclass(frozen=True, slots=True)
class Repair:
    """Clean rows in the order of their lines, and what became of all others."""

    kind: RowKind
    rows_in: int
    drafts: tuple[Draft, ...]
    dropped: tuple[DroppedRow, ...]

    @property
    def why_empty(self) -> str:
        """Why there is no row, by what was found in most."""
        if not self.dropped:
            return "has no usable row: it is empty"
        (reason, note), count = Counter(
            (row.reason, row.note if row.reason is DropReason.UNSUPPORTED else "")
            for row in self.dropped
        ).most_common(1)[0]
        why = note or reason.value.replace("_", " ")
        return f"has no usable row: {why} ({count} of {self.rows_in} rows)"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows to write."""
        return [draft.row.to_json() for draft in self.drafts]

    def to_report(self, vendor: str) -> RepairReport:
        """The account of this repair, in `vendor`'s name."""
        counts = Counter(action for draft in self.drafts for action in draft.actions)
        return RepairReport(
            vendor=vendor,
            kind=self.kind,
            rows_in=self.rows_in,
            rows_out=len(self.drafts),
            actions={action: counts[action] for action in Action if counts[action]},
            dropped=self.dropped,
            examples=tuple(_choose_examples(self.drafts)),
        )


def repair_rows(path: Path, params: RepairParams) -> Repair:
    """All usable rows of a file, repaired, each content once.

    Raises:
        InputError: if the file cannot be read.
    """
    sound = select_rows(path, params)
    duplicates = DuplicateFilter(params.similarity, params.seed)
    outcomes = [_check_duplicate(draft, duplicates) for draft in sound.drafts]
    kept = tuple(outcome for outcome in outcomes if isinstance(outcome, Draft))
    repeated = [outcome for outcome in outcomes if isinstance(outcome, DroppedRow)]
    dropped = sorted((*sound.dropped, *repeated), key=lambda row: row.line)
    return Repair(sound.kind, sound.rows_in, kept, tuple(dropped))


def select_rows(path: Path, params: RepairParams) -> Repair:
    """As `repair_rows`, duplicates still in: quicker, and empty if and only if that is.

    Raises:
        InputError: if the file cannot be read.
    """
    raw_rows = read_raw_rows(path)
    read = [_read_draft(raw) for raw in raw_rows]
    drafts = [draft for draft in read if isinstance(draft, Draft)]
    kind = params.kind or _choose_kind(drafts)
    outcomes = [
        _select(draft, kind, params) if isinstance(draft, Draft) else draft for draft in read
    ]
    kept = tuple(outcome for outcome in outcomes if isinstance(outcome, Draft))
    dropped = tuple(outcome for outcome in outcomes if isinstance(outcome, DroppedRow))
    return Repair(kind, len(raw_rows), kept, dropped)


def _read_draft(raw: RawRow) -> Draft | DroppedRow:
    """Parse, shape and clean one row."""
    parsed = parse_or_mend(raw.text)
    if parsed is None:
        return DroppedRow(raw.line, DropReason.NOT_JSON, _shorten(raw.text))
    unsupported = unsupported_part(parsed.value)
    if unsupported is not None:
        return DroppedRow(raw.line, DropReason.UNSUPPORTED, unsupported)
    shaped = shape_row(parsed.value)
    if shaped is None:
        return DroppedRow(raw.line, DropReason.UNKNOWN_SCHEMA, _shorten(raw.text))
    cleaned = clean_row(shaped)
    done = {
        Action.ENCODING: raw.recoded,
        Action.JSON: parsed.mended,
        Action.SCHEMA: shaped.to_json() != parsed.value,
        Action.TEXT: cleaned != shaped,
    }
    return Draft(raw, cleaned, frozenset(action for action, did in done.items() if did))


def _choose_kind(drafts: Sequence[Draft]) -> RowKind:
    """The kind of most rows with content; of equals the first in the order of `RowKind`."""
    counts = Counter(draft.row.kind for draft in drafts if has_content(draft.row))
    return max(RowKind, key=lambda kind: counts[kind])


def _unify(draft: Draft, kind: RowKind) -> Draft | DroppedRow:
    """The row as one of `kind`, with content."""
    line = draft.raw.line
    if not has_content(draft.row):
        return DroppedRow(line, DropReason.EMPTY, "no text to learn from")
    converted = convert_row(draft.row, kind)
    if converted is None:
        note = f"a {draft.row.kind} row among {kind} rows"
        return DroppedRow(line, DropReason.OTHER_KIND, note)
    if converted == draft.row:
        return draft
    return Draft(draft.raw, clean_row(converted), draft.actions | {Action.KIND})


def _select(draft: Draft, kind: RowKind, params: RepairParams) -> Draft | DroppedRow:
    """The row as one of `kind`, or why it is left out on its own account."""
    unified = _unify(draft, kind)
    if isinstance(unified, DroppedRow):
        return unified
    line, parts = unified.raw.line, unified.parts
    # Blanks do not count: joining texts for another kind adds some.
    characters = sum(len("".join(part.split())) for part in parts)
    if characters < params.min_characters:
        note = f"{characters} characters, fewer than {params.min_characters}"
        return DroppedRow(line, DropReason.TOO_SHORT, note)
    if characters > params.max_characters:
        note = f"{characters} characters, more than {params.max_characters}"
        return DroppedRow(line, DropReason.TOO_LONG, note)
    if params.languages:
        language = identify_language("\n".join(parts))
        if language is not None and language not in params.languages:
            return DroppedRow(line, DropReason.LANGUAGE, language)
    return unified


def _check_duplicate(draft: Draft, duplicates: DuplicateFilter) -> Draft | DroppedRow:
    line, parts = draft.raw.line, draft.identity
    if (first := duplicates.find_exact(parts)) is not None:
        return DroppedRow(line, DropReason.DUPLICATE, f"as line {first}")
    if (first := duplicates.find_near_or_add(parts, line)) is not None:
        return DroppedRow(line, DropReason.NEAR_DUPLICATE, f"nearly as line {first}")
    return draft


def _choose_examples(drafts: Sequence[Draft]) -> Iterator[Example]:
    """The first rows that show an action which is not shown often enough yet."""
    shown: Counter[Action] = Counter()
    for draft in drafts:
        if any(shown[action] < EXAMPLES_PER_ACTION for action in draft.actions):
            shown.update(draft.actions)
            after = json.dumps(draft.row.to_json(), ensure_ascii=False)
            actions = tuple(action for action in Action if action in draft.actions)
            before = _shorten(draft.raw.text)
            yield Example(draft.raw.line, actions, before, _shorten(after))


def _shorten(text: str) -> str:
    text = "".join(c if c.isprintable() else "\ufffd" for c in " ".join(text.split()))
    return text if len(text) <= EXAMPLE_CHARACTERS else text[: EXAMPLE_CHARACTERS - 1] + "…"
