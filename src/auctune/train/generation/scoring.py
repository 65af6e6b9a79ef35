"""Scores of rows: how well a model predicts their targets, and the questions that they ask.

The loss is the mean cross-entropy of the targets, in nats, as in training; token accuracy is the
share of targets that are the likeliest token. A prompt is a row up to its last run of targets.
"""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase

from auctune.domain.dataset import DataSet, RowKind
from auctune.domain.errors import InputError
from auctune.domain.evaluation import Question, Score
from auctune.train.rows import IGNORE_INDEX, TokenizedRow


def check_scorable(dataset: DataSet) -> None:
    """Raise an `InputError` for rows whose targets have no single answer."""
    if dataset.kind in (RowKind.PREFERENCE, RowKind.UNPAIRED):
        raise InputError("rows", "are preferences", "messages, completions or texts")


class ScoreSum:
    """Score of the targets that were predicted so far."""

    def __init__(self) -> None:
        self._loss, self._hits, self._targets = 0.0, 0, 0

    def add(self, logits: Tensor, labels: NDArray[np.int64]) -> None:
        """Add the prediction of tokens.

        Args:
            logits: [tokens, vocabulary], each after the token before.
            labels: (tokens,), -100 for a token that is no target.
        """
        expected = torch.from_numpy(labels).to(logits.device)
        # Of the targets alone: logits of all tokens in float32 are twice the memory.
        chosen = expected != IGNORE_INDEX
        logits, expected = logits[chosen].float(), expected[chosen]
        loss = cross_entropy(logits, expected, reduction="sum").item()
        self.add_targets(loss, int((logits.argmax(dim=-1) == expected).sum()), len(expected))

    def add_targets(self, loss: float, num_hits: int, num_targets: int) -> None:
        """Add targets with the sum of their losses, and how many are the likeliest token."""
        self._loss += loss
        self._hits += num_hits
        self._targets += num_targets

    def score(self) -> Score:
        """Return the score of one target at least."""
        return Score(self._loss / self._targets, self._hits / self._targets)


def read_questions(
    kind: RowKind, rows: Sequence[TokenizedRow], tokenizer: PreTrainedTokenizerBase
) -> list[Question]:
    """Return prompts and expected answers of rows; rows of text have none."""
    prompts = [] if kind is RowKind.TEXT else [_prompt(row) for row in rows]
    return [
        Question(tuple(ids), _text(ids, tokenizer), _text(answer, tokenizer))
        for ids, answer in prompts
    ]


def _prompt(row: TokenizedRow) -> tuple[list[int], list[int]]:
    """Return the tokens before a row's last run of targets, and these."""
    is_target = row.labels != IGNORE_INDEX
    end = int(np.flatnonzero(is_target)[-1]) + 1
    before = np.flatnonzero(~is_target[:end])
    begin = int(before[-1]) + 1
    return row.input_ids[:begin].tolist(), row.input_ids[begin:end].tolist()


def _text(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> str:
    """Return tokens as text, with a new line where there are special tokens."""
    special = frozenset(tokenizer.all_special_ids)
    runs = (list(run) for is_special, run in groupby(ids, special.__contains__) if not is_special)
    return "\n".join(tokenizer.decode(run).strip() for run in runs).strip()
