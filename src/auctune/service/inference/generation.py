"""Generation of answers: a process for each base, whose answers users share fairly."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

from auctune.domain import AuctuneError
from auctune.domain.generation import (
    AnswerEnd,
    AnswerPiece,
    GenerationRequest,
    Piece,
    PromptRead,
    Request,
    RowScored,
)
from auctune.run.generation import Generator, GeneratorSettings
from auctune.service.accounts.budgets import BudgetTracker
from auctune.service.accounts.keys import Principal
from auctune.service.accounts.limits import FairSlots
from auctune.service.config.inference import InferenceConfig
from auctune.service.inference.catalog import Model
from auctune.service.metrics import Metrics
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.events import token_amount
from auctune.service.zones.core.zone import AnyZone


class BudgetExceededError(AuctuneError):
    """Nothing is left of a budget for answers."""


PromptPiece = tuple[int, Piece]
"""Number of a prompt of a request, or of rows, and a piece of the reply to it."""


class GenerationService:
    """Generates answers.

    Args:
        config: limits.
        bases: settings of the process of each base, by its name.
        metrics: count tokens.
        actors: of a zone with each base, in whose log its charges are.
        budgets: that charges count against.
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
        budgets: BudgetTracker,
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
        # Tokens of users' requests that are under way, which no budget counts yet.
        self._uncharged = Counter[str]()
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

    async def close(self) -> None:
        """End all processes; requests under way fail."""
        await asyncio.gather(*(one.close() for one in self._generators.values()))

    async def generate(
        self, model: Model, who: Principal, requests: Sequence[Request]
    ) -> AsyncGenerator[PromptPiece]:
        """Yield the pieces of the replies to some requests; closing the iterator cancels them.

        What they cost is on disk when the iterator ends. Of a request that is cancelled, the
        prompts and rows that were read and the tokens drawn until then are charged; of one that
        fails, no token of an answer that is not complete.

        Tokens are drawn whether or not the pieces are awaited: a client that reads slowly holds up
        nobody.

        Raises:
            QuotaExceededError: if too many requests of the user wait.
            BudgetExceededError: if nothing is left of a budget, and tokens cost something.
            InputError: for a prompt or an adapter that cannot be used.
            InferenceError: if the process ends.
        """
        self._check_budget(who)
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
        generator, slots = self._generators[model.base], self._slots[model.base]
        used = Counter[str]()
        # Tokens of answers that are not complete.
        drawn = Counter[tuple[int, int]]()
        # One part of a request waits at a time, and others' requests come in between.
        turn = asyncio.Lock()

        def count(kind: str, num_tokens: int) -> None:
            used[kind] += num_tokens
            self._uncharged[who.user] += num_tokens

        async def read(number: int, part: Request, *, is_first: bool) -> None:
            async with AsyncExitStack() as stack:
                async with turn:
                    held = slots.acquire(who.user, part.num_replies, is_limited=is_first)
                    await stack.enter_async_context(held)
                # It may have been used up in the meantime.
                self._check_budget(who)
                pieces = await stack.enter_async_context(aclosing(generator.generate(part)))
                async for piece in pieces:
                    if isinstance(piece, PromptRead):
                        if isinstance(part, GenerationRequest) and part.first_answer:
                            # Read for an earlier part.
                            continue
                        count("prompt", piece.prompt_tokens)
                    elif isinstance(piece, RowScored):
                        count("prompt", piece.row_tokens)
                    elif isinstance(piece, AnswerPiece):
                        drawn[number, piece.answer] = piece.num_tokens
                    elif isinstance(piece, AnswerEnd):
                        del drawn[number, piece.answer]
                        count("completion", piece.num_tokens)
                    inbox.put_nowait((number, piece))

        try:
            try:
                async with asyncio.TaskGroup() as group:
                    for index, (number, part) in enumerate(_parts(requests, slots.num_slots)):
                        group.create_task(read(number, part, is_first=index == 0))
            except asyncio.CancelledError:
                # What the client has read of answers that it cut off.
                count("completion", drawn.total())
                raise
            finally:
                for kind, num_tokens in used.items():
                    self._metrics.observe_tokens(model.base, kind, num_tokens)
                charged = self._charge(model, who, (used["prompt"], used["completion"]))
                charged.add_done_callback(lambda _: self._forget(who.user, used.total()))
            # A client that leaves now has its answers.
            await asyncio.shield(charged)
        except* Exception as errors:
            inbox.put_nowait(_first(errors))
        else:
            inbox.put_nowait(None)

    def _check_budget(self, who: Principal) -> None:
        remaining = self._budgets.remaining(who.user, who.key) if self.price else None
        if remaining is not None and remaining <= token_amount(
            self._uncharged[who.user], self.price
        ):
            raise BudgetExceededError("nothing is left of your budget")

    def _forget(self, user: str, num_tokens: int) -> None:
        self._uncharged[user] -= num_tokens
        if not self._uncharged[user]:
            del self._uncharged[user]

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
