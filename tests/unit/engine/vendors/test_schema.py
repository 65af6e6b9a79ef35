from typing import Any

import pytest

from auctune.engine.vendors.schema import shape_row

CHAT = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}


ANSWER = {"role": "assistant", "content": "3"}


@pytest.mark.parametrize(
    ("row", "shaped"),
    [
        (
            {"instruction": "Add", "input": "1 2", "output": "3", "text": "all of it"},
            {"messages": [{"role": "user", "content": "Add\n\n1 2"}, ANSWER]},
        ),
        (
            {"instruction": "Add", "input": "", "output": "3"},
            {"messages": [{"role": "user", "content": "Add"}, ANSWER]},
        ),
        ({"Question": "q?", "Answer": "a"}, {"prompt": "q?\n", "completion": "a"}),
        (
            {"question": "q?", "context": "c", "answer": "a"},
            {"prompt": "q?\n\nc\n", "completion": "a"},
        ),
        ({"input": "q?", "output": 4}, {"prompt": "q?\n", "completion": "4"}),
        ({"prompt": "q?", "completion": " a", "id": 3}, {"prompt": "q?", "completion": " a"}),
        (
            {"system": "s", "prompt": "q", "response": "a"},
            {"prompt": "s\n\nq\n", "completion": "a"},
        ),
        (
            {
                "conversations": [
                    {"from": "human", "value": "hi"},
                    {"from": "gpt", "value": "hello"},
                ]
            },
            CHAT,
        ),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                    {"role": "Assistant", "content": "hello", "weight": 1},
                ],
                "text": "left aside",
            },
            CHAT,
        ),
        ({"content": "t"}, {"text": "t"}),
        ("t", {"text": "t"}),
    ],
)
def test_names_that_other_tools_use_are_understood(row: Any, shaped: dict[str, Any]) -> None:
    result = shape_row(row)
    assert result is not None
    assert result.to_json() == shaped


@pytest.mark.parametrize(
    "row",
    [
        {},
        5,
        [1],
        {"label": 1},
        {"prompt": "no answer"},
        {"question": "q", "answers": ["a", "b"]},
        {"question": "q", "answer": ["a", "b"]},
        {"messages": []},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]},
        {"text": float("nan")},
        {"text": True},
    ],
)
def test_rows_of_no_known_shape_are_refused(row: Any) -> None:
    assert shape_row(row) is None
