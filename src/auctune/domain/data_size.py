"""What a look at a data set found: how much there is to train on, and what would be lost of it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from math import floor
from typing import Any, Self

from auctune.domain.dataset import CAUSE_WORDS, CUT_CAUSES, RowKind
from auctune.domain.errors import InputError
from auctune.domain.training import Method, module_notes

MAX_TRUNCATED_SHARE = 0.1
"""Share of rows that may lose their ends without their owner's word."""

FORWARD_COST = 0.5
"""Cost of a token that is only evaluated, in tokens that are trained: with a frozen base, training
takes a forward and a backward pass of about the same cost."""

TOKEN_COST: Mapping[Method, float] = {
    "supervised": 1.0,
    "dpo": 1 + FORWARD_COST,
    "kto": 1 + 3 * FORWARD_COST,
}
"""Cost of a token of a row, by method. The base alone reads a preference too; and to the prompt of
an unpaired one another row's answer is read, both with the adapter and by the base alone."""

_ROWS: Mapping[Method, str] = {
    "supervised": "chats, completions or texts",
    "dpo": 'preferences ("chosen" and "rejected")',
    "kto": 'unpaired preferences ("label")',
}


def method_of(kind: RowKind) -> Method:
    """Return the method that learns from rows of a kind."""
    if kind is RowKind.PREFERENCE:
        return "dpo"
    return "kto" if kind is RowKind.UNPAIRED else "supervised"


def check_method(place: str, method: Method, of_rows: Method) -> None:
    """Check that a method learns from the rows that there are.

    Args:
        place: how errors call the file.
        method: of training.
        of_rows: that learns from such rows.

    Raises:
        InputError: if it is another one.
    """
    if method != of_rows:
        found = f"has {_ROWS[of_rows]}, for method {method!r}"
        raise InputError(place, found, f"{_ROWS[method]}, or method {of_rows!r}")


@dataclass(frozen=True, slots=True)
class DataSize:
    """Rows of a data set that can be trained on, their mean length, and what is lost.

    Attributes:
        rows: that can be trained on.
        mean_tokens: of such a row, truncated to the job's length, > 0.
        num_truncated: rows among them that lose their ends.
        dropped: other rows, which have nothing to learn: how many, by `DropCause`.
        longest: tokens of the longest row as it stands in the file; 0 if nothing is lost.
        context_tokens: the longest row that the base can read, if that is shorter; else `None`.
        validation: of the job's validation data, or `None`.
        method: that learns from such rows.
        square_tokens: mean of the squares of the rows' tokens, by which attention takes time; 0: as
            of rows of equal length, in logs of earlier releases.
    """

    rows: int
    mean_tokens: float
    num_truncated: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    longest: int = 0
    context_tokens: int | None = None
    validation: "DataSize | None" = None
    method: Method = "supervised"
    square_tokens: float = 0.0

    @classmethod
    def of(
        cls,
        rows: int,
        mean_tokens: float,
        num_truncated: int,
        dropped: Mapping[str, int],
        longest: int,
        context_tokens: int | None,
        *,
        method: Method = "supervised",
        square_tokens: float = 0.0,
    ) -> Self:
        """Return a size; `context_tokens` is the longest row of the base, `None`: any length."""
        size = cls(rows, mean_tokens, method=method, square_tokens=square_tokens)
        if not (num_truncated or dropped):
            return size
        is_beyond = context_tokens is not None and longest > context_tokens
        return replace(
            size,
            num_truncated=num_truncated,
            dropped=dropped,
            longest=longest,
            context_tokens=context_tokens if is_beyond else None,
        )

    def samples(self, epochs: int, sample_tokens: float) -> float:
        """Return the work of so many epochs, in samples of so many tokens, validation included."""
        work = self.rows * epochs * self.mean_tokens / sample_tokens
        return work + self._validation_cost * epochs / sample_tokens

    def total_rows(self, epochs: int) -> int:
        """Return the rows of a job: those of its data and its validation data, in each epoch."""
        return (self.rows + self.validation_rows) * epochs

    def rows_of(self, tokens: float, epochs: int) -> int:
        """Return how many of a job's rows an amount of work covers.

        An epoch's rows are trained first, then its validation data are evaluated.

        Args:
            tokens: the work since the job's first row, in tokens trained.
            epochs: of the job.
        """
        if not self.validation_rows:
            return min(self.total_rows(epochs), floor(tokens / self.mean_tokens))
        passed = min(epochs, floor(tokens / self._epoch_cost))
        rest = tokens - passed * self._epoch_cost
        rows = min(self.rows, floor(rest / self.mean_tokens))
        if rows == self.rows:
            rest -= rows * self.mean_tokens
            rows += max(0, floor(rest * self.validation_rows / self._validation_cost))
        return min(self.total_rows(epochs), self.total_rows(passed) + rows)

    def share_of(self, rows: int, epochs: int) -> float:
        """Return the share of a job's work that its first `rows` rows are, up to 1."""
        if not self.validation_rows:
            total = self.total_rows(epochs)
            return min(1.0, rows / total) if total else 1.0
        trained, validated = split_rows(rows, self.rows, self.validation_rows)
        row_cost = self._validation_cost / self.validation_rows
        done = trained * self.mean_tokens + validated * row_cost
        return min(1.0, done / (epochs * self._epoch_cost))

    @property
    def evaluation_cost(self) -> float:
        """Cost of a token of `mean_tokens` that is only evaluated, in tokens that are trained."""
        # Mean tokens count by what they cost in training, of which a half is the backward pass.
        return 1 - FORWARD_COST / TOKEN_COST[self.method]

    @property
    def mean_square(self) -> float:
        """Mean of the squares of the rows' tokens."""
        return self.square_tokens or self.mean_tokens**2

    @property
    def validation_rows(self) -> int:
        """Rows of the validation data."""
        return 0 if self.validation is None else self.validation.rows

    @property
    def validation_row_cost(self) -> float:
        """Cost of evaluating a row of the validation data, in rows that are trained."""
        return self._validation_cost / max(1, self.validation_rows) / self.mean_tokens

    @property
    def _validation_cost(self) -> float:
        """Cost of evaluating the validation data once, in tokens trained."""
        if self.validation is None:
            return 0.0
        return self.validation.evaluation_cost * self.validation.rows * self.validation.mean_tokens

    @property
    def _epoch_cost(self) -> float:
        return self.rows * self.mean_tokens + self._validation_cost

    @property
    def num_too_long(self) -> int:
        """Rows that lose their ends, or all that is to be learnt, to `max_length`."""
        return self.num_truncated + sum(self.dropped.get(cause, 0) for cause in CUT_CAUSES)

    @property
    def num_examined(self) -> int:
        return self.rows + sum(self.dropped.values())

    def check_method(self, place: str, method: Method) -> None:
        """Check that a method learns from the rows, as the function `check_method`."""
        check_method(place, method, self.method)

    @property
    def has_too_many_long(self) -> bool:
        """Return whether more rows than `MAX_TRUNCATED_SHARE` lose something to `max_length`."""
        return self.num_too_long > MAX_TRUNCATED_SHARE * self.num_examined

    def check_truncation(self, place: str, max_length: int, *, truncate: bool) -> None:
        """Refuse data that would lose too many ends: a model learns from ends where to stop.

        Args:
            place: how errors call the file.
            max_length: tokens of a row at most.
            truncate: whether the owner wants it so.

        Raises:
            InputError: if more than `MAX_TRUNCATED_SHARE` of the rows would be truncated.
        """
        if truncate or not self.has_too_many_long:
            return
        counted = f"{self.num_too_long} of {self.num_examined}"
        raise InputError(
            place,
            f"rows longer than {self._limit(max_length)} would be truncated: {counted}",
            f"at most {MAX_TRUNCATED_SHARE:.0%}: {self._remedy}; or truncate = true (--set"
            " truncate=true), to train on truncated rows",
        )

    def notes(self, max_length: int) -> tuple[str, ...]:
        """Return what the data's owner should know, in sentences."""
        return tuple(self._notes(max_length))

    def work_notes(self, epochs: int, *, in_each_slot: bool = False) -> tuple[str, ...]:
        """Return what a job with validation data is charged for, in a sentence.

        Args:
            epochs: of the job.
            in_each_slot: whether it is validated at the end of each slot, and not of each epoch.
        """
        if self.validation is None:
            return ()
        tokens = self.rows * self.mean_tokens
        of_validation = self.validation.rows * self.validation.mean_tokens
        times = "in each slot" if in_each_slot else f"x {epochs}"
        share = self._validation_cost / of_validation
        return (
            f"work: training {tokens:,.0f} tokens x {epochs},"
            f" validation {of_validation:,.0f} tokens {times};"
            f" a validation token counts as {share:.2g} training tokens",
        )

    def _notes(self, max_length: int) -> Iterator[str]:
        if self.num_truncated:
            counted = f"{self.num_truncated} of {self.num_examined}"
            limit = self._limit(max_length)
            yield f"rows longer than {limit} are truncated: {counted}; {self._remedy}"
        if self.dropped:
            counted = f"{sum(self.dropped.values())} of {self.num_examined}"
            causes = (f"{count} {CAUSE_WORDS[cause]}" for cause, count in self.dropped.items())
            yield f"rows without training targets are skipped: {counted} ({', '.join(causes)})"
        if self.validation is not None:
            yield from (f"validation data: {note}" for note in self.validation.notes(max_length))

    def _limit(self, max_length: int) -> str:
        if self.context_tokens is not None and self.context_tokens < max_length:
            return f"the base's context of {self.context_tokens}"
        return f"max_length = {max_length}"

    @property
    def _remedy(self) -> str:
        if self.context_tokens is None:
            return f"with max_length = {self.longest} no row is truncated"
        return (
            f"the longest has {self.longest} tokens, and the base reads at most"
            f" {self.context_tokens}: split long rows"
        )

    def to_record(self) -> dict[str, Any]:
        """Return plain values; what is as by default is left out."""
        record: dict[str, Any] = {"rows": self.rows, "mean_tokens": self.mean_tokens}
        for one in fields(self)[2:]:
            value = getattr(self, one.name)
            if value and value != one.default:
                record[one.name] = value.to_record() if isinstance(value, DataSize) else value
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the size that `to_record` wrote, also that of an earlier release."""
        given = dict(record)
        if given.pop("has_pairs", False):
            given["method"] = "dpo"
        if (validation := given.get("validation")) is not None:
            given["validation"] = cls.from_record(validation)
        return cls(**given)


def job_notes(
    size: DataSize,
    *,
    epochs: int,
    max_length: int,
    target_modules: Iterable[str],
    in_each_slot: bool = False,
) -> tuple[str, ...]:
    """Return what a job's owner should know of its work, its data and its adapter, in sentences."""
    return (
        *size.work_notes(epochs, in_each_slot=in_each_slot),
        *size.notes(max_length),
        *module_notes(target_modules),
    )


def split_rows(rows: int, num_rows: int, num_validation_rows: int) -> tuple[int, int]:
    """Return how many of a job's first `rows` rows are trained, and how many only evaluated.

    Args:
        rows: from the first epoch on; an epoch's validation rows follow the rows of its data.
        num_rows, num_validation_rows: of the data and of the validation data.
    """
    epochs, rest = divmod(rows, num_rows + num_validation_rows)
    return (
        epochs * num_rows + min(rest, num_rows),
        epochs * num_validation_rows + max(0, rest - num_rows),
    )
