"""The built-in vendor: repairs what can be repaired, drops the other rows, and reports on each.

Read, parse, shape, clean; choose the kind of most rows and rewrite the others as it; then drop rows
that are empty, too short or too long, in an unwanted language, or duplicates. The same file and
parameters give the same bytes, and a repaired file comes back unchanged.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from auctune.domain import InputError, Money, Quote
from auctune.domain.dataset import RowKind
from auctune.domain.money import STEP, ZERO
from auctune.engine.vendors.cleaning import clean_row, convert_row, end_with_answer, has_content
from auctune.engine.vendors.duplicates import DuplicateFilter
from auctune.engine.vendors.language import check_languages, identify_language
from auctune.engine.vendors.reading import RawRow, parse_or_repair, read_raw_rows
from auctune.engine.vendors.report import (
    Action,
    DroppedRow,
    DropReason,
    Example,
    RepairReport,
)
from auctune.engine.vendors.schema import CONTEXT, ShapedRow, shape_row, unsupported_part
from auctune.files.atomic import write_atomically

BUILTIN_VENDOR = "builtin"
EXAMPLES_PER_ACTION = 3
EXAMPLE_CHARACTERS = 160


@dataclass(frozen=True, slots=True)
class RepairParams:
    """Prices of a repair vendor, and the rows that it keeps.

    Attributes:
        name: the vendor's name in quotes and receipts.
        price: money for an order.
        price_per_row: money for each row found in the file.
        delay: slots that the work takes, whatever the size.
        min_characters, max_characters: of a row's texts together, blanks not counted.
        languages: ISO 639 codes to keep; empty: all. Rows too short to judge are kept.
        similarity: Jaccard similarity in (0, 1] from which on a row is a near-duplicate.
        kind: of the rows written; None: the kind that most rows have.
        seed: of the near-duplicate search.
    """

    name: str = BUILTIN_VENDOR
    price: Money = ZERO
    price_per_row: Money = ZERO
    delay: int = 1
    min_characters: int = 2
    max_characters: int = 100_000
    languages: tuple[str, ...] = ()
    similarity: float = 0.9
    kind: RowKind | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.name:
            raise InputError("name", "is empty", "a name")
        if self.kind is RowKind.PREFERENCE:
            raise InputError("kind", f"{self.kind}", "chat, completion or text")
        for name in ("price", "price_per_row"):
            amount: Decimal = getattr(self, name)
            if not amount.is_finite() or amount < 0:
                raise InputError(name, f"{amount}", "an amount of money >= 0")
        if self.delay < 0:
            raise InputError("delay", f"{self.delay}", "a number of slots >= 0")
        if not 1 <= self.min_characters <= self.max_characters:
            raise InputError(
                "min_characters", f"{self.min_characters}", f"1 to {self.max_characters}"
            )
        if not (math.isfinite(self.similarity) and 0 < self.similarity <= 1):
            raise InputError("similarity", f"{self.similarity}", "a number in (0, 1]")
        check_languages(self.languages, "languages")


class RepairVendor:
    """A vendor that works in the calling process."""

    def __init__(self, params: RepairParams | None = None) -> None:
        self._params = params or RepairParams()

    @property
    def name(self) -> str:
        """The vendor's name."""
        return self._params.name

    def quote(self, path: Path) -> Quote | None:
        """Return the price by rows found, and the delay; None if no usable row would remain.

        Raises:
            InputError: if the file cannot be read.
        """
        sound = select_rows(path, self._params)
        if not sound.drafts:
            return None
        price = self._params.price + self._params.price_per_row * sound.rows_in
        return Quote(self.name, price.quantize(STEP), self._params.delay)

    def repair(self, source: Path, target: Path) -> RepairReport:
        """Write the repaired rows to `target`, whole or not at all.

        Raises:
            InputError: if `source` cannot be read, or no usable row would remain.
        """
        repair = repair_rows(source, self._params)
        if not repair.rows:
            raise InputError(str(source), repair.why_empty, "a data set that can be repaired")
        lines = [json.dumps(row, ensure_ascii=False) for row in repair.rows]
        write_atomically(target, ("\n".join(lines) + "\n").encode())
        return repair.to_report(self.name)


@dataclass(frozen=True, slots=True)
class Draft:
    """A row in progress: its source, its present form, and what was done to it so far."""

    raw: RawRow
    row: ShapedRow
    actions: frozenset[Action]

    @property
    def parts(self) -> tuple[str, ...]:
        """Its texts in order."""
        return tuple(text for _, text in self.row.texts)

    @property
    def identity(self) -> tuple[str, ...]:
        """Its texts for comparing duplicates; weight 0 and 1 make two different messages."""
        return tuple(f"0 {text}" if part == CONTEXT else text for part, text in self.row.texts)


@dataclass(frozen=True, slots=True)
class Repair:
    """Clean rows in the order of their lines, and the rows that were dropped."""

    kind: RowKind
    rows_in: int
    drafts: tuple[Draft, ...]
    dropped: tuple[DroppedRow, ...]

    @property
    def why_empty(self) -> str:
        """Why no row is left: the most frequent reason."""
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
        """Return the report of this repair, under the vendor's name."""
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
    """Return all usable rows of a file, repaired and without duplicates.

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
    """Like `repair_rows`, but with duplicates: quicker, and empty in the same cases.

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
    parsed = parse_or_repair(raw.text)
    if parsed is None:
        return DroppedRow(raw.line, DropReason.NOT_JSON, _shorten(raw.text))
    unsupported = unsupported_part(parsed.value)
    if unsupported is not None:
        return DroppedRow(raw.line, DropReason.UNSUPPORTED, unsupported)
    shaped = shape_row(parsed.value)
    if shaped is None:
        return DroppedRow(raw.line, DropReason.UNKNOWN_SCHEMA, _shorten(raw.text))
    cleaned = clean_row(shaped)
    answered = end_with_answer(cleaned)
    done = {
        Action.ENCODING: raw.recoded,
        Action.JSON: parsed.repaired,
        Action.SCHEMA: shaped.to_json() != parsed.value,
        Action.TEXT: cleaned != shaped,
        Action.TURNS: answered != cleaned,
    }
    return Draft(raw, answered, frozenset(action for action, did in done.items() if did))


def _choose_kind(drafts: Sequence[Draft]) -> RowKind:
    """Return the kind of most rows with content; ties go by the order of `RowKind`."""
    counts = Counter(draft.row.kind for draft in drafts if has_content(draft.row))
    return max(RowKind, key=lambda kind: counts[kind])


def _unify(draft: Draft, kind: RowKind) -> Draft | DroppedRow:
    """Return the row as one of `kind`, if it has content."""
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
    """Return the row as one of `kind`, or why it is dropped, whatever other rows there are."""
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
    """Yield the first rows that show each action, a few for each."""
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
