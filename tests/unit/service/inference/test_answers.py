"""Calls of tools in the text of an answer, however it comes in pieces."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.service.inference.answers import ToolCall, ToolCallParser

NAMES = frozenset(("weather", "time"))


def parse(pieces: list[str], names: frozenset[str] = NAMES) -> tuple[str, list[ToolCall]]:
    parser = ToolCallParser(names)
    shown = "".join(parser.add(piece) for piece in pieces)
    rest, calls = parser.finish()
    return shown + rest, calls


def written(name: str, arguments: object) -> str:
    call = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{call}\n</tool_call>"


def test_calls_follow_the_text_before_them() -> None:
    answer = f"Let me see.\n{written('weather', {'city': 'Lisboa é'})}\n{written('time', {})}"
    text, calls = parse([answer])
    assert text == "Let me see."
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        ("weather", {"city": "Lisboa é"}),
        ("time", {}),
    ]
    assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize(
    "answer",
    [
        written("other", {}),
        written("weather", "Lisbon"),
        '<tool_call>{"name": ["weather"]}</tool_call>',
        "<tool_call>{no json}</tool_call>",
        written("weather", {})[:-3],
        f"{written('weather', {})} and more",
        "a <tool_call",
        " blanks at the end  ",
        '<tool_call>{"name": "weather", "arguments": ' + "[" * 5000 + "}</tool_call>",
    ],
)
def test_what_is_no_call_stays_text(answer: str) -> None:
    assert parse([answer]) == (answer, [])
    assert parse(list(answer)) == (answer, [])


@pytest.mark.parametrize("piece", [" ", "<", "\n<tool_call", " <tool_call> "])
def test_however_much_is_held_back_a_piece_is_read_once(piece: str) -> None:
    answer = piece * 5000
    assert parse([piece] * 5000) == (answer, [])
    parser, seen = ToolCallParser(NAMES), 0
    for _ in range(5000):
        parser.add(piece)
        seen = max(seen, *map(len, (parser._begun, *parser._blanks[-2:], *parser._called[-2:])))
    assert seen <= 2 * len(piece)


def test_without_tools_all_is_text() -> None:
    answer = written("weather", {})
    assert parse([answer], frozenset()) == (answer, [])


@given(
    text=st.text("<tool_call> \nab", max_size=30),
    calls=st.lists(st.sampled_from([written("weather", {"a": 1}), written("time", {})])),
    ends=st.lists(st.integers(0, 200)),
)
def test_pieces_are_read_as_the_whole(text: str, calls: list[str], ends: list[int]) -> None:
    answer = text + "".join(calls)
    cuts = [0, *sorted(end for end in ends if end < len(answer)), len(answer)]
    pieces = [answer[first:last] for first, last in pairwise(cuts)]
    shown, found = parse(pieces)
    whole, expected = parse([answer])
    assert shown == whole
    assert [(one.name, one.arguments) for one in found] == [
        (one.name, one.arguments) for one in expected
    ]
    if not expected:
        assert shown == answer
