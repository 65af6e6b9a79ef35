"""Prompts and the ends of answers: as in the rows that were trained on."""

from pathlib import Path
from typing import Any

import pytest

from auctune.domain.dataset import DataSet, RowKind
from auctune.domain.generation import AnswerEnd, AnswerPiece, GenerationRequest, SamplingParams
from auctune.train.base import Base
from auctune.train.generation.engine import Engine
from auctune.train.rows import prompt_tokens, tokenize, turn_end_tokens
from support.chat_facts import TEMPLATES, byte_tokenizer
from support.small_bases import WORDS, build_base

pytest_plugins = ["support.tiny_bases"]


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


def answer(base: Base, prompt: list[int]) -> tuple[list[str], AnswerEnd]:
    """The words of a greedy answer, and how it ends."""
    engine, text, ends = Engine(base), "", []
    params = SamplingParams(max_tokens=20, temperature=0.0)
    engine.add("a", GenerationRequest(prompt=tuple(prompt), params=params))
    while not engine.is_idle:
        for _, piece in engine.step():
            if isinstance(piece, AnswerPiece):
                text += piece.text
            elif isinstance(piece, AnswerEnd):
                ends.append(piece)
    (end,) = ends
    return text.split(), end


def test_an_answer_ends_where_training_ends_a_turn(tmp_path: Path) -> None:
    base = build_base(tmp_path, "llama")
    prompt = base.tokenizer(" ".join(WORDS[:5]))["input_ids"]
    free, _ = answer(base, prompt)
    # As in bases whose chats end turns with another token than texts.
    place = next(n for n in range(1, 20) if free[n] not in free[:n])
    base.tokenizer.add_special_tokens({"additional_special_tokens": [free[place]]})
    base.tokenizer.chat_template = (
        "{% for m in messages %}" + WORDS[0] + " {{ m.content }} " + free[place] + " {% endfor %}"
    )
    assert base.tokenizer.eos_token != free[place]
    words, end = answer(base, prompt)
    assert words == free[:place]
    assert (end.reason, end.num_tokens) == ("stop", place + 1)


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
