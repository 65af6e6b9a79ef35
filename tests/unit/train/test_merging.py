"""A merged model, against its base with the adapter."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from auctune.train.base import Base, load_base
from auctune.train.export import load_adapter
from auctune.train.job import LoraJob
from auctune.train.merging import merge_adapter
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
