import bz2
import json
import lzma
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.datasets import find_kind, read_dataset, read_row
from auctune.domain import InputError
from auctune.domain.dataset import DEFAULT_MAX_ROW_CHARACTERS, RowKind
from auctune.domain.errors import RepairableError

ASK = {"role": "user", "content": "hi"}
ANSWER = {"role": "assistant", "content": "hello"}
OTHER = {"role": "assistant", "content": "go away"}
CALLS = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


def chat(*messages: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"messages": list(messages), **others}


def pair(better: list[dict[str, Any]], worse: list[dict[str, Any]]) -> dict[str, Any]:
    return {"input": chat(ASK), "preferred_output": better, "non_preferred_output": worse}


def read(row: object) -> tuple[RowKind, dict[str, Any]]:
    found = read_row(json.dumps(row), "line 1")
    return found.kind, found.values


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (
            chat(ASK, ANSWER, tools=[{"type": "function"}]),
            "line 1: tools[0]: has no function with a name",
        ),
        (
            chat(ASK, ANSWER, tools=[{"type": "web_search"}]),
            "line 1: tools[0].type: 'web_search'; expected 'function'",
        ),
        (chat(ASK, ANSWER, tools={"name": "f"}), "line 1: tools: is not a list"),
        (
            chat(ASK, ANSWER, tools=[TOOL], functions=[TOOL["function"]]),
            'line 1: has both "tools" and "functions"; expected one of the two',
        ),
        (
            chat(ASK | {"tool_calls": CALLS}, ANSWER),
            "line 1: messages[0].tool_calls: is on a message of the user",
        ),
        (
            chat(ASK, ANSWER | {"tool_calls": CALLS, "function_call": {"name": "f"}}),
            "line 1: messages[1].tool_calls: is not alone",
        ),
        (
            chat(ASK, ANSWER | {"tool_calls": [{"id": "c"}]}),
            "line 1: messages[1].tool_calls[0]: has no function with a name",
        ),
        (
            chat(ASK, ANSWER | {"function_call": {"name": "f", "arguments": "{"}}),
            "line 1: messages[1].function_call.arguments: is not JSON",
        ),
        (
            chat(ASK, ANSWER | {"function_call": {"name": "f", "arguments": "[1]"}}),
            "line 1: messages[1].function_call.arguments: [1]; expected a JSON object",
        ),
        (
            chat(ASK, ANSWER | {"tool_call_id": "c"}),
            "line 1: messages[1].tool_call_id: is on a message of the assistant",
        ),
        (
            chat({"role": "user", "content": [{"type": "text", "text": "?"}, IMAGE]}, ANSWER),
            "line 1: messages[0]: content parts of type 'image_url' are not supported",
        ),
        (
            chat(ASK, {"role": "assistant", "refusal": "No."}),
            "line 1: messages[1]: refusal is not supported",
        ),
        (
            pair([ANSWER], [ANSWER]),
            "line 1: non_preferred_output: is the same as the better answer",
        ),
        (
            pair([ANSWER], [OTHER, OTHER]),
            "line 1: non_preferred_output: [{'role': 'assistant', 'content': 'go away'}",
        ),
        (
            pair([ASK], [OTHER]),
            "line 1: preferred_output[0]: is a message of the user, weight 1; expected a message",
        ),
        (
            pair([ANSWER | {"weight": 0}], [OTHER]),
            "line 1: preferred_output[0]: is a message of the assistant, weight 0",
        ),
        (
            pair([ANSWER], [OTHER]) | {"input": [ASK]},
            "line 1: input: [{'role': 'user', 'content': 'hi'}]; expected an object",
        ),
        (
            pair([ANSWER], [OTHER]) | {"input": {"messages": []}},
            "line 1: input: messages: is not a list, or is empty",
        ),
        (
            {"prompt": "q", "chosen": "a"},
            'line 1: rejected: is missing; expected "chosen" and "rejected"',
        ),
        (
            {"chosen": "a", "rejected": "b"},
            'line 1: prompt: is missing; expected a "prompt", or messages that both begin with',
        ),
        (
            chat(ASK | {"weight": 1}, ANSWER),
            "line 1: messages[0].weight: weight on a message of the user",
        ),
        (chat(ASK, ANSWER | {"weight": 0.5}), "line 1: messages[1].weight: 0.5; expected 0 or 1"),
        (chat(ASK, ANSWER | {"weight": True}), "line 1: messages[1].weight: True; expected 0"),
        (chat(), "line 1: messages: is not a list, or is empty"),
    ],
)
def test_what_no_vendor_could_mend_is_refused_by_name(row: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError) as caught:
        read(row)
    assert str(caught.value).startswith(found)
    assert not isinstance(caught.value, RepairableError)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (chat(ASK, ANSWER, category="greeting"), "line 1: the key 'category' is not supported"),
        ({"text": "a", "url": "b"}, "line 1: the key 'url' is not supported"),
        (chat(ASK, ANSWER | {"mood": 3}), "line 1: messages[1]: the key 'mood' is not supported"),
        (chat(ASK, {"role": "gpt", "content": "x"}), "line 1: messages[1].role: 'gpt'"),
        (chat(ASK, {"role": "assistant", "content": None}), "line 1: messages[1].content: is miss"),
        (chat(ASK, {"role": "assistant", "content": " "}), "line 1: messages[1].content: ' '"),
        (
            chat({"role": "user", "content": [{"type": "text", "txt": "hi"}]}, ANSWER),
            "line 1: messages[0].content[0]: {'type': 'text', 'txt': 'hi'}; expected a part",
        ),
        (chat(ASK), "line 1: messages: has no message of the assistant"),
        ({"prompt": "a"}, "line 1: a row with keys 'prompt'"),
        ({"text": "a", "completion": "b", "prompt": ""}, "line 1: a row with keys"),
        ([1], "line 1: is a JSON list, not an object"),
        ({"text": "a\ud800b"}, r"line 1: text: has a lone surrogate (\ud800) at 1"),
        ({"prompt": "\udc00", "completion": "b"}, r"line 1: prompt: has a lone surrogate (\udc00)"),
        (chat(ASK, ANSWER | {"content": "a\udfff"}), "line 1: messages[1].content: has a lone"),
        (chat(ASK | {"name": "\ud800"}, ANSWER), "line 1: messages[0].name: has a lone surrogate"),
    ],
)
def test_what_a_vendor_may_mend_is_refused_as_such(row: object, found: str) -> None:
    with pytest.raises(RepairableError) as caught:
        read(row)
    assert str(caught.value).startswith(found)
    str(caught.value).encode()


def test_a_key_that_appears_twice_is_refused() -> None:
    with pytest.raises(InputError, match="line 1: the key 'text' appears twice"):
        read_row('{"text": "a", "text": "b"}', "line 1")


@pytest.mark.parametrize(
    ("value", "found"),
    [("9" * 5000, "has a number of more than 4300 digits"), ("[" * 10**5, "is nested too deeply")],
    ids=["number", "depth"],
)
def test_what_python_cannot_read_of_json_is_named_for_users(value: str, found: str) -> None:
    with pytest.raises(RepairableError, match=f"line 1: {found}"):
        read_row(f'{{"text": "a", "id": {value}', "line 1")


def test_a_repeated_key_is_found_in_time_that_follows_the_row() -> None:
    # A search for each key takes ten seconds for this row, in which other owners' files wait.
    keys = [f"{number:05x}" for number in range(24_000)]
    row = "{" + ",".join(f'"{key}":0' for key in (*keys, keys[-1])) + "}"
    assert len(row) < DEFAULT_MAX_ROW_CHARACTERS
    began = time.process_time()
    with pytest.raises(InputError, match=f"the key '{keys[-1]}' appears twice"):
        read_row(row, "line 1")
    assert time.process_time() - began < 1


def test_a_row_is_read_with_what_is_trained_on_alone() -> None:
    dumped: dict[str, Any] = ANSWER | {
        "refusal": None,
        "audio": None,
        "tool_calls": None,
        "annotations": [],
    }
    system = {"role": "developer", "content": "be kind"}
    bad = ANSWER | {"weight": 0}
    row = chat(system, ASK | {"name": "ada"}, bad, ASK, dumped | {"weight": 1})
    row |= {"id": 7, "metadata": {"source": "actor"}, "tools": None, "completion": None}
    assert read(row) == (
        RowKind.CHAT,
        chat({**system, "role": "system"}, ASK | {"name": "ada"}, bad, ASK, ANSWER),
    )
    pair = {"prompt": "", "completion": "b"}
    assert read(pair | {"id": "x", "text": None}) == (RowKind.COMPLETION, pair)
    assert read({"text": "t", "metadata": None}) == (RowKind.TEXT, {"text": "t"})


def test_tools_are_read_as_openai_writes_them_today_whichever_way_they_are_written() -> None:
    call = {"name": "f", "arguments": '{"x": [1, "é"]}'}
    calls: dict[str, Any] = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": call}],
    }
    read_call = {"type": "function", "function": {"name": "f", "arguments": {"x": [1, "é"]}}}
    today = chat(
        ASK,
        calls | {"content": None, "tool_calls": [calls["tool_calls"][0] | {"id": "c"}]},
        {"role": "tool", "tool_call_id": "c", "content": ""},
        ANSWER,
        tools=[TOOL],
        parallel_tool_calls=False,
    )
    expected = chat(
        ASK,
        calls | {"tool_calls": [read_call | {"id": "c"}]},
        {"role": "tool", "content": "", "tool_call_id": "c"},
        ANSWER,
        tools=[TOOL],
    )
    assert read(today) == (RowKind.CHAT, expected)
    assert read(expected) == (RowKind.CHAT, expected)
    before = chat(
        ASK,
        {"role": "assistant", "function_call": call},
        {"role": "function", "name": "f", "content": "3"},
        ANSWER,
        functions=[TOOL["function"]],
    )
    assert read(before) == (
        RowKind.CHAT,
        chat(
            ASK,
            calls | {"tool_calls": [read_call]},
            {"role": "tool", "content": "3", "name": "f"},
            ANSWER,
            tools=[TOOL],
        ),
    )


def test_parts_of_text_are_one_text() -> None:
    parts = [{"type": "text", "text": "How "}, {"type": "text", "text": "are you?"}]
    assert read(chat({"role": "user", "content": parts}, ANSWER)) == (
        RowKind.CHAT,
        chat({"role": "user", "content": "How are you?"}, ANSWER),
    )


def test_errors_name_the_line_of_the_file_and_rows_know_theirs(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"text": "a"}\n\n{"text": "b"}\n')
    dataset = read_dataset(path)
    assert [dataset.place(index) for index in range(len(dataset))] == ["line 1", "line 3"]
    path.write_text('{"text": "a"}\n\n{"prompt": "b", "completion": "c"}\n')
    with pytest.raises(RepairableError, match="file: line 3: is a row of kind completion, while"):
        read_dataset(path, "file")


@given(lengths=st.lists(st.integers(12, 40), min_size=1, max_size=5), limit=st.integers(12, 40))
def test_a_line_of_more_characters_than_allowed_is_refused(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], limit: int
) -> None:
    path = tmp_path_factory.mktemp("rows") / "d.jsonl"
    lines = [json.dumps({"text": "é" * (n - 12)}, ensure_ascii=False) for n in lengths]
    lines = [line.replace('""', '"x"') for line in lines]
    path.write_text("\n".join(lines))
    long = [number for number, line in enumerate(lines, start=1) if len(line) > limit]
    if not long:
        assert len(read_dataset(path, max_row_characters=limit)) == len(lines)
        return
    with pytest.raises(RepairableError, match=f"line {long[0]}: more than {limit} characters"):
        read_dataset(path, max_row_characters=limit)


def test_answers_of_a_pair_come_after_what_was_said_before() -> None:
    row = pair([ANSWER], [OTHER])
    row["input"] = chat(ASK, ANSWER, ASK, tools=[TOOL], parallel_tool_calls=True)
    assert read(row) == (
        RowKind.PREFERENCE,
        {
            "messages": [ASK, ANSWER | {"weight": 0}, ASK],
            "tools": [TOOL],
            "preferred_output": ANSWER,
            "non_preferred_output": OTHER,
        },
    )


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (
            '{"text": "a"}\n{"text": "Köln"}\n'.encode("cp1252"),
            r"file: line 2: has bytes that are not UTF-8 at character 12 \(f6\); .*'ö'",
        ),
        (b'{"text": "a"}\n\n\r\n{"text": "\xff\xfe"}', r"file: line 4: .* \(ff fe\); .*'ÿþ'"),
        ('{"text": "a"}\n'.encode("utf-16"), "^file: looks like UTF-16; expected"),
        ('{"text": "a"}\n'.encode("utf-16-le"), "^file: looks like UTF-16-LE; expected"),
        ('{"text": "a"}\n'.encode("utf-16-be"), "^file: looks like UTF-16-BE; expected"),
        ('{"text": "a"}\n'.encode("utf-32"), "^file: looks like UTF-32; expected"),
        (lzma.compress(b'{"text": "a"}'), r"^file: is compressed \(xz\)"),
        (bz2.compress(b'{"text": "a"}'), r"^file: is compressed \(bzip2\)"),
        (b"PK\x03\x04\x14\x00", r"^file: is compressed \(zip\)"),
    ],
    # Compressed files hold the time.
    ids=range(9),
)
def test_other_encodings_are_named_with_the_line(
    tmp_path: Path, content: bytes, found: str
) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=found) as caught:
        read_dataset(path, "file")
    # Compressed files are not repaired.
    assert isinstance(caught.value, RepairableError) == ("compressed" not in found)


def test_a_byte_order_mark_and_all_ends_of_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_bytes('\ufeff{"text": "é"}\r\n{"text": "b\u2028c"}\r{"text": "d"}'.encode())
    assert [row["text"] for row in read_dataset(path).rows] == ["é", "b\u2028c", "d"]


@pytest.mark.parametrize("role", ["user", "system", "tool"])
def test_a_chat_that_does_not_end_with_the_assistant_is_refused(role: str) -> None:
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    row = {"messages": [*said, {"role": role, "content": "c"}]}
    with pytest.raises(
        RepairableError, match=rf"line 7: messages\[2\]: is a message of the {role}"
    ):
        read_row(json.dumps(row), "line 7")


@pytest.mark.parametrize(("num_blank", "kind"), [(999, RowKind.TEXT), (1000, None)])
def test_the_kind_of_rows_is_looked_for_in_so_many_lines_blank_ones_too(
    tmp_path: Path, num_blank: int, kind: RowKind | None
) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text("\n" * num_blank + '{"text": "a"}\n')
    assert find_kind(path) == kind
