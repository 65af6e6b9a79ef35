"""Masks of chats against those of transformers, on the chat templates that TRL ships."""

from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from auctune.domain.errors import InputError
from auctune.train.chat import ChatTemplate
from support import chat_facts
from support.chat_facts import SPECIAL, TEMPLATES, assistant, user

MARKED = [name for name in TEMPLATES if name.endswith("_training")]
# Those whose text is the same with and without marks, and whose turns begin with nothing else.
UNMARKED = (
    "cohere", "gemma", "gemma3", "lfm2_v2", "llama3", "phi3", "phi3_5", "qwen2_5",
    "qwen3_instruct_2507", "qwen3_vl",
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
    return chat_facts.byte_tokenizer(template, SPECIAL)


def masked(template: str, chat: str) -> tuple[list[int], list[bool]]:
    messages, tools = CHATS[chat]
    return ChatTemplate(byte_tokenizer(template)).tokenize(messages, tools, "line 1")


def masked_if_known(template: str, chat: str) -> tuple[list[int], list[bool]] | None:
    """What `masked` returns, or `None` if the template is one that does not know such a chat."""
    try:
        return masked(template, chat)
    except InputError as error:
        # Some know no tools, no system's words, or no texts that are not lists of parts.
        if not any(word in str(error) for word in ("is not shown by", "refused by the base")):
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
        (
            "llama3",
            "tools",
            r"line 1: tools\[0\]: is not shown by the base's chat template; expected messages"
            " without tools, or a base",
        ),
        (
            "lfm2",
            "tools",
            r"messages\[1\].tool_calls\[0\]: is not shown by the base's chat",
        ),
        (
            "nemotron_3_nano",
            "tools",
            r"messages\[1\]: has calls, and its turn does not begin",
        ),
        ("gemma", "a system's words", "line 1: messages: refused by the base's chat template"),
    ],
)
def test_what_a_template_cannot_say_is_refused_by_name(name: str, chat: str, named: str) -> None:
    with pytest.raises(InputError, match=named):
        masked(TEMPLATES[name], chat)
