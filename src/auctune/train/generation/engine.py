"""Answers to many requests at once, each with the adapter of its own (continuous batching).

A step reads a part of the next prompt, and draws one token of every answer under way in one pass
through the base, whose layers give each row its adapter (auctune.train.multilora.layer).
So a new request waits for no answer to end, and a long prompt holds up no answer for long. Rows
that are scored (`ScoreRequest`) are read in such parts too.

Users share the steps by the tokens that they were served (Virtual Token Counter, Sheng et al.,
OSDI 2024): of those who wait, the prompt of the user who was served least is read next. Answers are
limited by their number and by the memory of their keys and values. Where all places are taken, an
answer of a user who was served more is paused. It goes on later with the keys and values that it
had, or, where these are too large to be kept, with those of a second reading of its tokens.

A request whose adapter is not loaded holds up nobody until a thread has read its files, of one
adapter at a time: that of the user who was served least. Then a step loads it, one at most, and its
user is charged for the time that the others of the step have waited, as so many tokens as the rest
of the step was charged in as long.
"""

import inspect
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from auctune.domain.errors import AuctuneError, InputError
from auctune.domain.fair_share import FairShare
from auctune.domain.generation import (
    DRAW_COST,
    READ_COST,
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
# Tokens that an answer draws before it is paused for others of users with as many places.
_QUANTUM_TOKENS = 16
# Of a step, beside a load.
_MIN_SECONDS = 1e-6
# Between two looks for new requests, while there is nothing to do but to read files.
_WAIT_SECONDS = 0.01
# Name of no adapter: rows of the base alone.
_BASE = ""

Reply = tuple[str, Piece | AuctuneError]
"""Id of a request, and a piece of its reply, or the error that ends it."""


@dataclass(eq=False)
class _Answer:
    """An answer that is being drawn.

    Attributes:
        request: id of its request.
        user: whose it is.
        prompt: tokens.
        drawn: tokens so far.
        num_joined: tokens that it had drawn when it joined the batch.
    """

    request: str
    user: str
    prompt: list[int]
    adapter: str
    sampler: Sampler
    pieces: AnswerPieces
    num_logprobs: int | None
    drawn: list[int] = field(default_factory=list)
    num_joined: int = 0

    @property
    def is_quantum_over(self) -> bool:
        """Return whether it has drawn enough since it joined."""
        return len(self.drawn) >= self.num_joined + _QUANTUM_TOKENS


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that has not begun."""

    id: str
    user: str
    request: GenerationRequest
    tokens: list[int]


@dataclass(eq=False)
class _Reading:
    """Answers of a request that have no place, and the tokens to read before they get one.

    Attributes:
        tokens: of the prompt, and those of a paused answer but the newest, which the next pass of
            the batch reads.
        answers: to the same prompt; a paused one is alone.
        kv: keys and values of the first `num_read` tokens.
        logits: after the prompt [1, vocabulary], once it is read.
    """

    id: str
    user: str
    tokens: list[int]
    answers: list[_Answer]
    kv: KvBatch
    num_read: int = 0
    logits: Tensor | None = None

    @property
    def is_paused(self) -> bool:
        """Return whether a part of its answer has been drawn."""
        return bool(self.answers[0].drawn)

    @property
    def is_read(self) -> bool:
        """Return whether its answers can join the batch."""
        return self.num_read == len(self.tokens)


@dataclass(eq=False, slots=True)
class _Scoring:
    """Rows that are being scored, or wait for their adapter.

    Attributes:
        content: the rows.
        path: of their adapter's files.
        adapter: its name, once it is loaded.
        pieces: of the reply, from then on; each item takes about one pass.
    """

    id: str
    user: str
    content: ReadRows
    path: Path | None
    adapter: str = _BASE
    pieces: Iterator[Piece | None] | None = None


class Engine:
    """Generates answers and scores rows on one base.

    Args:
        base: its model gets adapters.
        max_batch: answers under way at once.
        max_cache_bytes: of keys and values; a single answer may take more.
        max_adapter_bytes: of the adapters' weights; those in use may take more.
        checks_base: whether adapters must have been trained on this base in this number type.
        now: a monotonic clock, in seconds.

    Attributes:
        reader: of the requests that `accept` takes.
        costs: what the last step read and drew, weighted, by request.
        read_seconds: CPU time that a thread took to read the adapters' files which the last step
            has loaded, by request.
    """

    def __init__(
        self,
        base: Base,
        *,
        max_batch: int = 16,
        max_cache_bytes: int = 2 * 1024**3,
        max_adapter_bytes: int = 1024**3,
        checks_base: bool = True,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._base, self._now = base, now
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
        self._share = FairShare()
        # Users of open requests, by id, and how many of their answers have not ended.
        self._users: dict[str, str] = {}
        self._num_open = Counter[str]()
        # What has no place, by user, in the order in which it gets one.
        self._queues: dict[str, deque[_Waiting | _Reading]] = {}
        self._scorings: deque[_Scoring] = deque()
        self._kv = KvBatch(base.device)
        # Of a token; layers are known from the first pass on.
        self._token_bytes = 0
        # The answers under way, by their rows in `_kv`.
        self._rows: list[_Answer] = []
        self._products: PassProducts | None = None
        # The request whose adapter the step has loaded, its user, and the seconds that it took.
        self._loaded: tuple[str, str, float] | None = None
        self.costs: defaultdict[str, float] = defaultdict(float)
        self.read_seconds: dict[str, float] = {}

    @property
    def thread_seconds(self) -> float:
        """CPU time that the thread which reads adapters' files has taken so far."""
        return self._pool.thread_seconds

    @property
    def is_idle(self) -> bool:
        """Return whether there is nothing to do."""
        return not (self._queues or self._rows or self._scorings)

    def add(self, id_: str, request: Request, user: str = "", weight: float = 1.0) -> None:
        """Read and accept a request; arguments as of `accept`.

        Raises:
            InputError: if its prompt or its rows cannot be used.
        """
        read = self.reader.read(request)
        assert read is not None
        self.accept(id_, read, user, weight)

    def accept(self, id_: str, read: ReadRequest, user: str = "", weight: float = 1.0) -> None:
        """Accept what `reader` returned; its reply comes with the next steps.

        Args:
            id_: of the request.
            read: the request.
            user: whose turn it takes.
            weight: of the user, as of `FairShare`.
        """
        request, content = read
        if isinstance(request, GenerationRequest):
            assert isinstance(content, list)
            waiting = _Waiting(id_, user, request, content)
            self._queues.setdefault(user, deque()).append(waiting)
        else:
            assert isinstance(content, ReadRows)
            self._scorings.append(_Scoring(id_, user, content, request.adapter))
        self._users[id_], self._num_open[id_] = user, request.num_replies
        self._share.enter(user, weight)

    def cancel(self, id_: str) -> None:
        """Drop a request, if it is still here."""
        for user, queue in list(self._queues.items()):
            if left := deque(one for one in queue if one.id != id_):
                self._queues[user] = left
            else:
                del self._queues[user]
        self._scorings = deque(one for one in self._scorings if one.id != id_)
        # Keys and values were made in this mode, and so must be changed in it.
        with torch.inference_mode():
            for row in range(len(self._rows) - 1, -1, -1):
                if self._rows[row].request == id_:
                    self._remove(row)
        self._close(id_)

    def _close(self, id_: str) -> None:
        """Count a request no longer, if it is open."""
        if (user := self._users.pop(id_, None)) is not None:
            del self._num_open[id_]
            self._share.leave(user)

    def step(self) -> list[Reply]:
        """Read a part of a prompt and of a scored row; draw a token of each answer under way."""
        self.costs.clear()
        self.read_seconds.clear()
        begun = self._now()
        replies: list[Reply] = []
        if isinstance(waiting := self._next(), _Waiting):
            replies += self._begin(waiting)
        with torch.inference_mode():
            self._make_room()
            self._resume()
            if self._rows:
                replies += self._draw_next()
            if isinstance(reading := self._next(), _Reading):
                replies += self._read(reading)
            if self._scorings:
                replies += self._score_next()
            self._drop_stored()
        self._fetch()
        loaded, self._loaded = self._loaded, None
        if not self.costs:
            self._pool.wait(_WAIT_SECONDS)
        elif loaded is not None:
            id_, user, seconds = loaded
            rest = max(self._now() - begun - seconds, _MIN_SECONDS)
            cost = sum(self.costs.values()) * seconds / rest
            self.costs[id_] += cost
            self._share.charge(user, cost)
        return replies

    def _fetch(self) -> None:
        """Have the files of the next adapter that has to be loaded read, unless others are."""
        heads = [queue[0] for queue in self._queues.values()]
        waiting = [(one.user, one.request.adapter) for one in heads if isinstance(one, _Waiting)]
        waiting += [(one.user, one.path) for one in self._scorings if one.pieces is None]
        paths: dict[str, Path] = {}
        for user, path in waiting:
            if path is not None and not self._pool.has(path):
                paths.setdefault(user, path)
        if paths:
            self._pool.fetch(paths[self._share.next(paths)])

    def _can_load(self, path: Path | None) -> bool:
        return path is None or self._pool.can_load(path)

    def _next(self) -> _Waiting | _Reading | None:
        """Return what goes on next of what has no place, or None if it has to wait for one."""
        # What waits for its adapter holds up nobody.
        users = [
            user
            for user, queue in self._queues.items()
            if not isinstance(one := queue[0], _Waiting) or self._can_load(one.request.adapter)
        ]
        if not users:
            return None
        first = self._queues[self._share.next(users)][0]
        num_read = first.num_read if isinstance(first, _Reading) else 0
        num_bytes = self._token_bytes * len(first.tokens)
        if not num_read and self._stored_bytes() + num_bytes > self._max_cache_bytes:
            # Two prompts that do not fit together would be dropped for one another for ever.
            partly = (one for one in self._readings() if one.num_read and not one.is_read)
            first = next(partly, first)
        return None if self._victims(first) is None else first

    def _victims(self, waiting: _Waiting | _Reading) -> list[_Answer] | None:
        """Return what has to be paused for an answer to get a place, or None if it has to wait.

        Answers are paused of users who were served more, if these keep more places than the other
        one gets, or if the answers have drawn enough since they joined.
        """
        user, time = waiting.user, self._share.time
        rows = [row for row in self._rows if time(row.user) > time(user)]
        num_places = Counter(row.user for row in self._rows)
        victims: list[_Answer] = []
        for _ in range(len(self._rows) + 1 - self._max_rows(len(waiting.tokens))):
            found = [
                row
                for row in rows
                if num_places[row.user] > num_places[user] + 1 or row.is_quantum_over
            ]
            if not found:
                return None
            # The one that has drawn least is moved, or read again, soonest.
            victim = max(found, key=lambda row: (time(row.user), -len(row.drawn)))
            rows.remove(victim)
            num_places[victim.user] -= 1
            victims.append(victim)
        return victims

    def _max_rows(self, num_tokens: int) -> int:
        """Return how many answers go on for a while, if one of so many tokens is among them."""
        row_bytes = self._token_bytes * (max(self._kv.width, num_tokens) + _SPARE_TOKENS)
        num_rows = self._max_batch
        if row_bytes:
            num_rows = min(num_rows, self._max_cache_bytes // row_bytes)
        # A single answer may take more.
        return max(num_rows, 1)

    def _begin(self, waiting: _Waiting) -> Iterator[Reply]:
        """Replace a request at the head of its user's queue by its answers."""
        queue = self._queues[waiting.user]
        params = waiting.request.params
        try:
            adapter = self._load(waiting.id, waiting.request.adapter)
        except InputError as error:
            self.cancel(waiting.id)
            yield waiting.id, error
            return
        room = self.reader.room(waiting.request, len(waiting.tokens))
        tokenizer, ends = self.reader.tokenizer, self.reader.ends
        answers = [
            _Answer(
                waiting.id,
                waiting.user,
                waiting.tokens,
                adapter,
                Sampler(params, number, self._base.device),
                AnswerPieces(number, AnswerText(tokenizer, params.stop), ends, room),
                params.num_logprobs,
            )
            for number in range(params.num_answers)
        ]
        kv = KvBatch(self._base.device, 1)
        queue[0] = _Reading(waiting.id, waiting.user, waiting.tokens, answers, kv)
        yield waiting.id, PromptRead(len(waiting.tokens))

    def _load(self, id_: str, path: Path | None) -> str:
        """Return the name of the adapter for a request, which is loaded if it is not yet."""
        # The layers change, and so may the names of adapters.
        self._products = None
        if path is None:
            return _BASE
        is_loaded, begun = self._pool.has(path), self._now()
        answers = (*self._rows, *(one.answers[0] for one in self._readings()))
        in_use = {one.adapter for one in answers} | {one.adapter for one in self._scorings}
        try:
            return self._pool.load(path, in_use)
        finally:
            if not is_loaded:
                self._loaded = id_, self._users[id_], self._now() - begun
                self.read_seconds[id_] = self._pool.read_seconds

    def _score_next(self) -> Iterator[Reply]:
        """Go on with the rows of a user; after each row it is that of the next request."""
        ready = [one for one in self._scorings if one.pieces or self._can_load(one.path)]
        if not ready:
            return
        user = self._share.next(one.user for one in ready)
        scoring = next(one for one in ready if one.user == user)
        if scoring.pieces is None:
            try:
                scoring.adapter = self._load(scoring.id, scoring.path)
            except InputError as error:
                self.cancel(scoring.id)
                yield scoring.id, error
                return
            scoring.pieces = self._score(scoring.id, scoring.content, scoring.adapter)
        piece = next(scoring.pieces)
        if piece is None:
            return
        yield scoring.id, piece
        self._scorings.remove(scoring)
        if isinstance(piece, RowsScored):
            self._close(scoring.id)
        else:
            self._scorings.append(scoring)

    def _score(self, id_: str, content: ReadRows, adapter: str) -> Iterator[Piece | None]:
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
                self._charge({id_: end - first}, READ_COST)
                products = self._route([adapter], end - first)
                logits = self._logits(kv, ids[first:end].unsqueeze(0), products)
                total.add(logits[0], tokenized.labels[first + 1 : end + 1])
                yield RowScored(len(ids)) if end == last else None
        yield RowsScored(total.score())

    def _charge(self, num_tokens: Mapping[str, int], cost: float) -> None:
        """Charge users for tokens of their requests, by id."""
        by_user = Counter[str]()
        for id_, count in num_tokens.items():
            self.costs[id_] += cost * count
            by_user[self._users[id_]] += count
        for user, count in by_user.items():
            self._share.begin(user, cost * count)

    def _read(self, reading: _Reading) -> Iterator[Reply]:
        """Read a part of a prompt; after the last one as many answers join as have places."""
        victims = self._victims(reading)
        assert victims is not None
        kv, first = reading.kv, reading.num_read
        if not reading.is_read:
            part = reading.tokens[first : first + self._chunk]
            self._charge({reading.id: len(part)}, READ_COST)
            products = self._route([reading.answers[0].adapter], len(part))
            logits = self._pass(kv, torch.tensor([part], device=self._base.device), products)
            reading.num_read = first + len(part)
            if reading.num_read < len(reading.tokens):
                return
            if not reading.is_paused:
                reading.logits = logits
        count = self._join(reading, victims)
        if reading.logits is not None:
            self._charge({reading.id: count}, DRAW_COST)
            yield from self._draw(reading.logits.expand(count, -1), len(self._rows) - count)

    def _join(self, reading: _Reading, victims: Sequence[_Answer]) -> int:
        """Have answers join the batch, one at least; return how many."""
        for victim in victims:
            self._pause(victim)
        num_free = self._max_rows(len(reading.tokens)) - len(self._rows)
        count = max(1, min(num_free, len(reading.answers)))
        self._kv.join(reading.kv, count)
        joined, reading.answers = reading.answers[:count], reading.answers[count:]
        for answer in joined:
            answer.num_joined = len(answer.drawn)
        self._rows += joined
        if not reading.answers:
            queue = self._queues[reading.user]
            queue.remove(reading)
            if not queue:
                del self._queues[reading.user]
        self._products = None
        return count

    def _resume(self) -> None:
        """Have paused answers join the batch that need nothing read, as far as it is their turn."""
        while isinstance(reading := self._next(), _Reading):
            if not (reading.is_paused and reading.is_read):
                return
            victims = self._victims(reading)
            assert victims is not None
            self._join(reading, victims)

    def _pause(self, answer: _Answer) -> None:
        """Take an answer out of the batch, to the front of its user's queue."""
        row = self._rows.index(answer)
        kv = self._kv.extract(row)
        self._forget(row)
        tokens = answer.prompt + answer.drawn[:-1]
        reading = _Reading(answer.request, answer.user, tokens, [answer], kv, len(tokens))
        self._queues.setdefault(answer.user, deque()).appendleft(reading)

    def _readings(self) -> Iterator[_Reading]:
        """Yield what has begun and has no place; in a queue it is before what has not begun."""
        for queue in self._queues.values():
            for one in queue:
                if isinstance(one, _Waiting):
                    break
                yield one

    def _stored_bytes(self) -> int:
        """Return the bytes of keys and values, apart from padding."""
        stored = sum(one.num_read for one in self._readings())
        return self._token_bytes * (sum(self._kv.lengths) + stored)

    def _drop_stored(self) -> None:
        """Drop keys and values of what has no place until the rest fits; it is read again then."""
        excess = self._stored_bytes() - self._max_cache_bytes
        if excess <= 0:
            return
        # Those of the user who was served most will be needed last.
        readings = reversed(list(self._readings()))
        for one in sorted(readings, key=lambda one: -self._share.time(one.user)):
            # What is being read is kept: see `_next`.
            if excess > 0 and one.is_read:
                excess -= self._token_bytes * one.num_read
                one.kv, one.num_read, one.logits = KvBatch(self._base.device, 1), 0, None

    def _draw_next(self) -> Iterator[Reply]:
        """Pass the last token of each answer through the model, and draw the next one."""
        if self._products is None:
            self._products = self._route([answer.adapter for answer in self._rows], 1)
        self._charge(Counter(answer.request for answer in self._rows), DRAW_COST)
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
        self._token_bytes = kv.num_bytes(1, 1)
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
            id_ = self._rows[row].request
            self._remove(row)
            self._num_open[id_] -= 1
            if not self._num_open[id_]:
                self._close(id_)
        for request in failed:
            self.cancel(request)
            yield request, diverged_error()

    def _make_room(self) -> None:
        """Pause answers of users who were served most until the next token fits into memory."""
        while (
            len(self._rows) > 1
            and self._kv.num_bytes(len(self._rows), self._kv.width + 1) > self._max_cache_bytes
        ):
            self._pause(
                max(self._rows, key=lambda one: (self._share.time(one.user), -len(one.drawn)))
            )

    def _remove(self, row: int) -> None:
        self._kv.remove(row)
        self._forget(row)

    def _forget(self, row: int) -> None:
        self._rows[row] = self._rows[-1]
        self._rows.pop()
        self._products = None


def _last_logits(model: nn.Module) -> dict[str, int]:
    """Return what has a model compute the logits after its last token alone, if it can."""
    is_known = "logits_to_keep" in inspect.signature(model.forward).parameters
    return {"logits_to_keep": 1} if is_known else {}
