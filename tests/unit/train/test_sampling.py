"""Text drawn from the tiny base, against transformers' own generation."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from auctune.domain import InputError
from auctune.domain.dataset import DataSet, RowKind
from auctune.domain.generation import AnswerEnd, AnswerPiece, GenerationRequest, SamplingParams
from auctune.train.base import Base
from auctune.train.generation.engine import Engine
from auctune.train.job import SampleParams
from auctune.train.rows import prompt_tokens, tokenize, turn_end_tokens
from auctune.train.sampling import _detokenize_stream, continue_tokens, sample_text
from support.chat_facts import TEMPLATES, byte_tokenizer
from support.small_bases import WORDS, build_base

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


def test_an_answer_ends_where_training_ends_a_turn(tmp_path: Path) -> None:
    base = build_base(tmp_path, "llama")
    prompt = base.tokenizer(" ".join(WORDS[:5]))["input_ids"]
    model = base.fresh_model()
    free = "".join(continue_tokens(base, model, prompt, SampleParams(20))).split()
    # As in bases whose chats end turns with another token than texts.
    place = next(n for n in range(1, 20) if free[n] not in free[:n])
    base.tokenizer.add_special_tokens({"additional_special_tokens": [free[place]]})
    base.tokenizer.chat_template = (
        "{% for m in messages %}" + WORDS[0] + " {{ m.content }} " + free[place] + " {% endfor %}"
    )
    assert base.tokenizer.eos_token != free[place]
    answer = "".join(continue_tokens(base, model, prompt, SampleParams(20)))
    assert answer.split() == free[:place]
    engine, piece_texts, ends = Engine(base), [], []
    engine.add(
        "a",
        GenerationRequest(
            prompt=tuple(prompt), params=SamplingParams(max_tokens=20, temperature=0.0)
        ),
    )
    while not engine.is_idle:
        for _, piece in engine.step():
            if isinstance(piece, AnswerPiece):
                piece_texts.append(piece.text)
            elif isinstance(piece, AnswerEnd):
                ends.append(piece)
    assert "".join(piece_texts).split() == free[:place]
    assert [(one.reason, one.num_tokens) for one in ends] == [("stop", place + 1)]


def test_answers_end_with_the_control_token_behind_the_words_or_the_call() -> None:
    for name, ends in {
        "qwen3": {"<|im_end|>"},
        "qwen2_5_training": {"<|im_end|>"},
        "glm4moe": {"<|user|>", "<|observation|>"},
        "gptoss": {"<|return|>", "<|call|>"},
        "phi3_5_training": {"<|end|>"},
        # It shows no texts.
        "smolvlm": set(),
    }.items():
        tokenizer = byte_tokenizer(TEMPLATES[name])
        assert set(tokenizer.convert_ids_to_tokens(sorted(turn_end_tokens(tokenizer)))) == ends


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
