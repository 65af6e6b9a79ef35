"""How well a base predicts rows without an adapter and with it, and what both answer.

The loss is the mean cross-entropy of the targets, in nats, as in training; token accuracy is the
share of targets that are the likeliest token. A prompt is a row up to its last run of targets, an
answer is drawn greedily.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase

from auctune.domain.dataset import DataSet, RowKind
from auctune.domain.errors import InputError
from auctune.domain.evaluation import Answer, Evaluation, Question, Score
from auctune.train.base import Base
from auctune.train.job import SampleParams
from auctune.train.rows import IGNORE_INDEX, TokenizedRow, tokenize
from auctune.train.sampling import continue_tokens, load_checked_adapter

BLOCK_TOKENS = 1024
"""Tokens of a row whose logits are in memory at once: those of 8,000 tokens take gigabytes."""

Report = Callable[[str, float], None]
"""Called with what is being done, and the share done of it, from 0 to 1."""


def evaluate(
    base: Base,
    adapter: Path,
    dataset: DataSet,
    max_length: int,
    *,
    num_answers: int,
    max_tokens: int,
    report: Report = lambda _what, _share: None,
) -> Evaluation:
    """Evaluate an adapter beside its base.

    Args:
        base: that the adapter was trained on.
        adapter: folder in PEFT's format.
        dataset: rows; those without targets do not count.
        max_length: tokens of a row at most.
        num_answers: rows, from the first on, that are answered; rows of text have no prompt.
        max_tokens: of an answer.
        report: called with the progress.

    Raises:
        InputError: if no row has a target, rows are pairs, or the adapter is missing.
        ExportError: if the adapter is not one of this base.
    """
    check_scorable(dataset)
    limit = min(max_length, base.context_tokens or max_length)
    rows = tokenize(dataset, base.tokenizer, limit).rows
    questions = read_questions(dataset.kind, rows[:num_answers], base.tokenizer)
    params = SampleParams(max_tokens)
    scores, answers = [], []
    for name in ("base", "adapter"):
        model = base.fresh_model() if name == "base" else load_checked_adapter(base, adapter)
        scores.append(_score(model, rows, partial(report, f"loss of the {name}")))
        texts = []
        for number, question in enumerate(questions):
            report(f"answers of the {name}", number / len(questions))
            texts.append("".join(continue_tokens(base, model, question.tokens, params)))
        answers.append(texts)
    return Evaluation(
        kind=dataset.kind,
        rows=len(rows),
        targets=sum(row.num_trained_tokens for row in rows),
        base=scores[0],
        adapter=scores[1],
        answers=tuple(
            Answer(question.prompt, question.expected, *texts)
            for question, *texts in zip(questions, *answers, strict=True)
        ),
    )


def check_scorable(dataset: DataSet) -> None:
    """Raise an `InputError` for rows whose targets have no single answer."""
    if dataset.kind is RowKind.PREFERENCE:
        raise InputError("rows", "are pairs of answers", "messages, completions or texts")


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
        self._loss += cross_entropy(logits, expected, reduction="sum").item()
        self._hits += int((logits.argmax(dim=-1) == expected).sum())
        self._targets += len(expected)

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


@torch.no_grad()
def _score(
    model: nn.Module, rows: Sequence[TokenizedRow], report: Callable[[float], None]
) -> Score:
    device = next(model.parameters()).device
    total = ScoreSum()
    for number, row in enumerate(rows):
        report(number / len(rows))
        ids = torch.from_numpy(row.input_ids).to(device).unsqueeze(0)
        # What follows the last token is not known.
        last, past = len(row) - 1, None
        for first in range(0, last, BLOCK_TOKENS):
            end = min(first + BLOCK_TOKENS, last)
            found = model(input_ids=ids[:, first:end], past_key_values=past, use_cache=True)
            past = found.past_key_values
            total.add(found.logits[0], row.labels[first + 1 : end + 1])
    return total.score()


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
