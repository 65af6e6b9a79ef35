"""Generation of answers: a process for each base, whose answers users share fairly."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

from auctune.domain.generation import AnswerEnd, GenerationRequest, Piece, PromptRead
from auctune.run.generation import Generator, GeneratorSettings
from auctune.service.accounts.limits import FairSlots
from auctune.service.config.inference import InferenceConfig
from auctune.service.metrics import Metrics

PromptPiece = tuple[int, Piece]
"""Number of a prompt of a request, and a piece of an answer to it."""


class GenerationService:
    """Generates answers.

    Args:
        config: limits.
        bases: settings of the process of each base, by its name.
        metrics: count tokens.
        logs: folder of the processes' logs.
        lock: descriptor of a lock that the processes hold too, or None.

    Attributes:
        is_enabled: whether models answer.
    """

    def __init__(
        self,
        config: InferenceConfig,
        bases: Mapping[str, GeneratorSettings],
        metrics: Metrics,
        logs: Path,
        lock: int | None,
    ) -> None:
        self.is_enabled = config.enabled
        self._metrics = metrics
        self._slots = {
            base: FairSlots("requests for answers", config.max_batch, config.max_waiting)
            for base in bases
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

    async def close(self) -> None:
        """End all processes; requests under way fail."""
        await asyncio.gather(*(one.close() for one in self._generators.values()))

    async def generate(
        self, base: str, user: str, requests: Sequence[GenerationRequest]
    ) -> AsyncGenerator[PromptPiece]:
        """Yield the pieces of the answers to some prompts; closing the iterator cancels them.

        Tokens are drawn whether or not the pieces are awaited: a client that reads slowly holds up
        nobody.

        Raises:
            QuotaExceededError: if too many requests of the user wait.
            InputError: for a prompt or an adapter that cannot be used.
            InferenceError: if the process ends.
        """
        inbox: asyncio.Queue[PromptPiece | Exception | None] = asyncio.Queue()
        task = asyncio.create_task(self._run(base, user, requests, inbox))
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
        base: str,
        user: str,
        requests: Sequence[GenerationRequest],
        inbox: "asyncio.Queue[PromptPiece | Exception | None]",
    ) -> None:
        generator = self._generators[base]

        async def read(number: int, request: GenerationRequest) -> None:
            async with aclosing(generator.generate(request)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, PromptRead):
                        self._metrics.observe_tokens(base, "prompt", piece.prompt_tokens)
                    elif isinstance(piece, AnswerEnd):
                        self._metrics.observe_tokens(base, "completion", piece.num_tokens)
                    inbox.put_nowait((number, piece))

        num_answers = sum(request.params.num_answers for request in requests)
        try:
            async with (
                self._slots[base].acquire(user, num_answers),
                asyncio.TaskGroup() as group,
            ):
                for number, request in enumerate(requests):
                    group.create_task(read(number, request))
        except* Exception as errors:
            inbox.put_nowait(_first(errors))
        else:
            inbox.put_nowait(None)


def _first(errors: "ExceptionGroup[Exception]") -> Exception:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
