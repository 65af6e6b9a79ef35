"""Masks of chats against those of transformers, on the chat templates that TRL ships."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from auctune.domain.errors import InputError
from auctune.train.chat import ChatTemplate

FILE = Path(__file__).parents[2] / "data" / "chat_templates.json.xz"
TEMPLATES: dict[str, str] = json.loads(lzma.decompress(FILE.read_bytes()))["templates"]
MARKED = [name for name in TEMPLATES if name.endswith("_training")]
# Those whose text is the same with and without marks, and whose turns begin with nothing else.
UNMARKED = (
    "cohere", "gemma", "gemma3", "lfm2_v2", "llama3", "phi3", "phi3_5", "qwen2_5",
    "qwen3_instruct_2507", "qwen3_vl",
)  # fmt: skip
SPECIAL = (
    "<|im_start|>", "<|im_end|>", "<|end|>", "<|user|>", "<|assistant|>", "<|eot_id|>",
    "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>", "<end_of_turn>", "<turn|>",
    "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|return|>", "<|call|>", "<|channel|>",
)  # fmt: skip

CALLS = [{"type": "function", "function": {"name": "multiply", "arguments": {"a": 2, "b": 3}}}]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "multiply",
            "description": "Multiply two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer", "description": "one"}},
                "required": ["a"],
            },
        },
    }
]


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str, **others: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **others}


TURNS = [user("Hi"), assistant("Hello there."), user("And 2 + 2?"), assistant("Four.")]
CHATS: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "one turn": ([user("Who is Ada?"), assistant("A friend.")], []),
    "a system's words": ([{"role": "system", "content": "Be brief."}, *TURNS], []),
    "an answer that was asked": ([user("four."), assistant("four."), *TURNS], []),
    "tools": (
        [
            user("What is 2 * 3?"),
            assistant("", tool_calls=CALLS),
            {"role": "tool", "name": "multiply", "content": "6"},
            assistant("It is 6."),
        ],
        TOOLS,
    ),
}


def byte_tokenizer(template: str) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({one: n for n, one in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="<|endoftext|>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(SPECIAL)})
    tokenizer.chat_template = template
    return tokenizer


def masked(template: str, chat: str) -> tuple[list[int], list[bool]]:
    messages, tools = CHATS[chat]
    return ChatTemplate(byte_tokenizer(template)).tokenize(messages, tools, "line 1")


def masked_if_known(template: str, chat: str) -> tuple[list[int], list[bool]] | None:
    """What `masked` returns, or `None` if the template is one that does not know such a chat."""
    try:
        return masked(template, chat)
    except InputError as error:
        # Some know no tools, no system's words, or no texts that are not lists of parts.
        if not any(word in str(error) for word in ("is not shown by", "refused by the tokenizer")):
            raise
        return None


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("name", MARKED)
def test_masks_are_those_of_transformers_where_a_template_marks_them(name: str, chat: str) -> None:
    messages, tools = CHATS[chat]
    shown = masked_if_known(TEMPLATES[name], chat)
    if shown is None:
        return
    ids, mask = shown
    found: Any = byte_tokenizer(TEMPLATES[name]).apply_chat_template(
        messages,
        tools=tools or None,
        return_assistant_tokens_mask=True,
        return_dict=True,
        tokenize=True,
    )
    assert ids == found["input_ids"]
    assert mask == [bool(one) for one in found["assistant_masks"]]
    assert any(mask)


@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("name", UNMARKED)
def test_without_marks_all_but_blanks_are_the_same(name: str, chat: str) -> None:
    tokenizer = byte_tokenizer(TEMPLATES[name])
    shown = masked_if_known(TEMPLATES[name], chat)
    if shown is None:
        return
    ids, mask = shown
    marked_ids, marked = masked(TEMPLATES[f"{name}_training"], chat)
    assert ids == marked_ids
    words = [
        n for n, one in enumerate(ids)
        if tokenizer.decode([one]).strip() and one != tokenizer.eos_token_id
    ]  # fmt: skip
    assert [mask[n] for n in words] == [marked[n] for n in words]


def test_templates_that_know_tools_are_not_refused() -> None:
    known = ("qwen2_5", "qwen3_instruct_2507", "qwen3_training", "llama3_1", "gemma4", "lfm2_2_5")
    for name in known:
        ids, mask = masked(TEMPLATES[name], "tools")
        taught = "".join(
            byte_tokenizer("").decode([one]) for one, is_on in zip(ids, mask, strict=True) if is_on
        )
        assert "multiply" in taught
        assert "It is 6." in taught
        assert "What is 2" not in taught


@pytest.mark.parametrize("name", ["qwen2_5", "qwen2_5_training"])
def test_a_call_of_weight_0_is_context(name: str) -> None:
    messages, tools = CHATS["tools"]
    template = ChatTemplate(byte_tokenizer(TEMPLATES[name]))
    light = [messages[0], messages[1] | {"weight": 0}, *messages[2:]]
    ids, mask = template.tokenize(light, tools, "line 1")
    _, whole = template.tokenize(messages, tools, "line 1")
    taught = byte_tokenizer("").decode([i for i, on in zip(ids, mask, strict=True) if on])
    assert "multiply" not in taught
    assert "It is 6." in taught
    assert sum(mask) < sum(whole)


@pytest.mark.parametrize(
    ("name", "chat", "named"),
    [
        ("llama3", "tools", r"line 1: messages\[1\].tool_calls: is not shown by the base's chat"),
        ("qwen3", "tools", r"line 1: messages\[1\]: has calls, shown in another way within the"),
        ("gemma", "a system's words", "line 1: messages: refused by the tokenizer's chat template"),
    ],
)
def test_what_a_template_cannot_say_is_refused_by_name(name: str, chat: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        masked(TEMPLATES[name], chat)
