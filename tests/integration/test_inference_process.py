"""Text from a trained adapter, drawn in a process of its own."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from peft import PeftModel

from auctune.domain import InputError
from auctune.domain.dataset import RowKind
from auctune.engine.inference import InferenceError, SampleOrder, sample
from auctune.train.base import Base
from auctune.train.job import LoraJob, SampleParams
from auctune.train.trainer import MultiLoraTrainer

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow

PROMPT = "say it: "


def train(base: Base, folder: Path) -> Path:
    data = folder / "data.jsonl"
    row = {"prompt": PROMPT, "completion": "second price wins"}
    data.write_text((json.dumps(row) + "\n") * 8)
    trainer = MultiLoraTrainer(base)
    trainer.load(LoraJob("a", data, epochs=40, learning_rate=1e-2, batch_size=4), folder / "work")
    trainer.train({"a": 10**6}, lambda progress: None)
    return trainer.export("a", folder / "adapter").folder


def test_an_adapter_says_what_it_has_learnt_and_what_peft_would_say(
    tiny_base: Base, tiny_cache: Path, tmp_path: Path
) -> None:
    adapter = train(tiny_base, tmp_path)
    order = SampleOrder(
        base="tiny",
        cache=tiny_cache,
        prompt=PROMPT,
        adapter=adapter,
        kind=RowKind.COMPLETION,
        params=SampleParams(max_tokens=20),
    )
    pieces = list(sample(order))
    assert len(pieces) > 3

    with warnings.catch_warnings():
        # PEFT asks by a name that transformers is about to drop.
        warnings.simplefilter("ignore", FutureWarning)
        model: Any = PeftModel.from_pretrained(tiny_base.fresh_model(), str(adapter))
    ids = tiny_base.tokenizer(PROMPT, return_tensors="pt")
    expected = model.generate(**ids, do_sample=False, max_new_tokens=20)
    words = tiny_base.tokenizer.decode(
        expected[0, ids["input_ids"].shape[1] :], skip_special_tokens=True
    )
    assert "".join(pieces) == words == "second price wins"


def test_what_cannot_be_sampled_is_told(tiny_cache: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"adapter_config\.json"):
        list(sample(SampleOrder(base="tiny", cache=tiny_cache, prompt=PROMPT, adapter=tmp_path)))
    with pytest.raises(InferenceError, match="set_num_threads"):
        list(sample(SampleOrder(base="tiny", cache=tiny_cache, prompt=PROMPT, threads=-1)))
