"""Rows in the forms of other tools are the same rows in OpenAI's form, or refused by name."""

import json
from typing import Any

import pytest

from auctune.datasets import read_row
from auctune.domain import InputError
from auctune.domain.dataset import RowKind

ASK, ANSWER = {"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}
AGAIN, OTHER = {"role": "user", "content": "and?"}, {"role": "assistant", "content": "go away"}
SYSTEM = {"role": "system", "content": "be kind"}
CALL = {"name": "f", "arguments": {"x": 1}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CONTEXT = ANSWER | {"weight": 0}

Row = dict[str, Any]


def pair(context: list[Row], better: Row = ANSWER, worse: Row = OTHER, **others: Any) -> Row:
    given = {"messages": context, **others}
    return {"input": given, "preferred_output": [better], "non_preferred_output": [worse]}


def turn(speaker: str, value: Any) -> Row:
    return {"from": speaker, "value": value}


@pytest.mark.parametrize(
    ("form", "row", "same"),
    [
        (
            "ShareGPT",
            {"conversations": [turn("human", "hi"), turn("gpt", "hello")], "id": "a_0"},
            {"messages": [ASK, ANSWER]},
        ),
        (
            "ShareGPT",
            {"conversations": [turn("human", "hi"), ANSWER], "system": "be kind", "tools": "[]"},
            {"messages": [SYSTEM, ASK, ANSWER]},
        ),
        (
            "ShareGPT",
            {
                "conversations": [
                    turn("system", "be kind"),
                    turn("user", "hi"),
                    turn("function_call", json.dumps(CALL)),
                    turn("observation", "3"),
                    turn("assistant", "hello") | {"weight": 0},
                    turn("human", "and?"),
                    turn("gpt", "hello"),
                ],
                "tools": json.dumps([TOOL]),
            },
            {
                "messages": [
                    SYSTEM,
                    ASK,
                    {"role": "assistant", "tool_calls": [{"type": "function", "function": CALL}]},
                    {"role": "tool", "content": "3"},
                    CONTEXT,
                    AGAIN,
                    ANSWER,
                ],
                "tools": [TOOL],
            },
        ),
        (
            "Alpaca",
            {"instruction": "hi", "input": "", "output": "hello"},
            {"messages": [ASK, ANSWER]},
        ),
        (
            "Alpaca",
            {
                "instruction": "Add.",
                "input": "1 2",
                "output": "3",
                "system": "be kind",
                "history": [["hi", "hello"]],
            },
            {
                "messages": [
                    SYSTEM,
                    ASK,
                    ANSWER,
                    {"role": "user", "content": "Add.\n\n1 2"},
                    {"role": "assistant", "content": "3"},
                ]
            },
        ),
        (
            "ShareGPT",
            {
                "conversations": [turn("human", "hi"), turn("gpt", "hello")],
                "tools": '[{"name": "f", "parameters": {"type": "object"}}]',
            },
            {"messages": [ASK, ANSWER], "tools": [TOOL]},
        ),
        ("TRL", {"prompt": [ASK], "completion": "hello"}, {"messages": [ASK, ANSWER]}),
        (
            "TRL",
            {"prompt": [ASK, ANSWER, AGAIN], "completion": [ANSWER]},
            {"messages": [ASK, CONTEXT, AGAIN, ANSWER]},
        ),
        ("TRL", {"prompt": "hi", "chosen": "hello", "rejected": "go away"}, pair([ASK])),
        ("TRL", {"prompt": [ASK], "chosen": [ANSWER], "rejected": OTHER}, pair([ASK])),
        (
            "TRL",
            {"prompt": "hi", "chosen": [ASK, ANSWER], "rejected": [ASK, OTHER], "system": ""},
            pair([ASK]),
        ),
        (
            "TRL",
            {"chosen": [SYSTEM, ASK, ANSWER], "rejected": [SYSTEM, ASK, OTHER]},
            pair([SYSTEM, ASK]),
        ),
        (
            "TRL",
            {"prompt": "hi", "chosen": "hello", "rejected": "go away", "system": "be kind"}
            | {"tools": [TOOL], "metadata": {"score": 3}},
            pair([SYSTEM, ASK], tools=[TOOL]),
        ),
        (
            "TRL",
            {"prompt": "hi", "completion": "hello", "label": True},
            {"messages": [ASK, ANSWER], "label": True},
        ),
        (
            "TRL",
            {"prompt": [ASK, ANSWER, AGAIN], "completion": [OTHER], "label": False},
            {"messages": [ASK, ANSWER, AGAIN, OTHER], "label": False},
        ),
    ],
)
def test_a_row_of_another_form_is_the_same_row(form: str, row: Row, same: Row) -> None:
    found, expected = read_row(json.dumps(row), "line 1"), read_row(json.dumps(same), "line 1")
    assert (found.kind, found.values) == (expected.kind, expected.values)
    assert (found.form, expected.form) == (form, "")


def test_of_an_unpaired_preference_the_last_message_alone_is_a_target() -> None:
    row = {"messages": [ASK, ANSWER, AGAIN, OTHER], "tools": [TOOL], "label": False}
    found = read_row(json.dumps(row), "line 1")
    assert found.kind is RowKind.UNPAIRED
    assert found.values == row | {"messages": [ASK, CONTEXT, AGAIN, OTHER]}


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (
            {"conversations": [turn("narrator", "hi"), turn("gpt", "hello")]},
            "line 1: conversations[0].from: 'narrator'; expected one of",
        ),
        (
            {"conversations": [turn("human", 7), turn("gpt", "hello")]},
            "line 1: conversations[0].value: 7; expected a text",
        ),
        (
            {"conversations": [turn("human", "hi"), turn("function_call", "{")]},
            "line 1: conversations[1].value: is not JSON",
        ),
        (
            {"conversations": [turn("human", "hi") | {"mood": "sad"}, turn("gpt", "hello")]},
            "line 1: conversations[0]: the key 'mood' is not supported",
        ),
        ({"conversations": "hi"}, "line 1: conversations: is not a list"),
        (
            {"conversations": [], "messages": [ASK, ANSWER]},
            "line 1: messages: stands in a row of ShareGPT's form; expected one form",
        ),
        (
            {"conversations": [turn("human", "hi"), turn("gpt", "hello")], "model": "gpt-4"},
            "line 1: the key 'model' is not supported",
        ),
        (
            {"conversations": [SYSTEM, ASK, ANSWER], "system": "be brief"},
            "line 1: system: stands beside a first message of the system",
        ),
        ({"instruction": "hi"}, "line 1: output: is missing"),
        ({"instruction": ["hi"], "output": "a"}, "line 1: instruction: ['hi']; expected a text"),
        (
            {"instruction": "hi", "output": "a", "history": ["b"]},
            "line 1: history: ['b']; expected a list of [question, answer]",
        ),
        (
            {"instruction": "hi", "output": "a", "text": "Below is an instruction"},
            "line 1: a row with keys 'text', 'messages'",
        ),
        (
            {"prompt": "hi", "chosen": [ASK, ANSWER, AGAIN], "rejected": OTHER},
            "line 1: chosen: [{'role': 'user', 'content': 'hi'}",
        ),
        (
            {"prompt": "hi", "chosen": "hello", "rejected": "hello"},
            "line 1: rejected: is the same as the better answer",
        ),
        (
            {"prompt": "hi", "chosen": "hello", "rejected": "go", "score_chosen": 0.5},
            "line 1: the key 'score_chosen' is not supported",
        ),
        (
            {"prompt": ["hi"], "chosen": "hello", "rejected": "go"},
            "line 1: prompt[0]: is not an object",
        ),
        (
            {"messages": [ANSWER], "label": True},
            "line 1: messages[0]: is alone; expected an answer, after the messages",
        ),
        (
            {"messages": [ASK, CONTEXT], "label": True},
            "line 1: messages[1]: has weight 0; expected an answer",
        ),
        ({"text": "a", "label": True}, "line 1: the key 'label' is not supported"),
        ({"messages": [ASK, ANSWER], "label": 3}, "line 1: label: 3; expected true or false"),
        (
            {"messages": [ASK | {"reasoning_content": "hm"}, ANSWER]},
            "line 1: messages[0].reasoning_content: is on a message of the user",
        ),
        (
            {"messages": [ASK, ANSWER | {"reasoning_content": 3}]},
            "line 1: messages[1].reasoning_content: 3; expected a text",
        ),
        ({"messages": [ASK, ANSWER], "tools": "["}, "line 1: tools: is not JSON"),
        (
            {"messages": [ASK, ANSWER], "tools": "[" * 9999},
            "line 1: tools: is nested too deeply",
        ),
        (
            {"messages": [ASK, ANSWER], "tools": '[{"name": "f", "name": "g"}]'},
            "line 1: tools: the key 'name' appears twice",
        ),
        (
            {"conversations": [ASK, ANSWER], "system": ["be brief"]},
            "line 1: system: ['be brief']; expected a text",
        ),
        (
            {"conversations": [turn("human", " "), turn("gpt", "hello")], "system": "be kind"},
            "line 1: conversations[0].value: ' '; expected a text",
        ),
        (
            {"conversations": [turn("human", "hi") | {"content": "ho"}, turn("gpt", "hello")]},
            "line 1: conversations[0]: has \"from\" and 'content'",
        ),
        (
            {"instruction": "hi", "output": "hello", "messages": [ASK, ANSWER]},
            "line 1: messages: stands in a row of Alpaca's form; expected one form",
        ),
        (
            {"instruction": "hi", "output": "hello", "history": 0},
            "line 1: history: 0; expected a list",
        ),
        (
            {"instruction": "hi", "output": "hello", "history": [["a", " "]]},
            "line 1: history[0][1]: ' '; expected a text",
        ),
        (
            {"prompt": "hi", "chosen": "hello", "rejected": "go", "input": {}},
            "line 1: input: stands in a row of TRL's form",
        ),
        (
            {"prompt": [ASK], "completion": [ANSWER], "messages": [ASK, ANSWER]},
            "line 1: messages: stands in a row of TRL's form",
        ),
        (
            {"prompt": "hi", "completion": [ANSWER | {"mood": 1}]},
            "line 1: completion[0]: the key 'mood' is not supported",
        ),
        (
            {"prompt": " ", "completion": "hello", "label": True},
            "line 1: prompt: ' '; expected a text",
        ),
        (
            {"prompt": "hi", "completion": "hello", "label": "yes"},
            "line 1: label: 'yes'; expected true or false",
        ),
    ],
)
def test_what_a_form_does_not_know_is_refused_by_the_name_in_the_file(row: Row, found: str) -> None:
    with pytest.raises(InputError) as caught:
        read_row(json.dumps(row), "line 1")
    assert str(caught.value).startswith(found)
