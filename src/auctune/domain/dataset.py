"""Data sets: kinds of rows, rows as read, and why rows are dropped; auctune.datasets reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

DEFAULT_MAX_LENGTH = 2048
"""Tokens of a row at most, where neither job nor zone nor the base's context says otherwise."""

DEFAULT_MAX_ROW_CHARACTERS = 250_000
"""Characters of a row's line at most: some 60,000 tokens, for which a tokenizer takes half a second
on one core. A row is tokenized in one piece, which nothing can interrupt."""

OUTPUT_KEYS = ("preferred_output", "non_preferred_output")
"""Keys of the answers of a preference row, the better one first."""


class RowKind(StrEnum):
    """What the rows of a data set look like."""

    CHAT = "chat"
    COMPLETION = "completion"
    TEXT = "text"
    PREFERENCE = "preference"
    UNPAIRED = "unpaired preference"

    @property
    def of_prompts(self) -> "RowKind":
        """The kind whose prompts are those of such rows: of preferences, that of chats."""
        is_preference = self in (RowKind.PREFERENCE, RowKind.UNPAIRED)
        return RowKind.CHAT if is_preference else self


class DropCause(StrEnum):
    """Why a row has nothing to learn."""

    PROMPT_TOO_LONG = "prompt_too_long"
    """What is to be learnt begins beyond `max_length`."""
    WEIGHTS_ZERO = "weights_zero"
    """All messages of the assistant have weight 0."""
    NO_TARGET = "no_target"
    """There is no token after the first one."""
    SAME_ANSWERS = "same_answers"
    """The answers of a pair do not differ within `max_length`."""


CAUSE_WORDS: Mapping[str, str] = {
    DropCause.PROMPT_TOO_LONG: "with a prompt that fills max_length",
    DropCause.WEIGHTS_ZERO: "with weight 0 on all messages of the assistant",
    DropCause.NO_TARGET: "of one token",
    DropCause.SAME_ANSWERS: "with two answers that differ beyond max_length",
}
"""Causes for people, after a count of rows."""


CUT_CAUSES = (DropCause.PROMPT_TOO_LONG, DropCause.SAME_ANSWERS)
"""Causes that a larger `max_length` removes."""


def is_context(message: Mapping[str, Any]) -> bool:
    """Return whether an assistant's message is context, without targets."""
    return message.get("weight") == 0


@dataclass(frozen=True, slots=True)
class DataSet:
    """Rows of one kind, as read from a file.

    Attributes:
        kind: of all rows.
        rows: with the keys of their kind alone. A chat has `messages`, and `tools` if the file
            has some. A message has `role` and `content`, `name`, `tool_calls` and `tool_call_id`
            and `reasoning_content` if the file has them, and `weight` if that is 0. Arguments of
            calls are objects. A preference has the chat before the answers, of context alone, and
            the answer of each of `OUTPUT_KEYS`, a message. An unpaired one is a chat, of context
            but for its last message, and has `label`: whether that is liked.
        places: of rows in the file ("line 3"); empty for rows of no file.
    """

    kind: RowKind
    rows: tuple[dict[str, Any], ...]
    places: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, index: int) -> str:
        """Return how errors call a row."""
        return self.places[index] if self.places else f"rows[{index}]"
