"""Rows of text as tokens, and which of the tokens are targets of the loss.

| kind | tokens | targets |
| --- | --- | --- |
| text | start, text, end | all but the first |
| completion | start, prompt, completion, end | completion and end |
| chat | the tokenizer's chat template, else `ROLE: CONTENT` lines | the assistant's messages |
| preference | as two chats, with the one answer and with the other | the answers |
| unpaired preference | as a chat | the answer |

`start` is whatever the tokenizer itself puts before a text (nothing for GPT-2, <s> for Llama),
`end` its end-of-text token. auctune.train.chat says which part of a chat by template is the
assistant's. The plain form ends a line with a newline, the assistant's with the end-of-text token.
A message of weight 0 is context, without targets. Control tokens in a chat's messages are text
(auctune.train.control_tokens); in rows of other kinds they are tokens.

A row longer than `max_length` is truncated at its end. A row without targets left is dropped and
counted, with the reason: it could only add padding. Cutting the prompt instead would train answers
to other questions.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from auctune.domain.data_size import TOKEN_COST, DataSize
from auctune.domain.dataset import (
    CAUSE_WORDS,
    CUT_CAUSES,
    OUTPUT_KEYS,
    DataSet,
    DropCause,
    RowKind,
    is_context,
)
from auctune.domain.errors import InputError
from auctune.domain.training import Method
from auctune.train.control_tokens import ControlTokens, unused_characters

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

IGNORE_INDEX = -100


Piece = tuple[list[int], list[bool]]
"""Token ids of a text, and for each whether it is a target."""

Pieces = tuple[Piece, ...]
"""Texts of a row: two of a pair, the better answer first, else one."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenizedRow:
    """One row of n tokens.

    Attributes:
        input_ids: int64, (n,).
        labels: int64, (n,): the token itself where it is a target, else -100. As each token is
            predicted from those before it, the first never is.
        second: place where the chat with the worse answer begins, in the tokens of a pair; 0 of a
            row that is no pair.
        rating: 1 of an answer that is liked, -1 of one that is not; 0 of other rows.
    """

    input_ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    second: int = 0
    rating: int = 0

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def num_trained_tokens(self) -> int:
        """Tokens that the loss is taken over."""
        return int(np.count_nonzero(self.labels != IGNORE_INDEX))


@dataclass(frozen=True)
class TokenizedDataSet:
    """The rows that can be trained on, and the reasons why others were dropped.

    Attributes:
        rows: in the file's order.
        dropped: reasons of the rows without targets, by index in the file.
        num_truncated: rows kept that were longer than the length allowed.
        longest: tokens of the longest row as it stands in the file.
    """

    rows: Sequence[TokenizedRow]
    dropped: Mapping[int, DropCause] = field(default_factory=dict)
    num_truncated: int = 0
    longest: int = 0

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def num_tokens(self) -> int:
        """Tokens of all rows, prompts included."""
        return sum(map(len, self.rows))

    @cached_property
    def square_tokens(self) -> int:
        """Sum of the squares of the tokens of all rows; the two of a pair count by themselves."""
        return sum(row.second**2 + (len(row) - row.second) ** 2 for row in self.rows)

    @cached_property
    def num_trained_tokens(self) -> int:
        """Tokens of all rows that the loss is taken over."""
        return sum(row.num_trained_tokens for row in self.rows)

    @cached_property
    def method(self) -> Method:
        """The method that learns from such rows."""
        if len(self.rows) == 0:
            return "supervised"
        return "dpo" if self.rows[0].second else "kto" if self.rows[0].rating else "supervised"

    @property
    def mean_tokens(self) -> float:
        """Tokens of a row on average as they count in time: what converts samples into tokens."""
        return self.num_tokens / len(self.rows) * TOKEN_COST[self.method]

    def check_rows(self, max_length: int, context_tokens: int | None = None) -> None:
        """Check that there is a row to train on.

        Args:
            max_length: tokens of a row at most.
            context_tokens: the longest row that the base can read; `None`: not limited, or unknown.

        Raises:
            InputError: if no row has anything left to learn within `max_length`.
        """
        if not self.rows:
            raise _nothing_to_learn(self.dropped, max_length, self.longest, context_tokens)

    def size(self, context_tokens: int | None) -> DataSize:
        """Return how much there is to train on and what is lost; argument as of `check_rows`."""
        dropped = Counter(map(str, self.dropped.values()))
        return DataSize.of(
            len(self),
            self.mean_tokens,
            self.num_truncated,
            dropped,
            self.longest,
            context_tokens,
            method=self.method,
            square_tokens=self.square_tokens / len(self) * TOKEN_COST[self.method],
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 over tokens and labels of all rows in their order."""
        total = hashlib.sha256()
        for row in self.rows:
            total.update(len(row).to_bytes(8, "little"))
            total.update(row.input_ids.astype("<i8").tobytes())
            total.update(row.labels.astype("<i8").tobytes())
            if row.second:
                total.update(row.second.to_bytes(8, "little"))
            if row.rating:
                total.update(b"liked" if row.rating > 0 else b"not liked")
        return total.hexdigest()


def tokenize(
    dataset: DataSet, tokenizer: "PreTrainedTokenizerBase", max_length: int
) -> TokenizedDataSet:
    """Return all rows of `dataset` as tokens, none longer than `max_length`.

    Raises:
        InputError: if no row has anything left to learn within `max_length`, or a row does not
            fit the tokenizer's chat template.
    """
    data = tokenize_chunk(dataset, tokenizer, max_length)
    data.check_rows(max_length)
    return data


def tokenize_chunk(
    dataset: DataSet, tokenizer: "PreTrainedTokenizerBase", max_length: int, first: int = 0
) -> TokenizedDataSet:
    """Tokenize some rows of a data set, of which none may have anything left to learn.

    Args:
        dataset: the rows.
        tokenizer, max_length: as of `tokenize`.
        first: place of the first row in the whole data set, from 0.
    """
    rows: list[TokenizedRow] = []
    dropped: dict[int, DropCause] = {}
    num_truncated = longest = 0
    for index, pieces in enumerate(row_pieces(dataset, tokenizer)):
        length = max(len(ids) for ids, _ in pieces)
        longest = max(longest, length)
        row = cut_row(dataset.rows[index], pieces, max_length)
        if isinstance(row, DropCause):
            dropped[first + index] = row
        else:
            rows.append(row)
            num_truncated += length > max_length
    return TokenizedDataSet(tuple(rows), dropped, num_truncated, longest)


def cut_row(row: Mapping[str, Any], pieces: Pieces, max_length: int) -> TokenizedRow | DropCause:
    """Return a row as it is trained on, or why it is dropped.

    Args:
        row: as `DataSet` has it.
        pieces: its tokens, at any length.
        max_length: of each piece at most.
    """
    parts = [_truncate(piece, max_length) for piece in pieces]
    for piece, part in zip(pieces, parts, strict=True):
        if not part.num_trained_tokens:
            return _drop_cause(row, piece)
    if len(parts) == 1:
        return replace(parts[0], rating=1 if row["label"] else -1) if "label" in row else parts[0]
    if np.array_equal(parts[0].input_ids, parts[1].input_ids):
        return DropCause.SAME_ANSWERS
    return join_pair(*parts)


def _drop_cause(row: Mapping[str, Any], piece: Piece) -> DropCause:
    if any(piece[1][1:]):
        return DropCause.PROMPT_TOO_LONG
    assistants = [one for one in row.get("messages", ()) if one["role"] == "assistant"]
    is_chat = OUTPUT_KEYS[0] not in row
    if is_chat and assistants and all(is_context(one) for one in assistants):
        return DropCause.WEIGHTS_ZERO
    return DropCause.NO_TARGET


def _nothing_to_learn(
    dropped: Mapping[int, DropCause], max_length: int, longest: int, context_tokens: int | None
) -> InputError:
    counts = Counter(dropped.values())
    why = ", ".join(f"{count} {CAUSE_WORDS[cause]}" for cause, count in counts.items())
    found = f"none of {len(dropped)} has a token to learn within max_length = {max_length} ({why})"
    if any(counts[cause] for cause in CUT_CAUSES):
        if context_tokens is None:
            expected = f"shorter rows, or max_length = {longest} if the base reads that much"
        elif longest > context_tokens:
            expected = f"shorter rows: the base reads {context_tokens} tokens at most"
        else:
            expected = f"max_length = {longest}, or shorter rows"
        return InputError("rows", found, expected)
    return InputError("rows", found, "an answer to learn in each row")


def prompt_tokens(kind: RowKind, prompt: str, tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    """Return the tokens of a prompt, in the form of the rows of this kind.

    Of a chat it is the user's only message, and the assistant's turn has begun; else it is the
    beginning of a text, or a completion's prompt.
    """
    if kind is RowKind.CHAT:
        return chat_prompt_tokens([{"role": "user", "content": prompt}], (), tokenizer)
    encoded = tokenizer(prompt, add_special_tokens=False, verbose=False)
    return _start_tokens(tokenizer) + list(encoded["input_ids"])


def chat_prompt_tokens(
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    tokenizer: "PreTrainedTokenizerBase",
) -> list[int]:
    """Return the tokens of a chat's messages, with the assistant's turn begun.

    Args:
        messages, tools: as `DataSet` has them, without the answer.
        tokenizer: of the base.

    Raises:
        InputError: if the base's chat template refuses them, or does not show all of them.
    """
    if tokenizer.chat_template:
        from auctune.train.chat import ChatTemplate

        return ChatTemplate(tokenizer).prompt(messages, tools)
    _refuse_unshown(messages, tools)
    ids, _ = _plain_chat(messages, tokenizer, _ControlFree(tokenizer))
    return ids + list(tokenizer("assistant:", add_special_tokens=False)["input_ids"])


def turn_end_tokens(tokenizer: "PreTrainedTokenizerBase") -> frozenset[int]:
    """Return the control tokens that end the assistant's turn in chats by template."""
    if not tokenizer.chat_template or not tokenizer.is_fast:
        return frozenset()
    from auctune.train.chat import ChatTemplate

    return ChatTemplate(tokenizer).end_tokens()


def _truncate(piece: Piece, max_length: int) -> TokenizedRow:
    ids = np.array(piece[0][:max_length], dtype=np.int64)
    is_target = np.array(piece[1][:max_length], dtype=bool)
    is_target[:1] = False
    return TokenizedRow(ids, np.where(is_target, ids, IGNORE_INDEX))


def join_pair(better: TokenizedRow, worse: TokenizedRow) -> TokenizedRow:
    """Return two rows as one pair."""
    return TokenizedRow(
        np.concatenate([better.input_ids, worse.input_ids]),
        np.concatenate([better.labels, worse.labels]),
        second=len(better),
    )


def mismatch(row: TokenizedRow, other: TokenizedRow, max_length: int) -> TokenizedRow:
    """Return a row's prompt with another row's answer, both of which end with their answers."""
    begin, answer = (int(np.argmax(one.labels != IGNORE_INDEX)) for one in (row, other))
    return TokenizedRow(
        np.concatenate([row.input_ids[:begin], other.input_ids[answer:]])[:max_length],
        np.concatenate([row.labels[:begin], other.labels[answer:]])[:max_length],
    )


def split_pair(row: TokenizedRow) -> tuple[TokenizedRow, TokenizedRow]:
    """Return the row with the better answer of a pair, and that with the worse one."""
    first, second = slice(None, row.second), slice(row.second, None)
    return (
        TokenizedRow(row.input_ids[first], row.labels[first]),
        TokenizedRow(row.input_ids[second], row.labels[second]),
    )


def row_pieces(dataset: DataSet, tokenizer: "PreTrainedTokenizerBase") -> Iterator[Pieces]:
    """Yield the tokens of each row, at any length.

    Raises:
        InputError: if a row does not fit the tokenizer's chat template.
    """
    if dataset.kind is not RowKind.PREFERENCE:
        yield from ((piece,) for piece in _PIECES[dataset.kind](dataset, tokenizer))
        return
    # Chats one after the other, as the places of rows are needed for errors.
    for index, row in enumerate(dataset.rows):
        rest = {key: value for key, value in row.items() if key not in OUTPUT_KEYS}
        chats = tuple(rest | {"messages": [*row["messages"], row[key]]} for key in OUTPUT_KEYS)
        places = dataset.places[index : index + 1] * len(chats)
        yield tuple(_chat_pieces(DataSet(RowKind.CHAT, chats, places), tokenizer))


def _text_pieces(dataset: DataSet, tokenizer: "PreTrainedTokenizerBase") -> Iterator[Piece]:
    start, end = _start_tokens(tokenizer), _end_tokens(tokenizer)
    # Not verbose: a row longer than the model's context is cut, so no warning of it is due.
    encoded = tokenizer(
        [row["text"] for row in dataset.rows], add_special_tokens=False, verbose=False
    )
    for ids in encoded["input_ids"]:
        yield (tokens := start + ids + end), [True] * len(tokens)


def _completion_pieces(dataset: DataSet, tokenizer: "PreTrainedTokenizerBase") -> Iterator[Piece]:
    start, end = _start_tokens(tokenizer), _end_tokens(tokenizer)
    for row in dataset.rows:
        prompt, completion = _split_tokens(row["prompt"], row["completion"], tokenizer)
        prompt, completion = start + prompt, completion + end
        yield prompt + completion, [False] * len(prompt) + [True] * len(completion)


def _split_tokens(
    prompt: str, completion: str, tokenizer: "PreTrainedTokenizerBase"
) -> tuple[list[int], list[int]]:
    """Tokens of a prompt and of its completion.

    The two are tokenized as one text where a token ends between them, since some tokenizers mark
    the start of any text with a space. Else each on its own, as in use.
    """
    if tokenizer.is_fast:
        joint = _with_offsets(prompt + completion, tokenizer)
        ids, offsets = joint["input_ids"], joint["offset_mapping"]
        num_prompt = sum(first < len(prompt) for first, _ in offsets)
        if all(last <= len(prompt) for _, last in offsets[:num_prompt]):
            return ids[:num_prompt], ids[num_prompt:]
    first, second = (
        tokenizer(text, add_special_tokens=False)["input_ids"] for text in (prompt, completion)
    )
    return first, second


def _chat_pieces(dataset: DataSet, tokenizer: "PreTrainedTokenizerBase") -> Iterator[Piece]:
    if not tokenizer.chat_template:
        texts = _ControlFree(tokenizer)
        for index, row in enumerate(dataset.rows):
            try:
                _refuse_unshown(row["messages"], row.get("tools", ()))
                yield _plain_chat(row["messages"], tokenizer, texts)
            except InputError as error:
                raise error.within(dataset.place(index)) from None
        return
    # Its imports take seconds, which rows of other kinds do not need.
    from auctune.train.chat import ChatTemplate

    template = ChatTemplate(tokenizer)
    for index, row in enumerate(dataset.rows):
        yield template.tokenize(row["messages"], row.get("tools", ()), dataset.place(index))


def _refuse_unshown(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> None:
    if tools or any("tool_calls" in one or one["role"] == "tool" for one in messages):
        expected = "messages without tools, or a base whose chat template knows them"
        raise InputError("messages", "has tools, and the base no chat template", expected)
    if any("reasoning_content" in one for one in messages):
        expected = "messages without it, or a base whose chat template shows it"
        found = "has reasoning_content, and the base no chat template"
        raise InputError("messages", found, expected)


class _ControlFree:
    """Tokenizes contents without a template, control tokens in them as text."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._tokenizer = tokenizer
        self._control = ControlTokens(tokenizer)

    def split_tokens(self, head: str, body: str) -> tuple[list[int], list[int]]:
        """Return the tokens of two texts, of which the second is somebody's words."""
        if next(self._control.find(body), None) is None:
            return _split_tokens(head, body, self._tokenizer)
        if not self._tokenizer.is_fast:
            found = "has a control token of the base in its text"
            raise InputError("messages", found, "rows without it, or a base with a fast tokenizer")
        unused = unused_characters(head + body)
        breaker, anchor = next(unused), next(unused)
        text = head + self._control.protect(body, breaker)
        ids, places = self._control.encode(text, breaker, anchor)
        num_head = int((places[:, 0] < len(head)).sum())
        return ids[:num_head], ids[num_head:]


def _plain_chat(
    messages: Sequence[Mapping[str, Any]],
    tokenizer: "PreTrainedTokenizerBase",
    texts: _ControlFree,
) -> Piece:
    ids = _start_tokens(tokenizer)
    targets = [False] * len(ids)
    newline = tokenizer("\n", add_special_tokens=False)["input_ids"]
    for message in messages:
        by_assistant = message["role"] == "assistant"
        is_target = by_assistant and not is_context(message)
        head, body = texts.split_tokens(f"{message['role']}:", f" {message['content']}")
        tail = (_end_tokens(tokenizer) if by_assistant else []) or newline
        ids += head + body + tail
        targets += [False] * len(head) + [is_target] * (len(body) + len(tail))
    return ids, targets


def _with_offsets(text: str, tokenizer: "PreTrainedTokenizerBase") -> Any:
    return tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)


def _start_tokens(tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    ids: list[int] = tokenizer("")["input_ids"]
    return ids[:-1] if ids and ids[-1] == tokenizer.eos_token_id else ids


def _end_tokens(tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    return [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]


_PIECES = {
    RowKind.TEXT: _text_pieces,
    RowKind.COMPLETION: _completion_pieces,
    RowKind.CHAT: _chat_pieces,
    RowKind.UNPAIRED: _chat_pieces,
}
