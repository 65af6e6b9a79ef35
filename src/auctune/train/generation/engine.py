"""Answers to many requests at once, each with the adapter of its own (continuous batching).

A step reads a part of the next prompt, and draws one token of every answer under way in one pass
through the base, whose layers give each row its adapter (auctune.train.multilora.layer).
So a new request waits for no answer to end, and a long prompt holds up no answer for long. Rows
that are scored (`ScoreRequest`) are read in such parts too.

Answers are limited by their number and by the memory of their keys and values. Where that grows
over its limit, the answer that joined last gives its place up, and is read again, with what has
been drawn of it, once there is room.
"""

import inspect
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from auctune.domain.errors import AuctuneError, InputError
from auctune.domain.generation import (
    GenerationRequest,
    Piece,
    PromptRead,
    Request,
    RowScored,
    RowsRead,
    RowsScored,
)
from auctune.train.base import Base
from auctune.train.generation.adapter_pool import AdapterPool
from auctune.train.generation.kv_cache import KvBatch
from auctune.train.generation.reading import ReadRequest, ReadRows, RequestReader
from auctune.train.generation.sampler import LogprobReader, Sampler, draw_tokens
from auctune.train.generation.scoring import ScoreSum
from auctune.train.generation.text import AnswerPieces, AnswerText, diverged_error
from auctune.train.multilora.plan import PassProducts, Routing
from auctune.train.multilora.transfer import to_device

# Tokens of a prompt that one step reads: about as long as a step of some answers takes on a CPU.
_CHUNK_TOKENS = {"cpu": 128, "cuda": 2048}
# Tokens that all answers can be drawn further by when another one joins them.
_SPARE_TOKENS = 64
# Name of no adapter: rows of the base alone.
_BASE = ""

Reply = tuple[str, Piece | AuctuneError]
"""Id of a request, and a piece of its reply, or the error that ends it."""


@dataclass(eq=False)
class _Answer:
    """An answer that is being drawn.

    Attributes:
        request: id of its request.
        prompt: tokens.
        drawn: tokens so far.
    """

    request: str
    prompt: list[int]
    adapter: str
    sampler: Sampler
    pieces: AnswerPieces
    num_logprobs: int | None
    drawn: list[int] = field(default_factory=list)


@dataclass(eq=False)
class _Reading:
    """Tokens to be read before answers are drawn, and the keys and values of those that were.

    Attributes:
        answers: that have not joined the batch yet.
        logits: after the last token [1, vocabulary], once all are read.
    """

    tokens: list[int]
    answers: list[_Answer]
    kv: KvBatch
    num_read: int = 0
    logits: Tensor | None = None


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that has not begun."""

    id: str
    request: GenerationRequest
    prompt: list[int]


@dataclass(frozen=True, slots=True)
class _Scoring:
    """Rows that are being scored: each item of `pieces` takes about one pass."""

    id: str
    adapter: str
    pieces: Iterator[Piece | None]


class Engine:
    """Generates answers and scores rows on one base.

    Args:
        base: its model gets adapters.
        max_batch: answers under way at once.
        max_cache_bytes: of keys and values; a single answer may take more.
        max_adapter_bytes: of the adapters' weights; those in use may take more.
        checks_base: whether adapters must have been trained on this base in this number type.

    Attributes:
        reader: of the requests that `accept` takes.
    """

    def __init__(
        self,
        base: Base,
        *,
        max_batch: int = 16,
        max_cache_bytes: int = 2 * 1024**3,
        max_adapter_bytes: int = 1024**3,
        checks_base: bool = True,
    ) -> None:
        self._base = base
        self._pool = AdapterPool(base, max_adapter_bytes, checks_base=checks_base)
        self._model: Any = base.model.train(False)
        if getattr(base.model, "_is_stateful", False):
            found = "keeps a state beside the keys and values of tokens, which is not supported"
            raise InputError(f"base {base.name!r}", found, "a base of attention layers for answers")
        self._max_batch = max_batch
        self._max_cache_bytes = max_cache_bytes
        self.reader = RequestReader.of(base)
        self._logprobs = LogprobReader(base.tokenizer)
        self._chunk = _CHUNK_TOKENS[base.device.type]
        self._options = _last_logits(self._model)
        self._waiting: deque[_Waiting] = deque()
        self._readings: deque[_Reading] = deque()
        self._scorings: deque[_Scoring] = deque()
        self._kv = KvBatch(base.device)
        # The answers under way, by their rows in `_kv`.
        self._rows: list[_Answer] = []
        self._products: PassProducts | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether there is nothing to do."""
        return not (self._waiting or self._readings or self._rows or self._scorings)

    def add(self, id_: str, request: Request) -> None:
        """Read and accept a request.

        Raises:
            InputError: if its prompt, its rows or their adapter cannot be used.
        """
        read = self.reader.read(request)
        assert read is not None
        self.accept(id_, read)

    def accept(self, id_: str, read: ReadRequest) -> None:
        """Accept what `reader` returned; its reply comes with the next steps.

        Raises:
            InputError: if the adapter for its rows cannot be used.
        """
        request, content = read
        if isinstance(request, GenerationRequest):
            assert isinstance(content, list)
            self._waiting.append(_Waiting(id_, request, content))
            return
        assert isinstance(content, ReadRows)
        adapter = self._load(request.adapter)
        pieces = self._score(content, adapter)
        self._scorings.append(_Scoring(id_, adapter, pieces))

    def cancel(self, id_: str) -> None:
        """Drop a request, if it is still here."""
        self._waiting = deque(one for one in self._waiting if one.id != id_)
        self._readings = deque(one for one in self._readings if one.answers[0].request != id_)
        self._scorings = deque(one for one in self._scorings if one.id != id_)
        # Keys and values were made in this mode, and so must be changed in it.
        with torch.inference_mode():
            for row in range(len(self._rows) - 1, -1, -1):
                if self._rows[row].request == id_:
                    self._remove(row)

    def step(self) -> list[Reply]:
        """Read a part of a prompt and of a scored row; draw a token of each answer under way."""
        replies: list[Reply] = []
        if not self._readings and self._waiting and len(self._rows) < self._max_batch:
            replies += self._begin(self._waiting.popleft())
        with torch.inference_mode():
            if self._rows:
                self._make_room()
                replies += self._draw_next()
            if self._readings and (count := self._num_fitting(self._readings[0])):
                replies += self._read(self._readings[0], count)
            if self._scorings:
                replies += self._score_next()
        return replies

    def _num_fitting(self, reading: _Reading) -> int:
        """Return how many answers of a prompt can join, and then go on for a while."""
        num_columns = max(self._kv.width, len(reading.tokens)) + _SPARE_TOKENS
        # Layers are known from the first pass on.
        row_bytes = max(kv.num_bytes(1, num_columns) for kv in (self._kv, reading.kv))
        num_rows = self._max_batch
        if row_bytes:
            num_rows = min(num_rows, self._max_cache_bytes // row_bytes)
        # A single answer may take more.
        count = max(num_rows, 1) - len(self._rows)
        return max(0, min(count, len(reading.answers)))

    def _begin(self, waiting: _Waiting) -> Iterator[Reply]:
        params = waiting.request.params
        try:
            adapter = self._load(waiting.request.adapter)
        except InputError as error:
            yield waiting.id, error
            return
        room = self.reader.room(waiting.request, len(waiting.prompt))
        first = waiting.request.first_answer
        tokenizer, ends = self.reader.tokenizer, self.reader.ends
        answers = [
            _Answer(
                waiting.id,
                waiting.prompt,
                adapter,
                Sampler(params, number, self._base.device),
                AnswerPieces(number, AnswerText(tokenizer, params.stop), ends, room),
                params.num_logprobs,
            )
            for number in range(first, first + params.num_answers)
        ]
        self._readings.append(_Reading(waiting.prompt, answers, KvBatch(self._base.device, 1)))
        yield waiting.id, PromptRead(len(waiting.prompt))

    def _load(self, adapter: Path | None) -> str:
        """Return the name of an adapter, which is loaded if it is not yet."""
        # The layers change, and so may the names of adapters.
        self._products = None
        if adapter is None:
            return _BASE
        answers = (*self._rows, *(one for reading in self._readings for one in reading.answers))
        in_use = {one.adapter for one in answers} | {one.adapter for one in self._scorings}
        return self._pool.load(adapter, in_use)

    def _score_next(self) -> Iterator[Reply]:
        """Go on with the rows of one request; after each row it is the next one's turn."""
        scoring = self._scorings[0]
        piece = next(scoring.pieces)
        if piece is None:
            return
        yield scoring.id, piece
        self._scorings.rotate(-1)
        if isinstance(piece, RowsScored):
            self._scorings.remove(scoring)

    def _score(self, content: ReadRows, adapter: str) -> Iterator[Piece | None]:
        """Yield the pieces of a reply, and None where others may take a step."""
        base, read = self._base, content.rows
        yield RowsRead(len(read), read.num_trained_tokens, content.questions)
        total = ScoreSum()
        for tokenized in read.rows:
            kv = KvBatch(base.device, 1)
            ids = torch.from_numpy(tokenized.input_ids).to(base.device)
            # What follows the last token is not known.
            last = len(ids) - 1
            for first in range(0, last, self._chunk):
                end = min(first + self._chunk, last)
                products = self._route([adapter], end - first)
                logits = self._logits(kv, ids[first:end].unsqueeze(0), products)
                total.add(logits[0], tokenized.labels[first + 1 : end + 1])
                yield RowScored(len(ids)) if end == last else None
        yield RowsScored(total.score())

    def _read(self, reading: _Reading, count: int) -> Iterator[Reply]:
        """Read a part of a prompt; after the last one so many answers join the batch."""
        kv, first = reading.kv, reading.num_read
        if reading.logits is None:
            part = reading.tokens[first : first + self._chunk]
            products = self._route([reading.answers[0].adapter], len(part))
            logits = self._pass(kv, torch.tensor([part], device=self._base.device), products)
            reading.num_read += len(part)
            if reading.num_read < len(reading.tokens):
                return
            reading.logits = logits
            # Layers are known by now.
            count = min(count, self._num_fitting(reading))
        self._kv.join(kv, count)
        self._rows += reading.answers[:count]
        reading.answers = reading.answers[count:]
        if not reading.answers:
            self._readings.popleft()
        self._products = None
        yield from self._draw(reading.logits.expand(count, -1), len(self._rows) - count)

    def _draw_next(self) -> Iterator[Reply]:
        """Pass the last token of each answer through the model, and draw the next one."""
        if self._products is None:
            self._products = self._route([answer.adapter for answer in self._rows], 1)
        ids = torch.tensor([[one.drawn[-1]] for one in self._rows], device=self._base.device)
        yield from self._draw(self._pass(self._kv, ids, self._products), 0)

    def _pass(self, kv: KvBatch, ids: Tensor, products: PassProducts) -> Tensor:
        """Return the logits after the last of some new tokens [rows, width]: [rows, vocabulary]."""
        logits: Tensor = self._logits(kv, ids, products, **self._options)[:, -1].float()
        return logits

    def _logits(self, kv: KvBatch, ids: Tensor, products: PassProducts, **options: Any) -> Tensor:
        """Return the logits after new tokens [rows, width]: [rows, width, vocabulary]."""
        width = ids.shape[1]
        starts = torch.tensor(kv.lengths, device=ids.device).unsqueeze(1)
        positions = starts + torch.arange(width, device=ids.device)
        with self._pool.model.context.active(products):
            found = self._model(
                input_ids=ids,
                attention_mask=kv.mask(width),
                position_ids=positions,
                past_key_values=kv.cache,
                use_cache=True,
                **options,
            )
        kv.advance(width)
        logits: Tensor = found.logits
        return logits

    def _route(self, adapters: Sequence[str], width: int) -> PassProducts:
        """Return the products of rows of adapters."""
        model = self._pool.model
        slots = [-1 if one == _BASE else model.adapters.slot(one) for one in adapters]
        routing = Routing.of_rows(model.adapters, slots, width * np.arange(len(slots) + 1))
        tensors = to_device(model.backend.arrays(routing), self._base.device)
        return model.backend.products(routing, tensors)

    def _draw(self, logits: Tensor, first: int) -> Iterator[Reply]:
        """Draw a token for each row from `first` on, from logits [rows, vocabulary]."""
        answers = self._rows[first:]
        # Of an adapter that overflows: its rows must not end what the others do.
        is_finite = torch.isfinite(logits.amax(dim=-1))
        failed = {
            answer.request
            for answer, is_sound in zip(answers, is_finite.tolist(), strict=True)
            if not is_sound
        }
        if failed:
            logits = logits.masked_fill(~is_finite.unsqueeze(1), 0.0)
        tokens = draw_tokens([answer.sampler for answer in answers], logits).tolist()
        ended = []
        for row, (answer, token) in enumerate(zip(answers, tokens, strict=True)):
            if answer.request in failed:
                continue
            answer.drawn.append(token)
            count = answer.num_logprobs
            drawn = None if count is None else self._logprobs.read(token, logits[row], count)
            for piece in answer.pieces.add(token, drawn):
                yield answer.request, piece
            if answer.pieces.is_complete:
                ended.append(first + row)
        # From the last on: each is replaced by the last row.
        for row in reversed(ended):
            self._remove(row)
        for request in failed:
            self.cancel(request)
            yield request, diverged_error()

    def _make_room(self) -> None:
        """Have the newest answers give up their places until the next token fits into memory."""
        while (
            len(self._rows) > 1
            and self._kv.num_bytes(len(self._rows), self._kv.width + 1) > self._max_cache_bytes
        ):
            answer = self._rows[-1]
            self._remove(len(self._rows) - 1)
            tokens = answer.prompt + answer.drawn
            self._readings.append(_Reading(tokens, [answer], KvBatch(self._base.device, 1)))

    def _remove(self, row: int) -> None:
        self._kv.remove(row)
        self._rows[row] = self._rows[-1]
        self._rows.pop()
        self._products = None


def _last_logits(model: nn.Module) -> dict[str, int]:
    """Return what has a model compute the logits after its last token alone, if it can."""
    is_known = "logits_to_keep" in inspect.signature(model.forward).parameters
    return {"logits_to_keep": 1} if is_known else {}
