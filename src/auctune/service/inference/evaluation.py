"""A fine-tuned model beside its base, for its owner: answers to a question, an evaluation on rows.

Both models get the same requests, in the process that generates answers, at the same price. The
figures are those of `auctune evaluate`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path

from auctune.domain.dataset import RowKind
from auctune.domain.generation import (
    GenerationRequest,
    Request,
    SamplingParams,
    ScoreRequest,
)
from auctune.domain.paired_evaluation import AnswerPair, EvaluationProgress, both
from auctune.service.accounts.limits import LimitReachedError
from auctune.service.accounts.registry import Principal
from auctune.service.inference.catalog import Model
from auctune.service.inference.generation import GenerationService

MAX_ROWS = 50
NUM_QUESTIONS = 3
"""Rows that are scored, and those of them that are answered."""

_ROW_ANSWER_TOKENS, _ANSWER_TOKENS = 64, 256


class EvaluationService:
    """Compares models with their bases; a user has one evaluation at a time, for one event loop."""

    def __init__(self, generation: GenerationService) -> None:
        self._generation = generation
        self._users: set[str] = set()

    async def answer(
        self, model: Model, adapter: Path, who: Principal, prompt: str, kind: RowKind
    ) -> AsyncGenerator[EvaluationProgress]:
        """Yield the progress of the answers of both models; closing the iterator cancels them.

        Args:
            model: with an adapter.
            adapter: archive of its adapter.
            who: its owner.
            prompt: text.
            kind: of the rows that the model was trained on, which determines the prompt's format.

        Raises:
            InputError, InferenceError, LimitReachedError, BudgetExceededError: as of
                `GenerationService.generate`.
        """
        progress = EvaluationProgress(answers=[AnswerPair()])
        yield progress
        params = SamplingParams(max_tokens=_ANSWER_TOKENS, temperature=0.0)
        request = GenerationRequest.of_prompt(kind, prompt, params)
        async with aclosing(self._run(progress, model, who, both(adapter, [request]))) as pieces:
            async for _ in pieces:
                yield progress
        progress.is_done = True
        yield progress

    async def evaluate(
        self, model: Model, adapter: Path, who: Principal, data: Path
    ) -> AsyncGenerator[EvaluationProgress]:
        """Yield the progress of an evaluation; closing the iterator cancels it.

        Args:
            model, adapter, who: as of `answer`.
            data: JSONL file, of which the first `MAX_ROWS` rows count.

        Raises:
            InputError, InferenceError, LimitReachedError, BudgetExceededError: as of
                `GenerationService.generate`.
        """
        if who.user in self._users:
            raise LimitReachedError("another evaluation of yours is running; wait for it")
        self._users.add(who.user)
        try:
            progress = EvaluationProgress()
            yield progress
            score = ScoreRequest(data=data, max_rows=MAX_ROWS, num_questions=NUM_QUESTIONS)
            params = SamplingParams(max_tokens=_ROW_ANSWER_TOKENS, temperature=0.0)
            async with aclosing(self._run(progress, model, who, both(adapter, [score]))) as pieces:
                async for _ in pieces:
                    yield progress
            questions = [one.question for one in progress.answers if one.question is not None]
            prompts = [GenerationRequest(prompt=one.tokens, params=params) for one in questions]
            async with aclosing(self._run(progress, model, who, both(adapter, prompts))) as pieces:
                async for _ in pieces:
                    yield progress
            progress.is_done = True
            yield progress
        finally:
            self._users.discard(who.user)

    async def _run(
        self,
        progress: EvaluationProgress,
        model: Model,
        who: Principal,
        requests: Sequence[Request],
    ) -> AsyncGenerator[None]:
        """Yield after each change of the progress; requests come in pairs, the base's first."""
        if not requests:
            return
        async with aclosing(self._generation.generate(model, who, requests)) as pieces:
            async for number, piece in pieces:
                progress.add(number, piece)
                yield
