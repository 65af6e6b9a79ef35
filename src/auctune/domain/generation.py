"""Requests to a base and its adapters for answers and scores, and the pieces of the replies."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from auctune.domain.dataset import DEFAULT_MAX_LENGTH, RowKind
from auctune.domain.evaluation import Question, Score

FinishReason = Literal["stop", "length"]

READ_COST, DRAW_COST = 1.0, 2.0
"""What a token counts, where users share, that is read, and that is drawn (Sheng et al., 2024)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the tokens of an answer are drawn.

    Attributes:
        max_tokens: of an answer; `None`: as far as the base's context reaches.
        temperature: 0 draws the likeliest token, and so always the same answer.
        top_p: tokens are drawn from the likeliest ones that have this probability together.
        stop: an answer ends before the first of these texts.
        seed: of the draws; `None`: another one for each request.
        num_answers: to the same prompt.
        num_logprobs: likeliest tokens whose logarithmic probabilities are reported with each token;
            `None`: not even that of the token itself.
    """

    max_tokens: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    num_answers: int = 1
    num_logprobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """A prompt: either `messages`, or a text, or tokens.

    Attributes:
        adapter: archive of an adapter in PEFT's format; `None`: the base alone.
        messages: of a chat, as in a row of a data set, without the answer.
        tools: that the answer may call, for `messages`; OpenAI's format.
        prompt: a text, or tokens.
        params: how tokens are drawn.
    """

    task: Literal["generate"] = "generate"
    adapter: Path | None = None
    messages: tuple[Mapping[str, Any], ...] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    prompt: str | tuple[int, ...] | None = None
    params: SamplingParams = SamplingParams()

    @classmethod
    def of_prompt(
        cls, kind: RowKind, prompt: str, params: SamplingParams, adapter: Path | None = None
    ) -> "GenerationRequest":
        """Return a request whose prompt has the form of the rows that the adapter was trained on.

        Of chats and pairs of answers it is the user's only message.
        """
        if kind.of_prompts is RowKind.CHAT:
            message = {"role": "user", "content": prompt}
            return cls(adapter=adapter, messages=(message,), params=params)
        return cls(adapter=adapter, prompt=prompt, params=params)

    @property
    def num_replies(self) -> int:
        """Answers."""
        return self.params.num_answers


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRequest:
    """Rows whose targets are predicted, as by `auctune evaluate`.

    Attributes:
        adapter: archive of an adapter in PEFT's format; `None`: the base alone.
        data: JSONL file of rows.
        max_rows: first rows that count, at least 1.
        max_length: tokens of a row at most; a longer one is truncated.
        num_questions: first rows whose prompts and expected answers are returned.
    """

    task: Literal["score"] = "score"
    adapter: Path | None = None
    data: Path
    max_rows: int
    max_length: int = DEFAULT_MAX_LENGTH
    num_questions: int = 0

    @property
    def num_replies(self) -> int:
        """One score."""
        return 1


Request = GenerationRequest | ScoreRequest


@dataclass(frozen=True, slots=True)
class RequestSize:
    """Tokens of a request: those of its prompt or rows, and at most of each of its answers."""

    prompt_tokens: int
    answer_tokens: int


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token with the natural logarithm of its probability at temperature 1.

    Attributes:
        token: as text; an incomplete character is shown as U+FFFD.
        bytes: of the token in UTF-8.
        logprob: at most 0.
    """

    token: str
    bytes: tuple[int, ...]
    logprob: float


@dataclass(frozen=True, slots=True)
class DrawnToken(TokenLogprob):
    """A token of an answer, and the likeliest ones at its place, the likeliest first."""

    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class PromptRead:
    """The prompt has been read; the first piece of each request for answers."""

    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A piece of an answer.

    Attributes:
        answer: its number, from 0 on.
        text: complete characters; empty if they are not complete yet.
        tokens: drawn since the last piece, the end token and those of a stop text left out; empty
            unless the request asks for logprobs.
        num_tokens: that were drawn for the answer so far.
    """

    answer: int
    text: str
    tokens: tuple[DrawnToken, ...] = ()
    num_tokens: int = 0


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """An answer is complete.

    Attributes:
        answer: its number.
        reason: "stop" at the end token or before a stop text, "length" at `max_tokens` or at the
            end of the base's context.
        num_tokens: that were drawn for it, the end token included.
    """

    answer: int
    reason: FinishReason
    num_tokens: int


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Rows have been read; the first piece of each request for a score.

    Attributes:
        num_rows: with targets.
        num_targets: tokens that the loss is taken over.
        questions: of the first rows; rows of text have none.
    """

    num_rows: int
    num_targets: int
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class RowScored:
    """The targets of a row have been predicted."""

    row_tokens: int


@dataclass(frozen=True, slots=True)
class RowsScored:
    """All rows have been; the last piece."""

    score: Score


Piece = PromptRead | AnswerPiece | AnswerEnd | RowsRead | RowScored | RowsScored
