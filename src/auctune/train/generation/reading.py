"""Requests as tokens: prompts and rows are read before anything is computed, for any engine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, GenerationConfig, PreTrainedTokenizerBase

from auctune.datasets import read_dataset
from auctune.domain.dataset import DEFAULT_MAX_ROW_CHARACTERS, DataSet, RowKind
from auctune.domain.errors import InputError
from auctune.domain.evaluation import Question
from auctune.domain.generation import GenerationRequest, Request, RequestSize, ScoreRequest
from auctune.train.base import Base
from auctune.train.generation.scoring import check_scorable, read_questions
from auctune.train.rows import (
    TokenizedDataSet,
    chat_prompt_tokens,
    prompt_tokens,
    tokenize_chunk,
    turn_end_tokens,
)
from auctune.train.tokenizer import find_source, load_tokenizer, loading

# Tokens of an answer of a base without a context limit.
_UNLIMITED = 10**12
# More than real texts have a token with any tokenizer.
_TOKEN_BYTES = 64


@dataclass(frozen=True, slots=True)
class ReadRows:
    """Rows with their tokens, and the first questions among them."""

    rows: TokenizedDataSet
    questions: tuple[Question, ...]


ReadRequest = tuple[Request, "list[int] | ReadRows"]
"""A request, and the tokens of its prompt, or its rows."""


@dataclass(frozen=True, slots=True)
class RequestReader:
    """Reads requests to a base; on any thread.

    Attributes:
        tokenizer: of the base.
        ends: tokens that end an answer: the tokenizer's, those of the base's settings, and those
            that end the assistant's turn in training.
        vocab_size: number of the base's tokens.
        context_tokens: tokens of a prompt and its answer at most; None: not limited.
        row_tokens: tokens of a row at most, likewise.
        token_bytes: bytes of text that a token stands for at most.
    """

    tokenizer: PreTrainedTokenizerBase
    ends: frozenset[int]
    vocab_size: int
    context_tokens: int | None
    row_tokens: int | None
    token_bytes: int

    @classmethod
    def of(cls, base: Base) -> "RequestReader":
        """Return the reader of a base that is loaded."""
        return cls(
            base.tokenizer,
            end_tokens(base.tokenizer, base.model.generation_config),
            base.model.config.vocab_size,
            base.context_tokens,
            base.context_tokens,
            _max_token_bytes(base.tokenizer),
        )

    @classmethod
    def without_base(cls, name: str, *, cache: Path) -> "RequestReader":
        """Return the reader of a base whose weights another process loads.

        Raises:
            InputError: as `load_tokenizer`.
        """
        tokenizer, context = load_tokenizer(name, cache=cache)
        source, local = find_source(name, cache)
        with loading(f"base {name!r}"):
            config = AutoConfig.from_pretrained(source, local_files_only=local)
            try:
                settings = GenerationConfig.from_pretrained(source, local_files_only=local)
            except OSError:
                # There is no file of them: as for a model that is loaded.
                settings = GenerationConfig.from_model_config(config)
        ends, size = end_tokens(tokenizer, settings), _max_token_bytes(tokenizer)
        return cls(tokenizer, ends, config.vocab_size, context, context, size)

    def read(
        self, request: Request, is_cancelled: Callable[[], bool] = lambda: False
    ) -> ReadRequest | None:
        """Return a request with its tokens.

        Rows can take half a second each: None if the request is cancelled meanwhile.

        Raises:
            InputError: if its prompt or its rows cannot be used.
        """
        if isinstance(request, GenerationRequest):
            return request, self._tokenize(request)
        rows = self._read_rows(request, is_cancelled)
        return None if rows is None else (request, rows)

    def measure(
        self, request: Request, is_cancelled: Callable[[], bool] = lambda: False
    ) -> RequestSize:
        """Return how many tokens a request may take; errors as of `read`."""
        if isinstance(request, GenerationRequest):
            num_tokens = len(self._tokenize(request))
            return RequestSize(num_tokens, self.room(request, num_tokens))
        rows = self._read_rows(request, is_cancelled)
        return RequestSize(0 if rows is None else sum(map(len, rows.rows.rows)), 0)

    def room(self, request: GenerationRequest, num_prompt_tokens: int) -> int:
        """Return how many tokens an answer may have."""
        wanted = _UNLIMITED if request.params.max_tokens is None else request.params.max_tokens
        context = self.context_tokens
        return wanted if context is None else min(wanted, context - num_prompt_tokens)

    def _tokenize(self, request: GenerationRequest) -> list[int]:
        prompt = request.prompt
        self._check_bytes(request)
        if request.messages is not None:
            place = "messages"
            tokens = chat_prompt_tokens(request.messages, request.tools, self.tokenizer)
        else:
            place = "prompt"
            assert prompt is not None
            if isinstance(prompt, str):
                tokens = prompt_tokens(RowKind.COMPLETION, prompt, self.tokenizer)
            else:
                tokens = list(prompt)
                size = self.vocab_size
                if (
                    wrong := next((one for one in tokens if not 0 <= one < size), None)
                ) is not None:
                    raise InputError(place, f"has token {wrong}", f"tokens from 0 to {size - 1}")
        if not tokens:
            raise InputError(place, "is empty", "a text")
        if self.context_tokens is not None and len(tokens) >= self.context_tokens:
            expected = f"fewer than the {self.context_tokens} that the model can read"
            raise InputError(place, f"has {len(tokens)} tokens", expected)
        return tokens

    def _check_bytes(self, request: GenerationRequest) -> None:
        """Refuse what cannot be short enough before it is tokenized: that takes long."""
        if self.context_tokens is None or isinstance(request.prompt, tuple):
            return
        place = "prompt" if request.messages is None else "messages"
        texts = request.prompt if request.messages is None else [request.messages, request.tools]
        size, limit = _num_bytes(texts), self.token_bytes * self.context_tokens
        if size > limit:
            expected = f"{limit} at most: the model can read {self.context_tokens} tokens"
            raise InputError(place, f"has {size} bytes", expected)

    def _read_rows(
        self, request: ScoreRequest, is_cancelled: Callable[[], bool]
    ) -> ReadRows | None:
        dataset = read_dataset(
            request.data,
            "rows",
            max_row_characters=DEFAULT_MAX_ROW_CHARACTERS,
            max_rows=request.max_rows,
        )
        check_scorable(dataset)
        limit = min(request.max_length, self.row_tokens or request.max_length)
        read = TokenizedDataSet(())
        for number, (row, where) in enumerate(zip(dataset.rows, dataset.places, strict=True)):
            if is_cancelled():
                return None
            one = DataSet(dataset.kind, (row,), (where,))
            part = tokenize_chunk(one, self.tokenizer, limit, number)
            read = TokenizedDataSet(
                (*read.rows, *part.rows),
                {**read.dropped, **part.dropped},
                longest=max(read.longest, part.longest),
            )
        read.check_rows(limit, self.row_tokens)
        questions = read_questions(dataset.kind, read.rows[: request.num_questions], self.tokenizer)
        return ReadRows(read, tuple(questions))


def _num_bytes(value: Any) -> int:
    """Return the bytes of all texts in a JSON value, and one for each other value."""
    total, rest = 0, [value]
    while rest:
        match rest.pop():
            case str(text):
                total += len(text.encode(errors="replace"))
            case Mapping() as fields:
                rest += [*fields.keys(), *fields.values()]
            case list() | tuple() as items:
                rest += items
            case _:
                total += 1
    return total


def _max_token_bytes(tokenizer: PreTrainedTokenizerBase) -> int:
    return max(_TOKEN_BYTES, *(len(one.encode()) for one in tokenizer.get_vocab()))


def end_tokens(
    tokenizer: PreTrainedTokenizerBase, settings: GenerationConfig | None
) -> frozenset[int]:
    """Return the tokens that end an answer; `settings` are the base's own, if it has any."""
    found = [tokenizer.eos_token_id, *turn_end_tokens(tokenizer)]
    of_model = None if settings is None else settings.eos_token_id
    found += of_model if isinstance(of_model, list) else [of_model]
    return frozenset(token for token in found if token is not None)
