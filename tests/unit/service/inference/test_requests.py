"""Requests for answers: whatever JSON they are, they are read or refused in one line."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.datasets import read_row
from auctune.domain import InputError
from auctune.engine.messages.generation import GENERATOR_MESSAGES, Generate
from auctune.engine.runtime.channel import decode, encode
from auctune.service.http.requests import read_body
from auctune.service.inference.requests import ChatRequest, CompletionRequest

MESSAGE = {"role": "user", "content": "a"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def chat(**fields: Any) -> ChatRequest:
    body = {"model": "tiny", "messages": [MESSAGE], **fields}
    return read_body(json.dumps(body).encode(), ChatRequest)


def completion(**fields: Any) -> CompletionRequest:
    body = {"model": "tiny", "prompt": "a", **fields}
    return read_body(json.dumps(body).encode(), CompletionRequest)


def test_defaults_are_openais() -> None:
    (request,) = chat().prompts(None)
    params = request.params
    assert (params.temperature, params.top_p, params.num_answers) == (1.0, 1.0, 1)
    assert (params.max_tokens, params.stop, params.seed, params.num_logprobs) == (
        None,
        (),
        None,
        None,
    )
    (request,) = completion().prompts(None)
    assert request.params.max_tokens == 16


def test_null_is_no_value() -> None:
    fields = set(ChatRequest.model_fields) - {"model", "messages"}
    assert chat(**dict.fromkeys(fields)) == chat()
    fields = set(CompletionRequest.model_fields) - {"model", "prompt"}
    assert completion(**dict.fromkeys(fields)) == completion()


def test_messages_are_read_as_rows_of_chats() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    messages = [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        MESSAGE,
        {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None},
        {"role": "tool", "tool_call_id": "c", "content": ""},
    ]
    (request,) = chat(messages=messages, tools=[TOOL]).prompts(None)
    # What is asked for is what a row has as its end.
    answer = {"role": "assistant", "content": "Done."}
    row = read_row(json.dumps({"messages": [*messages, answer], "tools": [TOOL]}), "").values
    assert [*(request.messages or ()), answer] == row["messages"]
    assert list(request.tools) == row["tools"] == [TOOL]


def test_without_tool_choice_no_tools_are_shown() -> None:
    asked = chat(tools=[TOOL], tool_choice="none")
    assert asked.prompts(None)[0].tools == ()
    assert asked.tool_names == frozenset()
    assert chat(tools=[TOOL]).tool_names == {"f"}


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [(1, 2)]),
        ([[1, 2], [3]], [(1, 2), (3,)]),
        (["a", [1]], ["a", (1,)]),
    ],
)
def test_prompts_have_four_forms(prompt: Any, expected: list[Any]) -> None:
    assert [one.prompt for one in completion(prompt=prompt).prompts(None)] == expected


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [1, "a"]}, "prompt[0]"),
        ({"prompt": [True]}, "prompt[0]"),
        ({"prompt": [[-1]]}, "prompt[0]"),
        ({"prompt": ["a"] * 65, "n": 2}, "prompt"),
        ({"best_of": 2}, "best_of"),
        ({"echo": True}, "echo"),
        ({"echo": 0}, "echo"),
        ({"suffix": "a"}, "suffix"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
    ],
)
def test_what_is_wrong_with_a_prompt_is_named(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(InputError) as wrong:
        completion(**fields).prompts(None)
    assert wrong.value.place == place


@pytest.mark.parametrize("depth", [190, 201, 500, 1000, 9000])
@pytest.mark.parametrize(("first", "last"), [("[", "]"), ('{"a":', "}")])
def test_arguments_of_any_depth_are_read_or_refused(depth: int, first: str, last: str) -> None:
    arguments = '{"x": ' + first * depth + ("1" if "{" in first else "") + last * depth + "}"
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = {"model": "tiny", "messages": [MESSAGE, message, MESSAGE]}
    request = read_body(json.dumps(body).encode(), ChatRequest)
    row = json.dumps({"messages": [MESSAGE, message]})
    if depth < 200:
        (found,) = request.prompts(None)
        # As it is sent to the process that answers.
        sent = Generate(id="1", request=found)
        assert (
            decode(encode(sent, GENERATOR_MESSAGES.requests), GENERATOR_MESSAGES.requests) == sent
        )
        read_row(row, "row")
        return
    with pytest.raises(InputError, match="is nested too deeply") as wrong:
        request.prompts(None)
    assert wrong.value.place == "messages[1].tool_calls[0].arguments"
    with pytest.raises(InputError, match="is nested too deeply"):
        read_row(row, "row")


def test_a_row_that_is_nested_too_deeply_is_refused() -> None:
    deep = "[" * 300 + "]" * 300
    with pytest.raises(InputError, match="is nested too deeply"):
        read_row(f'{{"messages": [], "metadata": {deep}}}', "row")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "name"]), inner)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@pytest.mark.parametrize("model", [ChatRequest, CompletionRequest])
@given(data=st.data())
def test_any_json_is_read_or_refused(model: type[Any], data: st.DataObject) -> None:
    fields = st.dictionaries(st.sampled_from([*model.model_fields, "other"]), VALUES)
    body = {"model": "tiny", "messages": [MESSAGE]} if model is ChatRequest else {"model": "tiny"}
    raw = json.dumps({**body, **data.draw(fields)}).encode()
    try:
        requests = read_body(raw, model).prompts(None)
    except InputError:
        return
    assert 1 <= sum(one.params.num_answers for one in requests) <= 128
