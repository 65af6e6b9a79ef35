"""Text drawn from the tiny base, against transformers' own generation."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from auctune.domain import InputError
from auctune.domain.dataset import DataSet, RowKind
from auctune.train.base import Base
from auctune.train.job import SampleParams
from auctune.train.rows import prompt_tokens, tokenize
from auctune.train.sampling import _detokenize_stream, sample_text

pytest_plugins = ["support.tiny_bases"]

PROMPT = "The sum of"


def text_of(base: Base, prompt: str = PROMPT, **params: object) -> str:
    pieces = list(
        sample_text(base, None, RowKind.TEXT, prompt, SampleParams(**params))  # type: ignore[arg-type]
    )
    assert all(pieces)
    return "".join(pieces)


def test_greedy_text_is_what_transformers_generates(tiny_base: Base) -> None:
    ids = tiny_base.tokenizer(PROMPT, return_tensors="pt")
    expected = tiny_base.fresh_model().generate(**ids, do_sample=False, max_new_tokens=40)[
        0, ids["input_ids"].shape[1] :
    ]
    assert text_of(tiny_base, max_tokens=40) == tiny_base.tokenizer.decode(
        expected, skip_special_tokens=True
    )


def test_draws_follow_their_seed_and_temperature(tiny_base: Base) -> None:
    hot = [text_of(tiny_base, max_tokens=12, temperature=1.5, seed=n) for n in (1, 1, 2)]
    assert hot[0] == hot[1] != hot[2]
    greedy = text_of(tiny_base, max_tokens=12)
    assert text_of(tiny_base, max_tokens=12, temperature=1e-30, seed=3) == greedy


def test_single_tokens_come_as_often_as_the_model_says(tiny_base: Base) -> None:
    with torch.no_grad():
        ids = tiny_base.tokenizer(PROMPT, return_tensors="pt")["input_ids"]
        chances = tiny_base.model(input_ids=ids).logits[0, -1].float().softmax(-1)
    likeliest = int(chances.argmax())
    num = 100
    drawn = Counter(
        text_of(tiny_base, max_tokens=1, temperature=1.0, seed=seed) for seed in range(num)
    )
    chance = float(chances[likeliest])
    found = drawn[str(tiny_base.tokenizer.decode([likeliest]))] / num
    assert abs(found - chance) < 4 * (chance * (1 - chance) / num) ** 0.5 + 1e-9


def test_pieces_are_whole_characters(tiny_base: Base) -> None:
    text = "naïve 数 🙂 end"
    ids = tiny_base.tokenizer(text)["input_ids"]
    assert len(ids) > len(text)
    pieces = list(_detokenize_stream(iter(ids), tiny_base.tokenizer))
    assert "".join(pieces) == text
    assert "\ufffd" not in "".join(pieces)


@pytest.mark.parametrize("template", [True, False])
def test_a_prompt_begins_as_the_rows_that_were_trained_on(tiny_base: Base, template: bool) -> None:
    tokenizer = tiny_base.tokenizer
    if not template:
        tokenizer.chat_template = None
    chat = {
        "messages": [
            {"role": "user", "content": "What is a bid?"},
            {"role": "assistant", "content": "An offer."},
        ]
    }
    rows: dict[RowKind, tuple[dict[str, Any], str]] = {
        RowKind.TEXT: ({"text": "What is a bid? An offer."}, "What is a bid?"),
        RowKind.COMPLETION: (
            {"prompt": "What is a bid?", "completion": " An offer."}, "What is a bid?"
        ),
        RowKind.CHAT: (chat, "What is a bid?"),
    }  # fmt: skip
    for kind, (row, prompt) in rows.items():
        (trained,) = tokenize(DataSet(kind, (row,)), tokenizer, 512).rows
        ids = prompt_tokens(kind, prompt, tokenizer)
        assert trained.input_ids[: len(ids)].tolist() == ids, kind
        if kind is not RowKind.TEXT:
            # All that is left is what was learnt.
            assert trained.num_trained_tokens == len(trained) - len(ids), kind


def test_prompts_and_adapters_that_cannot_be_used_are_refused(
    tiny_base: Base, tmp_path: Path
) -> None:
    for prompt in ("", "many words " * 300):
        with pytest.raises(InputError, match="prompt"):
            text_of(tiny_base, prompt)
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / "adapter_model.bin").write_bytes(b"a pickle")
    with pytest.raises(InputError, match=r"adapter_model\.safetensors"):
        sample_text(tiny_base, tmp_path, RowKind.TEXT, PROMPT, SampleParams())
    for wrong in ({"max_tokens": 0}, {"temperature": -1.0}, {"seed": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            SampleParams(**wrong)
