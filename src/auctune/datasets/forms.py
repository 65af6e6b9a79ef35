"""Rows in the forms of other tools, as rows of OpenAI's form.

| form | a row | is read as |
| --- | --- | --- |
| ShareGPT | `conversations`: [{`from`, `value`}, ...], `system`, `tools` | a chat |
| Alpaca | `instruction`, `input`, `output`, `system`, `history`: [[question, answer], ...] | a chat: the instruction, a blank line and the input are the user's message |
| TRL, chats | `prompt` and `completion` as messages | a chat; of the prompt nothing is a target |
| TRL, preferences | `prompt`, `chosen` and `rejected`, each a text or messages; without a `prompt`, what both begin with | a preference |
| TRL, unpaired preferences | `prompt` and `completion`, each a text or messages, or `messages`; and `label`: true or false | an unpaired preference |

A text is a message: of the user as a prompt, else of the assistant. Keys that no form knows stay, so
that the row is refused by their names.
"""  # noqa: E501 (a table's row cannot be broken)

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from auctune.domain.dataset import OUTPUT_KEYS
from auctune.domain.errors import InputError, RepairableError

Row = dict[str, Any]

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


@dataclass(frozen=True, slots=True)
class Converted:
    """A row in OpenAI's form.

    Attributes:
        form: that it had; "": OpenAI's.
        names: what errors call keys of the row, by the keys that it has now.
    """

    row: Row
    form: str = ""
    names: Mapping[str, str] = field(default_factory=dict)


def convert(row: Row, place: str) -> Converted:
    """Return a row in OpenAI's form; keys whose value is null are not in it.

    Raises:
        InputError: if it has the keys of another form, and not their values.
    """
    keys = row.keys()
    if "conversations" in keys:
        return _from_sharegpt(row, place)
    if "instruction" in keys:
        return _from_alpaca(row, place)
    if "chosen" in keys or "rejected" in keys:
        return _from_chosen(row, place)
    if isinstance(row.get("label"), bool) and ("messages" in keys or "completion" in keys):
        return _from_label(row)
    if isinstance(row.get("prompt"), list) and isinstance(row.get("completion"), list):
        chat = _context(row.pop("prompt")) + row.pop("completion")
        return Converted({**row, "messages": chat}, "TRL", {"messages": "prompt and completion"})
    return Converted(row)


def _from_sharegpt(row: Row, place: str) -> Converted:
    turns = row.pop("conversations")
    if "messages" in row or not isinstance(turns, list):
        found = 'has "messages" too' if "messages" in row else "is not a list"
        raise RepairableError(f"{place}: conversations", found, "one list of messages")
    messages = [
        _from_turn(turn, f"{place}: conversations[{number}]") for number, turn in enumerate(turns)
    ]
    made = {**row, "messages": _system(row, messages, place)}
    made.pop("system", None)
    return Converted(made, "ShareGPT", {"messages": "conversations"})


def _from_turn(turn: Any, place: str) -> Any:
    if not isinstance(turn, dict) or "from" not in turn:
        # A message by role and content, or refused as one.
        return turn
    rest = {key: value for key, value in turn.items() if key not in ("from", "value")}
    speaker, value = turn["from"], turn.get("value")
    if speaker != _CALL_SPEAKER:
        role = ROLES.get(speaker, speaker) if isinstance(speaker, str) else speaker
        return {"role": role, "content": value, **rest}
    try:
        calls = json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        found, expected = f"is not JSON ({error})", 'a call: {"name": ..., "arguments": {...}}'
        raise InputError(f"{place}.value", found, expected) from None
    listed = calls if isinstance(calls, list) else [calls]
    made = [{"type": "function", "function": call} for call in listed]
    return {"role": "assistant", "content": None, "tool_calls": made, **rest}


def _system(row: Row, messages: list[Any], place: str) -> list[Any]:
    """Return messages after that of the system which stands beside them."""
    text = row.get("system")
    if not isinstance(text, str) or not text.strip():
        return messages
    first = messages[0] if messages else None
    if isinstance(first, dict) and first.get("role") == "system":
        raise InputError(f"{place}: system", "stands beside a first message of the system", "one")
    return [{"role": "system", "content": text}, *messages]


def _from_alpaca(row: Row, place: str) -> Converted:
    known = ("instruction", "input", "output", "system", "history")
    instruction, given = row["instruction"], row.get("input", "")
    for key, text in (("instruction", instruction), ("input", given)):
        if not isinstance(text, str):
            raise RepairableError(f"{place}: {key}", f"{text!r}"[:60], "a text")
    asked = "\n\n".join(text for text in (instruction, given) if text.strip())
    past = row.get("history") or []
    if not isinstance(past, list) or not all(isinstance(p, list) and len(p) == 2 for p in past):
        raise InputError(f"{place}: history", f"{past!r}"[:60], "a list of [question, answer]")
    turns = [
        {"role": role, "content": text}
        for pair in (*past, [asked, row.get("output")])
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ]
    made = {key: value for key, value in row.items() if key not in known}
    made["messages"] = _system(row, turns, place)
    return Converted(made, "Alpaca", {"messages": "history, instruction and output"})


def _from_chosen(row: Row, place: str) -> Converted:
    names = dict(zip(OUTPUT_KEYS, ("chosen", "rejected"), strict=True)) | {"input": "prompt"}
    missing = next((key for key in ("chosen", "rejected") if key not in row), None)
    if missing is not None:
        raise InputError(f"{place}: {missing}", "is missing", '"chosen" and "rejected"')
    answers = [_messages(row.pop(key), "assistant") for key in ("chosen", "rejected")]
    context = _messages(row.pop("prompt", []), "user")
    # A dialogue that both answers have, before them.
    num_common = 0
    for better, worse in zip(*answers, strict=False):
        if better != worse:
            break
        num_common += 1
    if num_common == min(map(len, answers)):
        num_common = max(0, num_common - 1)
    common = answers[0][:num_common]
    if common and common[len(common) - len(context) :] == context:
        context, answers = common, [one[num_common:] for one in answers]
    if not context:
        expected = 'a "prompt", or messages that both begin with'
        raise InputError(f"{place}: prompt", "is missing", expected)
    given: Row = {"messages": _system(row, context, place)}
    row.pop("system", None)
    given |= {key: row.pop(key) for key in ("tools", "functions") if key in row}
    made = {**row, "input": given, OUTPUT_KEYS[0]: answers[0], OUTPUT_KEYS[1]: answers[1]}
    return Converted(made, "TRL", names)


def _from_label(row: Row) -> Converted:
    if "messages" in row:
        return Converted(row)
    context, answer = row.pop("prompt", []), row.pop("completion")
    messages = _messages(context, "user") + _messages(answer, "assistant")
    return Converted({**row, "messages": messages}, "TRL", {"messages": "prompt and completion"})


def _messages(value: Any, role: str) -> list[Any]:
    """Return messages as they are, and a text or one message as a list."""
    if isinstance(value, list):
        return value
    return [value if isinstance(value, dict) else {"role": role, "content": value}]


def _context(messages: list[Any]) -> list[Any]:
    """Return messages without targets."""
    return [
        {**one, "weight": 0} if isinstance(one, dict) and one.get("role") == "assistant" else one
        for one in messages
    ]
