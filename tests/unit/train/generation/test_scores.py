"""Rows that an engine scores beside answers, against plain PEFT."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctune.domain.dataset import RowKind
from auctune.domain.errors import AuctuneError, InputError
from auctune.domain.generation import (
    AnswerPiece,
    GenerationRequest,
    RowScored,
    RowsRead,
    RowsScored,
    SamplingParams,
    ScoreRequest,
)
from auctune.train.generation.engine import Engine, Reply
from auctune.train.rows import tokenize_chunk
from support.peft_adapters import save_adapter
from support.plain_model import greedy_text, plain_evaluation, plain_model
from support.small_bases import FAMILIES, WORDS, build_base


@dataclass
class Replies:
    """What an engine has replied, by request."""

    read: dict[str, RowsRead] = field(default_factory=dict)
    tokens: dict[str, list[int]] = field(default_factory=dict)
    scores: dict[str, RowsScored] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    errors: dict[str, AuctuneError] = field(default_factory=dict)

    def take(self, replies: list[Reply]) -> None:
        for id_, piece in replies:
            if isinstance(piece, RowsRead):
                self.read[id_] = piece
            elif isinstance(piece, RowScored):
                self.tokens.setdefault(id_, []).append(piece.row_tokens)
            elif isinstance(piece, RowsScored):
                self.scores[id_] = piece
            elif isinstance(piece, AnswerPiece):
                self.texts[id_] = self.texts.get(id_, "") + piece.text
            elif isinstance(piece, AuctuneError):
                self.errors[id_] = piece

    def finish(self, engine: Engine) -> "Replies":
        while not engine.is_idle:
            self.take(engine.step())
        return self


def write_rows(path: Path, kind: RowKind, count: int) -> Path:
    random = np.random.default_rng(3)

    def words(most: int) -> str:
        return " ".join(random.choice(WORDS, size=random.integers(1, most)))

    def row() -> dict[str, Any]:
        if kind is RowKind.TEXT:
            return {"text": words(30)}
        if kind is RowKind.COMPLETION:
            return {"prompt": words(20), "completion": words(12)}
        turns = [("user", words(8)), ("assistant", words(8))] * 2
        return {"messages": [{"role": role, "content": text} for role, text in turns]}

    path.write_text("".join(f"{json.dumps(row())}\n" for _ in range(count)))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", [RowKind.TEXT, RowKind.COMPLETION, RowKind.CHAT])
def test_scores_of_the_base_and_of_adapters_are_those_of_plain_peft(
    family: str, kind: RowKind, tmp_path: Path
) -> None:
    base = build_base(tmp_path / "base", family)
    adapters = [
        save_adapter(tmp_path / "a", family, base.fresh_model()),
        save_adapter(tmp_path / "b", family, base.fresh_model(), r=7, use_rslora=True),
    ]
    data = write_rows(tmp_path / "rows.jsonl", kind, 9)
    engine, replies = Engine(base, max_batch=4), Replies()
    engine._chunk = 7
    for name, adapter in zip("xab", (None, *adapters), strict=True):
        wanted = ScoreRequest(
            adapter=adapter, data=data, max_rows=6, max_length=40, num_questions=2
        )
        engine.add(name, wanted)
    # Answers that come meanwhile.
    params = SamplingParams(max_tokens=50, temperature=0.0)
    engine.add("t", GenerationRequest(adapter=adapters[1], prompt=(5, 6, 7), params=params))
    replies.finish(engine)
    for name, adapter in zip("ab", adapters, strict=True):
        found = plain_evaluation(
            base, adapter, data, max_rows=6, max_length=40, num_answers=2, max_tokens=6
        )
        read = replies.read[name]
        assert (read.num_rows, read.num_targets) == (found.rows, found.targets)
        assert len(replies.tokens[name]) == found.rows
        for score, of in (
            (replies.scores["x"].score, found.base),
            (replies.scores[name].score, found.adapter),
        ):
            assert score.loss == pytest.approx(of.loss, rel=1e-5)
            assert score.token_accuracy == of.token_accuracy
        asked = [(one.prompt, one.expected) for one in read.questions]
        assert asked == [(one.prompt, one.expected) for one in found.answers]
        # The prompts as tokens have the same answers.
        params = SamplingParams(max_tokens=6, temperature=0.0)
        for number, question in enumerate(read.questions):
            request = GenerationRequest(adapter=adapter, prompt=question.tokens, params=params)
            engine.add(f"{name}{number}", request)
        replies.finish(engine)
        texts = [replies.texts.get(f"{name}{number}", "") for number in range(len(read.questions))]
        assert texts == [one.adapter for one in found.answers]
    alone = greedy_text(base, plain_model(base, adapters[1]), [5, 6, 7], 50)
    assert replies.texts["t"] == alone


def test_requests_take_turns_and_can_be_cancelled(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    data = write_rows(tmp_path / "rows.jsonl", RowKind.COMPLETION, 5)
    engine, replies = Engine(base), Replies()
    for name in "abc":
        engine.add(name, ScoreRequest(data=data, max_rows=5))
    while len(replies.tokens.get("a", [])) < 2:
        replies.take(engine.step())
    assert [len(replies.tokens[name]) for name in "bc"] == [1, 1]
    engine.cancel("b")
    replies.finish(engine)
    assert set(replies.scores) == {"a", "c"}
    assert replies.scores["a"] == replies.scores["c"]
    assert len(replies.tokens["b"]) == 1


def test_logits_are_of_a_part_of_a_row_and_of_the_last_token_of_a_prompt(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "llama")
    data = write_rows(tmp_path / "rows.jsonl", RowKind.TEXT, 4)
    engine, replies, sizes = Engine(base), Replies(), list[int]()
    engine._chunk = 3
    head = base.model.get_output_embeddings()
    assert head is not None
    head.register_forward_hook(lambda _, __, found: sizes.append(found.shape[1]))
    engine.add("a", ScoreRequest(data=data, max_rows=4))
    replies.finish(engine)
    assert max(sizes) == 3 < max(replies.tokens["a"])
    sizes.clear()
    params = SamplingParams(max_tokens=2, temperature=0.0)
    engine.add("b", GenerationRequest(prompt=tuple(range(5, 25)), params=params))
    replies.finish(engine)
    assert set(sizes) == {1}


def test_rows_are_tokenized_before_they_are_accepted_and_not_once_they_are_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = build_base(tmp_path / "base", "llama")
    request = ScoreRequest(
        data=write_rows(tmp_path / "rows.jsonl", RowKind.COMPLETION, 5), max_rows=5
    )
    tokenized: list[int] = []

    def tokenize(dataset: Any, *more: Any) -> Any:
        tokenized.append(len(dataset.rows))
        return tokenize_chunk(dataset, *more)

    monkeypatch.setattr("auctune.train.generation.reading.tokenize_chunk", tokenize)
    engine = Engine(base)
    assert engine.reader.read(request, lambda: len(tokenized) == 2) is None
    assert tokenized == [1, 1]
    size = engine.reader.measure(request)
    read = engine.reader.read(request)
    assert read is not None
    assert tokenized == [1] * 12
    engine.accept("x", read)
    replies = Replies().finish(engine)
    assert sum(replies.tokens["x"]) == size.prompt_tokens
    # A step tokenizes nothing: answers would wait for it.
    assert tokenized == [1] * 12


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('{"text": "a"}\n{"oops": 1}\n', "rows: line 2"),
        ("", "has no rows"),
        (
            '{"input": {"messages": [{"role": "user", "content": "a"}]},'
            ' "preferred_output": [{"role": "assistant", "content": "b"}],'
            ' "non_preferred_output": [{"role": "assistant", "content": "c"}]}\n',
            "rows: are preferences",
        ),
    ],
)
def test_rows_that_cannot_be_scored_are_refused(rows: str, message: str, tmp_path: Path) -> None:
    engine = Engine(build_base(tmp_path / "base", "llama"))
    (tmp_path / "rows.jsonl").write_text(rows)
    with pytest.raises(InputError, match=message):
        engine.add("x", ScoreRequest(data=tmp_path / "rows.jsonl", max_rows=50))
    assert engine.is_idle


def test_rows_without_targets_and_files_that_are_gone_are_errors(tmp_path: Path) -> None:
    engine = Engine(build_base(tmp_path / "base", "llama"))
    data = tmp_path / "rows.jsonl"
    prompt = " ".join(WORDS[:1] * 50)
    data.write_text(json.dumps({"prompt": prompt, "completion": "word1"}))
    with pytest.raises(InputError, match="none of 1 has a token to learn"):
        engine.add("x", ScoreRequest(data=data, max_rows=50, max_length=20))
    with pytest.raises(InputError, match="rows: cannot be read"):
        engine.add("x", ScoreRequest(data=tmp_path / "none", max_rows=50))
    engine.add("x", ScoreRequest(data=data, max_rows=50, adapter=tmp_path / "none"))
    replies: list[Reply] = []
    while not engine.is_idle:
        replies += engine.step()
    ((id_, error),) = replies
    assert id_ == "x"
    assert "model: cannot be read" in str(error)
