"""A fine-tuned model beside its base, for its owner: answers to a question, an evaluation on rows.

Both models get the same requests, in the process that generates answers, at the same price. The
figures are those of `auctune evaluate`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

from auctune.domain.dataset import RowKind
from auctune.domain.evaluation import Question, Score
from auctune.domain.generation import (
    AnswerEnd,
    AnswerPiece,
    GenerationRequest,
    PromptRead,
    Request,
    RowScored,
    RowsRead,
    RowsScored,
    SamplingParams,
    ScoreRequest,
)
from auctune.service.accounts.keys import Principal
from auctune.service.accounts.limits import QuotaExceededError
from auctune.service.inference.catalog import Model
from auctune.service.inference.generation import GenerationService

MAX_ROWS = 50
NUM_QUESTIONS = 3
"""Rows that are scored, and those of them that are answered."""

_ROW_ANSWER_TOKENS, _ANSWER_TOKENS = 64, 256


@dataclass(slots=True)
class AnswerPair:
    """Answers so far of both models to one question; a question of the user's is no row's."""

    question: Question | None = None
    base: str = ""
    adapter: str = ""


@dataclass(slots=True)
class EvaluationProgress:
    """What was found so far.

    Attributes:
        num_rows, num_targets: rows that count, and their tokens that the loss is taken over; 0
            until they were read.
        num_scored: rows, counted once for each model.
        base, adapter: scores, once all rows were scored.
        answers: to the first rows, or to the user's question.
        num_tokens: that were read and generated, of which the price is.
        is_done: whether this is the end.
    """

    num_rows: int = 0
    num_targets: int = 0
    num_scored: int = 0
    base: Score | None = None
    adapter: Score | None = None
    answers: list[AnswerPair] = field(default_factory=list)
    num_tokens: int = 0
    is_done: bool = False


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
            InputError, InferenceError, QuotaExceededError, BudgetExceededError: as of
                `GenerationService.generate`.
        """
        progress = EvaluationProgress(answers=[AnswerPair()])
        yield progress
        params = SamplingParams(max_tokens=_ANSWER_TOKENS, temperature=0.0)
        request = GenerationRequest.of_prompt(kind, prompt, params)
        async with aclosing(self._run(progress, model, who, _both(adapter, [request]))) as pieces:
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
            InputError, InferenceError, QuotaExceededError, BudgetExceededError: as of
                `GenerationService.generate`.
        """
        if who.user in self._users:
            raise QuotaExceededError("another evaluation of yours is running; wait for it")
        self._users.add(who.user)
        try:
            progress = EvaluationProgress()
            yield progress
            score = ScoreRequest(data=data, max_rows=MAX_ROWS, num_questions=NUM_QUESTIONS)
            params = SamplingParams(max_tokens=_ROW_ANSWER_TOKENS, temperature=0.0)
            async with aclosing(self._run(progress, model, who, _both(adapter, [score]))) as pieces:
                async for _ in pieces:
                    yield progress
            questions = [one.question for one in progress.answers if one.question is not None]
            prompts = [GenerationRequest(prompt=one.tokens, params=params) for one in questions]
            async with aclosing(self._run(progress, model, who, _both(adapter, prompts))) as pieces:
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
                is_adapter = bool(number % 2)
                match piece:
                    case PromptRead():
                        progress.num_tokens += piece.prompt_tokens
                    case AnswerEnd():
                        progress.num_tokens += piece.num_tokens
                    case AnswerPiece():
                        answer = progress.answers[number // 2]
                        if is_adapter:
                            answer.adapter += piece.text
                        else:
                            answer.base += piece.text
                    case RowsRead():
                        progress.num_rows, progress.num_targets = piece.num_rows, piece.num_targets
                        progress.answers = [AnswerPair(one) for one in piece.questions]
                    case RowScored():
                        progress.num_tokens += piece.row_tokens
                        progress.num_scored += 1
                    case RowsScored() if is_adapter:
                        progress.adapter = piece.score
                    case RowsScored():
                        progress.base = piece.score
                yield


def _both(adapter: Path, requests: Sequence[Request]) -> list[Request]:
    """Return each request for the base, and for the adapter."""
    return [
        replace(request, adapter=archive) for request in requests for archive in (None, adapter)
    ]
