"""Generation of answers: a process for each base, which users share by the tokens they are served.

Requests wait in the process, whose prompts and answers are chosen by `FairShare`; here a user has a
bounded number of them, and the most that a request can cost is reserved of budgets.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from auctune.domain import InputError
from auctune.domain.generation import (
    AnswerEnd,
    AnswerPiece,
    GenerationRequest,
    Piece,
    PromptRead,
    Request,
    RequestSize,
    RowScored,
)
from auctune.domain.money import STEP, ZERO
from auctune.engine.generation import Generator, GeneratorSettings, InferenceError
from auctune.service.accounts.budgets import BudgetExceededError, BudgetLocks
from auctune.service.accounts.limits import OpenLimiter
from auctune.service.accounts.registry import Principal
from auctune.service.config.inference import InferenceConfig
from auctune.service.fair_queue import current_request, current_weight, leave_gate
from auctune.service.inference.catalog import Model
from auctune.service.metrics import Metrics
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.events import token_charge
from auctune.service.zones.core.zone import AnyZone

MAX_LOGPROBS = 200_000
"""Logarithmic probabilities that a request may ask for: about 20 MB of JSON."""

MAX_WAITING = 100
"""Requests of a user for a base that have not begun."""

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
        message = (
            f"{MAX_WAITING} requests for answers of yours are waiting, the maximum; try again later"
        )
        self._waiting = {base: OpenLimiter(MAX_WAITING, message) for base in bases}
        logs.mkdir(parents=True, exist_ok=True)
        # Each starts its process with its first request.
        self._generators = {
            base: Generator(
                settings,
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
            LimitReachedError: if too many requests of the user wait.
            BudgetExceededError: if the answers may cost more than is left of a budget.
            InputError: for a prompt or an adapter that cannot be used.
            InferenceError: if the process ends.
        """
        inbox: asyncio.Queue[PromptPiece | Exception | None] = asyncio.Queue()
        leave_gate()
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
            end_waiting = self._waiting[model.base].open(who.user)
            try:
                release = await self._prepare(model, who, requests)
                await self._read(model, who, requests, inbox, end_waiting, release)
            finally:
                end_waiting()
        except* Exception as errors:
            inbox.put_nowait(_first(errors))
        else:
            inbox.put_nowait(None)

    async def _prepare(
        self, model: Model, who: Principal, requests: Sequence[Request]
    ) -> Callable[[], None]:
        """Check all prompts and rows, and reserve what the replies may cost; return its release."""
        first = requests[0]
        has_logprobs = (
            isinstance(first, GenerationRequest) and first.params.num_logprobs is not None
        )
        if not self.price and len(requests) == 1 and not has_logprobs:
            return _nothing
        if self.price and self._budgets.remaining(who.user, who.key) == ZERO:
            raise BudgetExceededError("nothing is left of your budget")
        sizes = await self._measure(model, who, requests)
        _check_logprobs(sizes)
        if not self.price:
            return _nothing
        num_tokens = sum(
            size.prompt_tokens + size.answer_tokens * request.num_replies for request, size in sizes
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

    async def _measure(
        self, model: Model, who: Principal, requests: Sequence[Request]
    ) -> list[tuple[Request, RequestSize]]:
        """Return requests with their sizes."""
        generator, weight = self._generators[model.base], current_weight()
        # One for a base and its adapter has the same size.
        groups = [(one, list(same)) for one, same in groupby(requests, _without_adapter)]
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(generator.measure(one, who.user, weight=weight))
                for one, _ in groups
            ]
        return [
            (request, task.result())
            for task, (_, same) in zip(tasks, groups, strict=True)
            for request in same
        ]

    async def _read(
        self,
        model: Model,
        who: Principal,
        requests: Sequence[Request],
        inbox: "asyncio.Queue[PromptPiece | Exception | None]",
        end_waiting: Callable[[], None],
        release: Callable[[], None],
    ) -> None:
        """Put the pieces of all replies into `inbox`, charge for them, and then call `release`."""
        generator, current = self._generators[model.base], current_request()
        weight = current_weight()
        used = Counter[str]()
        # Tokens of answers that are not complete.
        drawn = Counter[tuple[int, int]]()

        def on_seconds(seconds: float) -> None:
            if current is not None:
                current.use.process_seconds += seconds

        async def read(number: int, request: Request) -> None:
            replies = generator.generate(request, who.user, on_seconds, weight=weight)
            async with aclosing(replies) as pieces:
                async for piece in pieces:
                    end_waiting()
                    if isinstance(piece, PromptRead):
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
                for number, request in enumerate(requests):
                    group.create_task(read(number, request))
        except* InferenceError:
            # The service's fault.
            used.clear()
            drawn.clear()
            raise
        finally:
            used["completion"] += drawn.total()
            for kind, num_tokens in used.items():
                self._metrics.observe_tokens(model.base, kind, num_tokens)
            charged = self._charge(model, who, (used["prompt"], used["completion"]))
            # Not before: what is neither reserved nor charged could be spent twice.
            charged.add_done_callback(lambda _: release())
            # A client that leaves now has its answers.
            await asyncio.shield(charged)

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


def _check_logprobs(sizes: Sequence[tuple[Request, RequestSize]]) -> None:
    total = sum(
        size.answer_tokens * request.num_replies * (1 + request.params.num_logprobs)
        for request, size in sizes
        if isinstance(request, GenerationRequest) and request.params.num_logprobs is not None
    )
    if total > MAX_LOGPROBS:
        found = f"asks for {total} probabilities of tokens at most"
        raise InputError(
            "logprobs", found, f"{MAX_LOGPROBS}: fewer tokens, answers or likeliest tokens"
        )


def _first(errors: "ExceptionGroup[Exception]") -> Exception:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
