"""Rows in the forms of other tools, as rows of OpenAI's form.

| form | a row | is read as |
| --- | --- | --- |
| ShareGPT | `conversations`: [{`from`, `value`}, ...], `system`, `tools` | a chat |
| Alpaca | `instruction`, `input`, `output`, `system`, `history`: [[question, answer], ...] | a chat: the instruction, a blank line and the input are the user's message |
| TRL, chats | `prompt` and `completion`, one of them messages | a chat; of the prompt nothing is a target |
| TRL, preferences | `prompt`, `chosen` and `rejected`, each a text or messages; without a `prompt`, what both begin with | a preference |
| TRL, unpaired preferences | `prompt` and `completion`, each a text or messages, or `messages`; and `label`: true or false | an unpaired preference |

A text is a message: of the user as a prompt, else of the assistant. Keys that no form knows stay, so
that the row is refused by their names.
"""  # noqa: E501 (a table's row cannot be broken)

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from auctune.datasets.json_text import JsonTextError, load_json
from auctune.domain.dataset import OUTPUT_KEYS
from auctune.domain.errors import InputError, RepairableError

Row = dict[str, Any]
Turn = tuple[str, Mapping[str, str]]
"""Where a message stands in the file, and how its keys are written there, if otherwise."""

ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "system": "system",
    "tool": "tool",
    "observation": "tool",
    "function_response": "tool",
}
"""Names of speakers in ShareGPT's form, and the roles that they are."""

_CALL_SPEAKER = "function_call"
_TURN_KEYS = {"role": "from", "content": "value"}
_TEXT_KEYS = {"content": ""}
_MESSAGE = re.compile(r"(?:input: )?messages(?:\[(\d+)\](?:\.(\w+))?)?")


@dataclass(frozen=True, slots=True)
class Converted:
    """A row in OpenAI's form.

    Attributes:
        form: that it had; "": OpenAI's.
        turns: of its messages; empty: as they stand.
        names: of other keys in the file, by their names now.
    """

    row: Row
    form: str = ""
    turns: Sequence[Turn] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def as_written(self, place: str) -> str:
        """Return a place in the row as the place in the file."""
        found = _MESSAGE.match(place)
        if found is not None and found[1] is not None and int(found[1]) < len(self.turns):
            written, keys = self.turns[int(found[1])]
            key = keys.get(found[2], found[2]) if found[2] else ""
            return f"{written}{'.' if key else ''}{key}{place[found.end() :]}"
        for name, written in self.names.items():
            if place.startswith(name):
                return f"{written}{place.removeprefix(name)}"
        return place


def convert(row: Row, place: str) -> Converted:
    """Return a row in OpenAI's form; keys whose value is null are not in it.

    Raises:
        InputError: if it has the keys of another form, and not their values, or keys of both.
    """
    keys = row.keys()
    if "conversations" in keys:
        return _from_sharegpt(row, place)
    if "instruction" in keys:
        return _from_alpaca(row, place)
    if "chosen" in keys or "rejected" in keys:
        return _from_chosen(row, place)
    is_chat = any(isinstance(row.get(key), list) for key in ("prompt", "completion"))
    if "completion" in keys and (is_chat or isinstance(row.get("label"), bool)):
        return _from_prompt(row, place)
    return Converted(row)


def _refuse_beside(row: Row, place: str, form: str, *keys: str) -> None:
    """Refuse a row of a form that has keys of another one too."""
    for key in keys:
        if key in row:
            raise InputError(f"{place}: {key}", f"stands in a row of {form}'s form", "one form")


def _from_sharegpt(row: Row, place: str) -> Converted:
    _refuse_beside(row, place, "ShareGPT", "messages")
    given = row.pop("conversations")
    if not isinstance(given, list):
        raise RepairableError(f"{place}: conversations", "is not a list", "a list of messages")
    places = [f"conversations[{number}]" for number in range(len(given))]
    messages = [
        _from_turn(turn, f"{place}: {where}") for turn, where in zip(given, places, strict=True)
    ]
    turns = [
        (where, _TURN_KEYS if isinstance(turn, dict) and "from" in turn else {})
        for turn, where in zip(given, places, strict=True)
    ]
    return _with_system(row, messages, turns, place, "ShareGPT", {"messages": "conversations"})


def _from_turn(turn: Any, place: str) -> Any:
    if not isinstance(turn, dict) or "from" not in turn:
        # A message by role and content, or refused as one.
        return turn
    rest = {key: value for key, value in turn.items() if key not in ("from", "value")}
    if twice := rest.keys() & {"role", "content", "tool_calls"}:
        raise InputError(place, f'has "from" and {sorted(twice)[0]!r}', '"from" and "value"')
    speaker, value = turn["from"], turn.get("value")
    if speaker != _CALL_SPEAKER:
        role = ROLES.get(speaker, speaker) if isinstance(speaker, str) else speaker
        return {"role": role, "content": value, **rest}
    try:
        calls = load_json(value) if isinstance(value, str) else value
    except JsonTextError as error:
        expected = 'a call: {"name": ..., "arguments": {...}}'
        raise InputError(f"{place}.value", str(error), expected) from None
    listed = calls if isinstance(calls, list) else [calls]
    made = [{"type": "function", "function": call} for call in listed]
    return {"role": "assistant", "content": None, "tool_calls": made, **rest}


def _with_system(
    row: Row,
    messages: list[Any],
    turns: Sequence[Turn],
    place: str,
    form: str,
    names: Mapping[str, str],
    inside: str = "",
) -> Converted:
    """Return a row with these messages, after that of the system which stands beside them.

    Args:
        inside: key of the object that holds the messages; "": the row itself.
    """
    text = row.pop("system", "")
    if not isinstance(text, str):
        raise RepairableError(f"{place}: system", f"{text!r}"[:60], "a text")
    if text.strip():
        first = messages[0] if messages else None
        if isinstance(first, dict) and first.get("role") == "system":
            found = "stands beside a first message of the system"
            raise InputError(f"{place}: system", found, "one of the two")
        messages = [{"role": "system", "content": text}, *messages]
        turns = [("system", _TEXT_KEYS), *turns]
    holder = row[inside] if inside else row
    holder["messages"] = messages
    return Converted(row, form, turns, names)


def _from_alpaca(row: Row, place: str) -> Converted:
    _refuse_beside(row, place, "Alpaca", "messages")
    instruction, given = row.pop("instruction"), row.pop("input", "")
    for key, text in (("instruction", instruction), ("input", given)):
        if not isinstance(text, str):
            raise RepairableError(f"{place}: {key}", f"{text!r}"[:60], "a text")
    asked = "\n\n".join(text for text in (instruction, given) if text.strip())
    past = row.pop("history", [])
    if not isinstance(past, list) or not all(isinstance(p, list) and len(p) == 2 for p in past):
        raise InputError(f"{place}: history", f"{past!r}"[:60], "a list of [question, answer]")
    messages = [
        {"role": role, "content": text}
        for pair in (*past, [asked, row.pop("output", None)])
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ]
    places = [f"history[{number}][{side}]" for number in range(len(past)) for side in (0, 1)]
    turns: list[Turn] = [(where, _TEXT_KEYS) for where in (*places, "instruction", "output")]
    return _with_system(row, messages, turns, place, "Alpaca", {"messages": "instruction"})


def _from_chosen(row: Row, place: str) -> Converted:
    _refuse_beside(row, place, "TRL", "messages", "input", "completion", *OUTPUT_KEYS)
    for key in ("chosen", "rejected"):
        if key not in row:
            raise InputError(f"{place}: {key}", "is missing", '"chosen" and "rejected"')
    better, worse = (_messages(row.pop(key), "assistant") for key in ("chosen", "rejected"))
    has_prompt = "prompt" in row
    prompt = row.pop("prompt", [])
    context, turns = _messages(prompt, "user"), _turns(prompt, "prompt")
    # A dialogue that both answers have, before them.
    most = min(len(better), len(worse)) - 1
    num_common = next((n for n in range(most) if better[n] != worse[n]), max(0, most))
    common = better[:num_common]
    if common and common[num_common - len(context) :] == context:
        context, turns = common, _turns(common, "chosen")
        better, worse = better[num_common:], worse[num_common:]
    if not context:
        expected = 'a "prompt", or messages that both begin with'
        raise InputError(f"{place}: prompt", "is empty" if has_prompt else "is missing", expected)
    row["input"] = {key: row.pop(key) for key in ("tools", "functions") if key in row}
    row |= {OUTPUT_KEYS[0]: better, OUTPUT_KEYS[1]: worse}
    names = dict(zip(OUTPUT_KEYS, ("chosen", "rejected"), strict=True)) | {"input: ": ""}
    return _with_system(row, context, turns, place, "TRL", names, inside="input")


def _from_prompt(row: Row, place: str) -> Converted:
    _refuse_beside(row, place, "TRL", "messages")
    prompt, completion = row.pop("prompt", []), row.pop("completion")
    context = _messages(prompt, "user")
    if "label" not in row:
        context = [
            {**one, "weight": 0}
            if isinstance(one, dict) and one.get("role") == "assistant"
            else one
            for one in context
        ]
    row["messages"] = [*context, *_messages(completion, "assistant")]
    turns = [*_turns(prompt, "prompt"), *_turns(completion, "completion")]
    return Converted(row, "TRL", turns, {"messages": "prompt"})


def _messages(value: Any, role: str) -> list[Any]:
    """Return messages as they are, and a text or one message as a list."""
    if isinstance(value, list):
        return value
    return [value if isinstance(value, dict) else {"role": role, "content": value}]


def _turns(value: Any, name: str) -> list[Turn]:
    """Return where the messages of `_messages` stand."""
    if isinstance(value, list):
        return [(f"{name}[{number}]", {}) for number in range(len(value))]
    return [(name, {} if isinstance(value, dict) else _TEXT_KEYS)]
