"""An adapter beside its base, against the losses and greedy texts of transformers and PEFT."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from auctune.domain.dataset import DataSet, RowKind, read_dataset
from auctune.domain.errors import InputError
from auctune.train import evaluation
from auctune.train.base import Base, load_base
from auctune.train.evaluation import evaluate
from auctune.train.export import load_adapter
from auctune.train.job import LoraJob, SampleParams
from auctune.train.merging import merge_adapter
from auctune.train.rows import tokenize
from auctune.train.sampling import continue_tokens
from auctune.train.trainer import MultiLoraTrainer

pytest_plugins = ["support.tiny_bases"]

ROWS = [
    {
        "messages": [
            {"role": "user", "content": f"Say {word} twice."},
            {"role": "assistant", "content": word},
            {"role": "user", "content": "Once more."},
            {"role": "assistant", "content": f"{word} {word}"},
        ]
    }
    for word in ("tea", "owl", "map", "ship")
]


@pytest.fixture(scope="module")
def adapter(tiny_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    trainer = MultiLoraTrainer(load_base("tiny", cache=tiny_cache))
    trainer.load(LoraJob("a", data, epochs=60, learning_rate=1e-2, batch_size=4), folder / "work")
    trainer.train({"a": 10**6}, lambda progress: None)
    return trainer.export("a", folder / "adapter").folder


def test_scores_are_those_of_transformers_and_answers_continue_the_rows(
    tiny_base: Base, adapter: Path
) -> None:
    dataset = DataSet(RowKind.CHAT, tuple(ROWS))
    said: list[str] = []

    found = evaluate(
        tiny_base,
        adapter,
        dataset,
        512,
        num_answers=2,
        max_tokens=20,
        report=lambda what, share: said.append(what),
    )

    assert (found.rows, len(found.answers)) == (4, 2)
    for name, model, score in (
        ("base", tiny_base.fresh_model(), found.base),
        ("adapter", load_adapter(tiny_base, adapter), found.adapter),
    ):
        loss, hits, targets = _score(model, tiny_base, dataset)
        assert score.loss == pytest.approx(loss, rel=1e-5)
        assert score.token_accuracy == hits / targets
        assert found.targets == targets
        assert {f"loss of the {name}", f"answers of the {name}"} <= set(said)
    assert found.adapter.loss < 0.5 < found.base.loss
    first, second = found.answers
    assert (first.expected, second.expected) == ("tea tea", "owl owl")
    assert (first.adapter, second.adapter) == ("tea tea", "owl owl")
    assert first.base != "tea tea"
    turns = ["user", "Say tea twice.", "assistant", "tea", "user", "Once more.", "assistant"]
    assert first.prompt.splitlines() == turns


def test_logits_are_computed_in_blocks_of_a_row(
    tiny_base: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = tokenize(DataSet(RowKind.CHAT, tuple(ROWS)), tiny_base.tokenizer, 512).rows
    model, sizes = tiny_base.fresh_model(), []
    model.register_forward_hook(lambda _, __, found: sizes.append(found.logits.shape[1]))
    whole = evaluation._score(model, rows, lambda share: None)
    assert sizes == [len(row) - 1 for row in rows]
    sizes.clear()
    monkeypatch.setattr(evaluation, "BLOCK_TOKENS", 3)
    assert evaluation._score(model, rows, lambda share: None).loss == pytest.approx(
        whole.loss, rel=1e-5
    )
    assert max(sizes) == 3


def test_only_the_last_token_of_a_prompt_has_logits(tiny_base: Base) -> None:
    sizes: list[int] = []
    model = tiny_base.fresh_model()
    model.register_forward_hook(lambda _, __, found: sizes.append(found.logits.shape[1]))
    prompt = tiny_base.tokenizer.encode("Say tea twice.")
    list(continue_tokens(tiny_base, model, prompt, SampleParams(2, temperature=0.0)))
    assert set(sizes) == {1}


def test_texts_have_no_prompts_and_so_no_answers(tiny_base: Base, adapter: Path) -> None:
    dataset = DataSet(RowKind.TEXT, ({"text": "Owls eat mice."},))
    found = evaluate(tiny_base, adapter, dataset, 512, num_answers=3, max_tokens=5)
    assert found.answers == ()
    assert found.rows == 1


def test_rows_without_targets_are_refused(tiny_base: Base, adapter: Path, tmp_path: Path) -> None:
    row = {"messages": [ROWS[0]["messages"][0], ROWS[0]["messages"][1] | {"weight": 0}]}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    with pytest.raises(InputError, match="with weight 0 on all messages"):
        evaluate(tiny_base, adapter, read_dataset(path), 512, num_answers=0, max_tokens=5)


@torch.no_grad()
def _score(model: Any, base: Base, dataset: DataSet) -> tuple[float, int, int]:
    """Mean loss by transformers' own, hits of the likeliest token, and targets."""
    total, hits, targets = 0.0, 0, 0
    for row in tokenize(dataset, base.tokenizer, 512).rows:
        ids, labels = torch.from_numpy(row.input_ids)[None], torch.from_numpy(row.labels)[None]
        answer = model(input_ids=ids, labels=labels)
        total += answer.loss.item() * row.num_trained_tokens
        hits += int((answer.logits[0, :-1].argmax(-1) == labels[0, 1:]).sum())
        targets += row.num_trained_tokens
    return total / targets, hits, targets


@torch.no_grad()
def test_a_merged_model_is_the_base_with_its_adapter(
    tiny_base: Base, tiny_cache: Path, adapter: Path, tmp_path: Path
) -> None:
    merge_adapter("tiny", tiny_cache, adapter, tmp_path)
    merged: Any = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path)
    text = tokenizer.apply_chat_template(ROWS[1]["messages"], tokenize=False)
    ids = tokenizer(text, return_tensors="pt").input_ids
    expected = load_adapter(tiny_base, adapter)(input_ids=ids).logits
    assert torch.allclose(merged(input_ids=ids).logits, expected, atol=1e-4)
    assert not torch.allclose(tiny_base.model(input_ids=ids).logits, expected, atol=0.1)
