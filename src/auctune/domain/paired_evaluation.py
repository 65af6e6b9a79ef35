"""A fine-tuned model beside its base: both get the same requests, and what comes of them.

Requests are numbered in pairs, the base's first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from auctune.domain.evaluation import Question, Score
from auctune.domain.generation import (
    AnswerEnd,
    AnswerPiece,
    Piece,
    PromptRead,
    Request,
    RowScored,
    RowsRead,
    RowsScored,
)


def both(adapter: Path, requests: Sequence[Request]) -> list[Request]:
    """Return each request for the base, and for the adapter."""
    return [replace(request, adapter=one) for request in requests for one in (None, adapter)]


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

    def add(self, number: int, piece: Piece) -> None:
        """Add a piece of the reply to the request of this number."""
        is_adapter = bool(number % 2)
        match piece:
            case PromptRead():
                self.num_tokens += piece.prompt_tokens
            case AnswerEnd():
                self.num_tokens += piece.num_tokens
            case AnswerPiece():
                answer = self.answers[number // 2]
                if is_adapter:
                    answer.adapter += piece.text
                else:
                    answer.base += piece.text
            case RowsRead():
                self.num_rows, self.num_targets = piece.num_rows, piece.num_targets
                self.answers = [AnswerPair(one) for one in piece.questions]
            case RowScored():
                self.num_tokens += piece.row_tokens
                self.num_scored += 1
            case RowsScored() if is_adapter:
                self.adapter = piece.score
            case RowsScored():
                self.base = piece.score
