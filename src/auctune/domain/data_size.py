"""What a look at a data set found: how much there is to train on, and what would be lost of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from auctune.domain.dataset import CAUSE_WORDS, CUT_CAUSES
from auctune.domain.errors import InputError
from auctune.domain.training import Method

MAX_TRUNCATED_SHARE = 0.1
"""Share of rows that may lose their ends without their owner's word."""


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
        validation: of the job's validation data, if rows of it lose something; else `None`.
        has_pairs: whether the rows are pairs of answers.
    """

    rows: int
    mean_tokens: float
    num_truncated: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    longest: int = 0
    context_tokens: int | None = None
    validation: "DataSize | None" = None
    has_pairs: bool = False

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
        has_pairs: bool = False,
    ) -> Self:
        """Return a size; `context_tokens` is the longest row of the base, `None`: any length."""
        if not (num_truncated or dropped):
            return cls(rows, mean_tokens, has_pairs=has_pairs)
        is_beyond = context_tokens is not None and longest > context_tokens
        limit = context_tokens if is_beyond else None
        return cls(rows, mean_tokens, num_truncated, dropped, longest, limit, has_pairs=has_pairs)

    def samples(self, epochs: int, sample_tokens: float) -> float:
        """Return the work of so many passes, in samples of so many tokens."""
        return self.rows * epochs * self.mean_tokens / sample_tokens

    @property
    def num_too_long(self) -> int:
        """Rows that lose their ends, or all that is to be learnt, to `max_length`."""
        return self.num_truncated + sum(self.dropped.get(cause, 0) for cause in CUT_CAUSES)

    @property
    def num_examined(self) -> int:
        return self.rows + sum(self.dropped.values())

    def check_method(self, place: str, method: Method) -> None:
        """Check that rows are pairs where a method learns from pairs, and there alone.

        Args:
            place: how errors call the file.
            method: of training.

        Raises:
            InputError: if they are not.
        """
        if self.has_pairs != (method == "dpo"):
            rows = "of pairs" if self.has_pairs else "that are no pairs"
            found = f"has rows {rows}, for method {method!r}"
            expected = "pairs (preferred_output) for method 'dpo', other rows for 'supervised'"
            raise InputError(place, found, expected)

    def check_truncation(self, place: str, max_length: int, *, truncate: bool) -> None:
        """Refuse data that would lose too many ends: a model learns from ends where to stop.

        Args:
            place: how errors call the file.
            max_length: tokens of a row at most.
            truncate: whether the owner wants it so.

        Raises:
            InputError: if more than `MAX_TRUNCATED_SHARE` of the rows would be truncated.
        """
        if truncate or self.num_too_long <= MAX_TRUNCATED_SHARE * self.num_examined:
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
            if value := getattr(self, one.name):
                record[one.name] = value.to_record() if isinstance(value, DataSize) else value
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the size that `to_record` wrote."""
        validation = record.get("validation")
        return cls(
            **{
                **record,
                "validation": None if validation is None else cls.from_record(validation),
            }
        )
