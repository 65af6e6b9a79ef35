"""What an evaluation of an adapter on rows finds."""

from dataclasses import dataclass

from auctune.domain.dataset import RowKind


@dataclass(frozen=True, slots=True)
class Score:
    """How well a model predicts the targets of rows.

    Attributes:
        loss: mean cross-entropy of a target, in nats.
        token_accuracy: share of targets that are the likeliest token, in [0, 1].
    """

    loss: float
    token_accuracy: float


@dataclass(frozen=True, slots=True)
class Question:
    """The prompt of a row, as tokens and as text, and the answer that the row has."""

    tokens: tuple[int, ...]
    prompt: str
    expected: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a row asks and expects, and what the base answers without an adapter and with it."""

    prompt: str
    expected: str
    base: str
    adapter: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An adapter beside its base.

    Attributes:
        kind: of the rows.
        rows: with targets.
        targets: tokens that the loss is taken over.
        base, adapter: without the adapter, and with it.
        answers: to the first rows.
    """

    kind: RowKind
    rows: int
    targets: int
    base: Score
    adapter: Score
    answers: tuple[Answer, ...]
