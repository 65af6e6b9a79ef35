"""Text from a model, and an adapter beside its base: answers of a process that ends with the call.

The process is that of the service's answers (`auctune.engine.generation`).
"""

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from pydantic import TypeAdapter

from auctune.datasets import find_kind
from auctune.domain import InputError
from auctune.domain.dataset import DEFAULT_MAX_LENGTH
from auctune.domain.evaluation import Answer, Evaluation
from auctune.domain.generation import (
    AnswerEnd,
    AnswerPiece,
    GenerationRequest,
    Piece,
    Request,
    RowScored,
    RowsScored,
    SamplingParams,
    ScoreRequest,
)
from auctune.domain.paired_evaluation import EvaluationProgress, both
from auctune.engine.generation import GeneratorSettings, InferenceError, start_generator
from auctune.engine.messages.base import Failed
from auctune.engine.messages.generation import Generate, Generated, GeneratorReply

EVALUATIONS = TypeAdapter(Evaluation)
Report = Callable[[str, float], None]
"""Called with what is being done, and the share done of it, from 0 to 1."""

_ALL_ROWS = 10**9


def sample(settings: GeneratorSettings, request: GenerationRequest) -> Iterator[str]:
    """Yield pieces of one answer as they are drawn; closing the iterator ends the process.

    Raises:
        InputError: for a base, an adapter or a prompt that cannot be used.
        InferenceError: if the process ends.
    """
    with closing(_OwnProcess(settings)) as process:
        for _, piece in process.replies([request]):
            if isinstance(piece, AnswerPiece):
                yield piece.text


def evaluate(
    settings: GeneratorSettings,
    adapter: Path,
    data: Path,
    *,
    max_rows: int | None = None,
    max_length: int = DEFAULT_MAX_LENGTH,
    num_answers: int = 3,
    max_tokens: int = 64,
    report: Report = lambda _what, _share: None,
) -> Evaluation:
    """Evaluate an adapter beside its base.

    Args:
        settings: of the process.
        adapter: folder in PEFT's format.
        data: JSONL file of rows.
        max_rows: first rows that count; None: all.
        max_length: tokens of a row at most.
        num_answers: first rows that are answered; rows of text have no prompt.
        max_tokens: of an answer.
        report: called with the progress.

    Raises:
        InputError: for a base, an adapter or data that cannot be used.
        InferenceError: if the process ends.
    """
    report(f"loading the base {settings.base}", 0.0)
    kind = find_kind(data)
    score = ScoreRequest(
        data=data,
        max_rows=_ALL_ROWS if max_rows is None else max_rows,
        max_length=max_length,
        num_questions=num_answers,
    )
    progress = EvaluationProgress()
    with closing(_OwnProcess(settings)) as process:
        for number, piece in process.replies(both(adapter, [score])):
            progress.add(number, piece)
            if isinstance(piece, RowScored):
                report("scoring the rows", progress.num_scored / (2 * progress.num_rows))
        questions = [one.question for one in progress.answers if one.question is not None]
        params = SamplingParams(max_tokens=max_tokens, temperature=0.0)
        prompts = [GenerationRequest(prompt=one.tokens, params=params) for one in questions]
        num_answered = 0
        for number, piece in process.replies(both(adapter, prompts)):
            progress.add(number, piece)
            if isinstance(piece, AnswerEnd):
                num_answered += 1
                report("answering", num_answered / (2 * len(prompts)))
    assert kind is not None
    assert progress.base is not None
    assert progress.adapter is not None
    return Evaluation(
        kind=kind,
        rows=progress.num_rows,
        targets=progress.num_targets,
        base=progress.base,
        adapter=progress.adapter,
        answers=tuple(
            Answer(question.prompt, question.expected, pair.base, pair.adapter)
            for question, pair in zip(questions, progress.answers, strict=True)
        ),
    )


class _OwnProcess:
    """A process that generates answers for one caller, which waits for them."""

    def __init__(self, settings: GeneratorSettings) -> None:
        self._inbox: queue.SimpleQueue[GeneratorReply | None] = queue.SimpleQueue()
        self._process = start_generator(settings, self._inbox.put)

    def replies(self, requests: Sequence[Request]) -> Iterator[tuple[int, Piece]]:
        """Yield the pieces of the replies, each with the number of its request."""
        for number, request in enumerate(requests):
            self._process.send(Generate(id=str(number), request=request))
        num_open = sum(request.num_replies for request in requests)
        while num_open:
            match message := self._inbox.get():
                case None:
                    reason = self._process.exit_reason()
                    raise InferenceError(f"the process of the model ended: {reason}")
                case Failed(request=id_):
                    error = message.error.to_error(InferenceError)
                    if id_ and isinstance(error, InputError) and error.place == "model":
                        error = error.at(f"adapter {requests[int(id_)].adapter}")
                    raise error
                case Generated(pieces=pieces):
                    for one in pieces:
                        num_open -= isinstance(one.piece, AnswerEnd | RowsScored)
                        yield int(one.request), one.piece

    def close(self) -> None:
        self._process.kill()
