"""Text from a trained adapter and its evaluation, by a process that ends with the call."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from peft import PeftModel

from auctune.domain import InputError
from auctune.domain.dataset import RowKind
from auctune.domain.generation import GenerationRequest, SamplingParams
from auctune.engine.generation import GeneratorSettings, InferenceError
from auctune.engine.inference import evaluate, sample
from auctune.train.base import Base
from auctune.train.job import LoraJob
from auctune.train.trainer import MultiLoraTrainer
from support.plain_model import plain_evaluation

pytest_plugins = ["support.tiny_bases"]
pytestmark = pytest.mark.slow

PROMPT = "say it: "
GREEDY = SamplingParams(max_tokens=20, temperature=0.0)


def train(base: Base, folder: Path, *rows: dict[str, Any]) -> Path:
    data = folder / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows) * 8)
    trainer = MultiLoraTrainer(base)
    trainer.load(LoraJob("a", data, epochs=40, learning_rate=1e-2, batch_size=4), folder / "work")
    trainer.train({"a": 10**6}, lambda progress: None)
    return trainer.export("a", folder / "adapter").folder


@pytest.fixture
def settings(tiny_cache: Path) -> GeneratorSettings:
    return GeneratorSettings(base="tiny", cache=tiny_cache, checks_base=False)


def test_an_adapter_says_what_it_has_learnt_and_what_peft_would_say(
    tiny_base: Base, settings: GeneratorSettings, tmp_path: Path
) -> None:
    adapter = train(tiny_base, tmp_path, {"prompt": PROMPT, "completion": "second price wins"})
    request = GenerationRequest.of_prompt(RowKind.COMPLETION, PROMPT, GREEDY, adapter)
    pieces = list(sample(settings, request))
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


def chat(word: str) -> dict[str, Any]:
    turns = [
        ("user", f"Say {word} twice."),
        ("assistant", word),
        ("user", "Once more."),
        ("assistant", f"{word} {word}"),
    ]
    return {"messages": [{"role": role, "content": content} for role, content in turns]}


def test_an_evaluation_is_that_of_plain_peft(
    tiny_base: Base, settings: GeneratorSettings, tmp_path: Path
) -> None:
    adapter = train(tiny_base, tmp_path, *map(chat, ("tea", "owl", "map", "ship")))
    data, limits = tmp_path / "rows.jsonl", {"max_rows": 3, "num_answers": 2, "max_tokens": 20}
    data.write_text("".join(json.dumps(chat(word)) + "\n" for word in ("tea", "owl", "ant", "sea")))
    told: list[tuple[str, float]] = []
    report = lambda what, share: told.append((what, share))  # noqa: E731
    found = evaluate(settings, adapter, data, **limits, report=report)
    expected = plain_evaluation(tiny_base, adapter, data, **limits)
    assert (found.kind, found.rows, found.targets) == (RowKind.CHAT, 3, expected.targets)
    for name in ("base", "adapter"):
        score, same = getattr(found, name), getattr(expected, name)
        assert score.loss == pytest.approx(same.loss, rel=1e-5)
        assert score.token_accuracy == same.token_accuracy
    assert found.adapter.loss < found.base.loss
    assert found.answers == expected.answers
    assert [one.adapter for one in found.answers] == ["tea tea", "owl owl"]
    turns = ["user", "Say tea twice.", "assistant", "tea", "user", "Once more.", "assistant"]
    assert found.answers[0].prompt.splitlines() == turns
    assert told[0] == ("loading the base tiny", 0.0)
    assert ("scoring the rows", 1.0) in told
    assert told[-1] == ("answering", 1.0)


def test_texts_have_no_prompts_and_so_no_answers(
    tiny_base: Base, settings: GeneratorSettings, tmp_path: Path
) -> None:
    adapter = train(tiny_base, tmp_path, {"text": "Owls eat mice."})
    found = evaluate(settings, adapter, tmp_path / "data.jsonl", max_rows=1)
    assert (found.rows, found.answers) == (1, ())


def test_what_cannot_be_used_is_told(settings: GeneratorSettings, tmp_path: Path) -> None:
    wrong = GenerationRequest(prompt=PROMPT, params=GREEDY, adapter=tmp_path)
    with pytest.raises(InputError, match=rf"adapter {tmp_path}.*adapter_config\.json"):
        list(sample(settings, wrong))
    rows = tmp_path / "rows.jsonl"
    silent = chat("tea")
    for message in silent["messages"][1::2]:
        message["weight"] = 0
    rows.write_text(json.dumps(silent))
    with pytest.raises(InputError, match="with weight 0 on all messages"):
        evaluate(settings, tmp_path, rows)
    broken = GeneratorSettings(base="tiny", cache=settings.cache, threads=-1)
    with pytest.raises(InferenceError, match="set_num_threads"):
        list(sample(broken, GenerationRequest(prompt=PROMPT)))
