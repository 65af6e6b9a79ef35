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
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase

from auctune.domain.dataset import DataSet, RowKind
from auctune.domain.errors import InputError
from auctune.domain.evaluation import Answer, Evaluation, Score
from auctune.train.base import Base
from auctune.train.job import SampleParams
from auctune.train.rows import IGNORE_INDEX, TokenizedRow, tokenize
from auctune.train.sampling import continue_tokens, load_checked_adapter

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
    if dataset.kind is RowKind.PREFERENCE:
        raise InputError("rows", "are pairs of answers", "messages, completions or texts")
    limit = min(max_length, base.context_tokens or max_length)
    rows = tokenize(dataset, base.tokenizer, limit).rows
    num_answers = 0 if dataset.kind is RowKind.TEXT else min(num_answers, len(rows))
    prompts = [_prompt(row) for row in rows[:num_answers]]
    asked = [_text(ids, base.tokenizer) for ids, _ in prompts]
    expected = [_text(ids, base.tokenizer) for _, ids in prompts]
    params = SampleParams(max_tokens)
    scores, answers = [], []
    for name in ("base", "adapter"):
        model = base.fresh_model() if name == "base" else load_checked_adapter(base, adapter)
        scores.append(_score(model, rows, partial(report, f"loss of the {name}")))
        texts = []
        for number, (ids, _) in enumerate(prompts):
            report(f"answers of the {name}", number / num_answers)
            texts.append("".join(continue_tokens(base, model, ids, params)))
        answers.append(texts)
    return Evaluation(
        kind=dataset.kind,
        rows=len(rows),
        targets=sum(row.num_trained_tokens for row in rows),
        base=scores[0],
        adapter=scores[1],
        answers=tuple(Answer(*one) for one in zip(asked, expected, *answers, strict=True)),
    )


@torch.no_grad()
def _score(
    model: nn.Module, rows: Sequence[TokenizedRow], report: Callable[[float], None]
) -> Score:
    device = next(model.parameters()).device
    loss, hits, targets = 0.0, 0, 0
    for number, row in enumerate(rows):
        report(number / len(rows))
        labels = torch.from_numpy(row.labels[1:]).to(device)
        ids = torch.from_numpy(row.input_ids).to(device)
        logits = model(input_ids=ids.unsqueeze(0)).logits[0, :-1]
        # Of the targets alone: logits of all tokens in float32 are twice the memory.
        chosen = labels != IGNORE_INDEX
        logits, labels = logits[chosen].float(), labels[chosen]
        loss += cross_entropy(logits, labels, reduction="sum").item()
        hits += int((logits.argmax(dim=-1) == labels).sum())
        targets += len(labels)
    return Score(loss / targets, hits / targets)


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
