"""Plain PEFT and transformers, one request at a time: the oracle of answers and scores."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from auctune.datasets import read_dataset
from auctune.domain.dataset import RowKind
from auctune.domain.evaluation import Answer, Evaluation, Score
from auctune.train.base import Base
from auctune.train.export import load_adapter
from auctune.train.generation.reading import end_tokens
from auctune.train.generation.scoring import read_questions
from auctune.train.rows import prompt_tokens, tokenize


def plain_model(base: Base, adapter: Path | None) -> Any:
    """The base, or PEFT's own model with an adapter."""
    return base.fresh_model() if adapter is None else load_adapter(base, adapter)


@torch.no_grad()
def greedy_text(base: Base, model: Any, prompt: Sequence[int], max_tokens: int) -> str:
    """A greedy answer without any cache, up to the end of the base's context."""
    room = max_tokens
    if base.context_tokens is not None:
        room = min(room, base.context_tokens - len(prompt))
    ids, ends = list(prompt), end_tokens(base.tokenizer, base.model.generation_config)
    for _ in range(room):
        token = int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
        if token in ends:
            break
        ids.append(token)
    drawn = ids[len(prompt) :]
    return str(base.tokenizer.decode(drawn, skip_special_tokens=True))


def plain_text(base: Base, adapter: Path | None, kind: RowKind, prompt: str, count: int) -> str:
    """The greedy continuation of a prompt of rows of a kind."""
    ids = prompt_tokens(kind, prompt, base.tokenizer)
    return greedy_text(base, plain_model(base, adapter), ids, count)


@torch.no_grad()
def plain_score(model: Any, base: Base, rows: Sequence[Any]) -> Score:
    """Mean loss by transformers' own, and the share of targets that are the likeliest token."""
    total, hits, targets = 0.0, 0, 0
    for row in rows:
        ids, labels = torch.from_numpy(row.input_ids)[None], torch.from_numpy(row.labels)[None]
        answer = model(input_ids=ids, labels=labels)
        total += answer.loss.item() * row.num_trained_tokens
        hits += int((answer.logits[0, :-1].argmax(-1) == labels[0, 1:]).sum())
        targets += row.num_trained_tokens
    return Score(total / targets, hits / targets)


def plain_evaluation(
    base: Base,
    adapter: Path,
    data: Path,
    *,
    max_rows: int | None = None,
    max_length: int = 512,
    num_answers: int = 3,
    max_tokens: int = 64,
) -> Evaluation:
    """What `auctune evaluate` should find."""
    dataset = read_dataset(data, max_rows=max_rows)
    limit = min(max_length, base.context_tokens or max_length)
    rows = tokenize(dataset, base.tokenizer, limit).rows
    questions = read_questions(dataset.kind, rows[:num_answers], base.tokenizer)
    models = [plain_model(base, None), plain_model(base, adapter)]
    texts = [[greedy_text(base, one, q.tokens, max_tokens) for q in questions] for one in models]
    base_score, adapter_score = (plain_score(one, base, rows) for one in models)
    return Evaluation(
        kind=dataset.kind,
        rows=len(rows),
        targets=sum(row.num_trained_tokens for row in rows),
        base=base_score,
        adapter=adapter_score,
        answers=tuple(
            Answer(question.prompt, question.expected, *both)
            for question, *both in zip(questions, *texts, strict=True)
        ),
    )
