"""Generation of answers: a process for each base, whose answers users share fairly."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from auctune.domain.generation import (
    AnswerEnd,
    AnswerPiece,
    GenerationRequest,
    Piece,
    PromptRead,
    Request,
    RowScored,
)
from auctune.domain.money import STEP, ZERO
from auctune.engine.generation import Generator, GeneratorSettings, InferenceError
from auctune.service.accounts.budgets import BudgetExceededError, BudgetLocks
from auctune.service.accounts.keys import Principal
from auctune.service.accounts.limits import FairSlots
from auctune.service.config.inference import InferenceConfig
from auctune.service.inference.catalog import Model
from auctune.service.metrics import Metrics
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.events import token_charge
from auctune.service.zones.core.zone import AnyZone

PromptPiece = tuple[int, Piece]
"""Number of a prompt of a request, or of rows, and a piece of the reply to it."""


class GenerationService:
    """Generates answers.

    Args:
        config: limits.
        bases: settings of the process of each base, by its name.
        metrics: count tokens.
        actors: of a zone with each base, in whose log its charges are.
        budgets: that reservations and charges count against.
        logs: folder of the processes' logs.
        lock: descriptor of a lock that the processes hold too, or None.

    Attributes:
        is_enabled: whether models answer.
        price: of 1,000 tokens.
    """

    def __init__(
        self,
        config: InferenceConfig,
        bases: Mapping[str, GeneratorSettings],
        metrics: Metrics,
        actors: Mapping[str, ZoneActor[AnyZone]],
        budgets: BudgetLocks,
        logs: Path,
        lock: int | None,
    ) -> None:
        self.price = config.price
        self._actors = actors
        self._budgets = budgets
        self.is_enabled = config.enabled
        self._metrics = metrics
        self._slots = {
            base: FairSlots("requests for answers", config.max_batch, config.max_waiting)
            for base in bases
        }
        # Prompts are read by one thread of a base's process.
        self._readers = {
            base: FairSlots("requests for answers", 1, config.max_waiting) for base in bases
        }
        logs.mkdir(parents=True, exist_ok=True)
        # Each starts its process with its first request.
        self._generators = {
            base: Generator(
                settings,
                idle_seconds=config.idle_seconds,
                lock=lock,
                log=logs / f"generation-{number}.log",
            )
            for number, (base, settings) in enumerate(bases.items())
        }

    def stop(self) -> None:
        """Have all requests fail, those under way and later ones: the service stops."""
        for generator in self._generators.values():
            generator.stop("the service is stopping")

    async def close(self) -> None:
        """End all processes; requests under way fail."""
        await asyncio.gather(*(one.close() for one in self._generators.values()))

    async def generate(
        self, model: Model, who: Principal, requests: Sequence[Request]
    ) -> AsyncGenerator[PromptPiece]:
        """Yield the pieces of the replies to some requests; closing the iterator cancels them.

        All prompts and rows are read before anything is generated, and the most that the answers
        can cost is reserved until they are charged. The charge is on disk when the iterator ends.
        However that comes about, the prompts and rows that were read and the tokens that were drawn
        are charged; nothing is if the process of the model ends.

        Tokens are drawn whether or not the pieces are awaited: a client that reads slowly holds up
        nobody.

        Raises:
            QuotaExceededError: if too many requests of the user wait.
            BudgetExceededError: if the answers may cost more than is left of a budget.
            InputError: for a prompt or an adapter that cannot be used.
            InferenceError: if the process ends.
        """
        inbox: asyncio.Queue[PromptPiece | Exception | None] = asyncio.Queue()
        task = asyncio.create_task(self._run(model, who, requests, inbox))
        try:
            while (found := await inbox.get()) is not None:
                if isinstance(found, Exception):
                    raise found
                yield found
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _run(
        self,
        model: Model,
        who: Principal,
        requests: Sequence[Request],
        inbox: "asyncio.Queue[PromptPiece | Exception | None]",
    ) -> None:
        try:
            parts = list(_parts(requests, self._slots[model.base].num_slots))
            release = await self._prepare(model, who, requests, num_parts=len(parts))
            try:
                await self._read(model, who, parts, inbox)
            finally:
                release()
        except* Exception as errors:
            inbox.put_nowait(_first(errors))
        else:
            inbox.put_nowait(None)

    async def _prepare(
        self, model: Model, who: Principal, requests: Sequence[Request], num_parts: int
    ) -> Callable[[], None]:
        """Check all prompts and rows, and reserve what the replies may cost; return its release."""
        if not self.price and num_parts == 1:
            return _nothing
        if self.price and self._budgets.remaining(who.user, who.key) == ZERO:
            raise BudgetExceededError("nothing is left of your budget")
        # One for a base and its adapter has the same size.
        groups = [(one, list(same)) for one, same in groupby(requests, _without_adapter)]
        async with AsyncExitStack() as stack:
            # Rows have threads of their own, and their user has one evaluation at a time.
            if all(isinstance(one, GenerationRequest) for one in requests):
                reader = self._readers[model.base].acquire(who.user, 1)
                await stack.enter_async_context(reader)
            sizes = await self._generators[model.base].measure([one for one, _ in groups])
        if not self.price:
            return _nothing
        num_tokens = sum(
            size.prompt_tokens + size.answer_tokens * request.num_replies
            for size, (_, same) in zip(sizes, groups, strict=True)
            for request in same
        )
        amount, fraction = token_charge(num_tokens, self.price)
        if fraction:
            amount += STEP
        async with self._budgets.acquire(who.user, who.key):
            reserved = self._actors[model.base].call(
                lambda _: self._budgets.reserve(who.user, who.key, amount)
            )
            try:
                return await asyncio.shield(reserved)
            except asyncio.CancelledError:
                reserved.add_done_callback(_release)
                raise

    async def _read(
        self,
        model: Model,
        who: Principal,
        parts: Sequence[tuple[int, Request]],
        inbox: "asyncio.Queue[PromptPiece | Exception | None]",
    ) -> None:
        """Put the pieces of all replies into `inbox`, and charge for them."""
        generator, slots = self._generators[model.base], self._slots[model.base]
        used = Counter[str]()
        # Tokens of answers that are not complete.
        drawn = Counter[tuple[int, int]]()
        # One part of a request waits at a time, and others' requests come in between.
        turn = asyncio.Lock()

        async def read(number: int, part: Request, *, is_first: bool) -> None:
            async with AsyncExitStack() as stack:
                async with turn:
                    held = slots.acquire(who.user, part.num_replies, is_limited=is_first)
                    await stack.enter_async_context(held)
                pieces = await stack.enter_async_context(aclosing(generator.generate(part)))
                async for piece in pieces:
                    if isinstance(piece, PromptRead):
                        if isinstance(part, GenerationRequest) and part.first_answer:
                            # Read for an earlier part.
                            continue
                        used["prompt"] += piece.prompt_tokens
                    elif isinstance(piece, RowScored):
                        used["prompt"] += piece.row_tokens
                    elif isinstance(piece, AnswerPiece):
                        drawn[number, piece.answer] = piece.num_tokens
                    elif isinstance(piece, AnswerEnd):
                        del drawn[number, piece.answer]
                        used["completion"] += piece.num_tokens
                    inbox.put_nowait((number, piece))

        try:
            async with asyncio.TaskGroup() as group:
                for index, (number, part) in enumerate(parts):
                    group.create_task(read(number, part, is_first=index == 0))
        except* InferenceError:
            # The service's fault.
            used.clear()
            drawn.clear()
            raise
        finally:
            used["completion"] += drawn.total()
            for kind, num_tokens in used.items():
                self._metrics.observe_tokens(model.base, kind, num_tokens)
            # A client that leaves now has its answers.
            await asyncio.shield(self._charge(model, who, (used["prompt"], used["completion"])))

    def _charge(
        self, model: Model, who: Principal, tokens: tuple[int, int]
    ) -> "asyncio.Future[None]":
        """Begin to charge for tokens; the result is there once the charge is on disk."""
        if not self.price or not any(tokens):
            nothing = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        price = self.price
        return self._actors[model.base].call(
            lambda zone: zone.charge_tokens(who, model.name, tokens, price)
        )


def _nothing() -> None: ...


def _release(reserved: "asyncio.Future[Callable[[], None]]") -> None:
    if reserved.exception() is None:
        reserved.result()()


def _without_adapter(request: Request) -> Request:
    return replace(request, adapter=None)


def _parts(requests: Sequence[Request], num_slots: int) -> Iterator[tuple[int, Request]]:
    """Yield requests with their numbers, in parts of as many answers as are generated at once."""
    for number, request in enumerate(requests):
        if isinstance(request, GenerationRequest):
            yield from ((number, part) for part in request.split(num_slots))
        else:
            yield number, request


def _first(errors: "ExceptionGroup[Exception]") -> Exception:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
