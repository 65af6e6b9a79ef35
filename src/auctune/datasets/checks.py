"""A row of a data set, checked: every key is known, or the row is refused by its name.

| kind | a row |
| --- | --- |
| chat | {"messages": [{"role": str, "content": str}, ...], "tools": [...]}, as at OpenAI |
| completion | {"prompt": str, "completion": str} |
| text | {"text": str} |
| preference | {"input": {"messages": [...], "tools": [...]}, "preferred_output": [MESSAGE], |
| | "non_preferred_output": [MESSAGE]}, with a message of the assistant each, as at OpenAI |
| unpaired preference | a chat, and "label": whether its last message is liked |

Rows in the forms of other tools are converted first (auctune.datasets.forms). The role `developer`
is read as `system`, `function` as `tool`. An assistant's message may have `tool_calls`, a `weight`:
with 0 it is context and not a target; and `reasoning_content`: what was thought before it. A
message may have a `name`, which the base's chat template may show. Content may be a list of parts
of text. A row may have an `id`, `metadata` and `parallel_tool_calls`, which are not trained on. A
key whose value is null or an empty list counts as absent. Everything else is refused by name:
nothing in a row is ignored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auctune.datasets.forms import convert
from auctune.datasets.json_text import JsonTextError, RepeatedKeyError, load_json
from auctune.domain.dataset import OUTPUT_KEYS, RowKind, is_context
from auctune.domain.errors import InputError, RepairableError

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
"""Roles of messages, and the role that each is read as."""

EXPECTED_ROW = (
    'a JSON object with "messages", or "prompt" and "completion", or "text", or "prompt", "chosen"'
    ' and "rejected"'
)

LABEL_KEYS = ("id", "metadata", "parallel_tool_calls")
"""Keys of a row that no chat template shows: accepted, and not trained on."""

TOOL_KEYS = ("tools", "functions")
"""Keys of a chat row with its tools, as OpenAI's API has them now and had them before."""

CALL_KEYS = ("tool_calls", "function_call")
"""Keys of an assistant's message with its calls of tools, now and before."""

UNSUPPORTED_MESSAGE_KEYS = ("refusal", "audio")
"""Keys of messages that mean something which is not supported."""


_KEYS = {
    RowKind.CHAT: ("messages",),
    RowKind.COMPLETION: ("prompt", "completion"),
    RowKind.TEXT: ("text",),
    RowKind.PREFERENCE: ("input", *OUTPUT_KEYS),
}


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """A row.

    Attributes:
        kind: of it.
        values: as `DataSet` has them.
        form: of another tool that it had in the file; "": OpenAI's.
    """

    kind: RowKind
    values: dict[str, Any]
    form: str = ""


def read_row(text: str, place: str) -> CheckedRow:
    """Return the row that a JSON text is.

    Args:
        text: the row.
        place: how errors call it.

    Raises:
        InputError: naming key and message, if it is no JSON object or a row of no known kind, has
            a key that is not supported, is empty, or has text that is not Unicode. It is a
            `RepairableError` if a vendor may convert the row, or leave it out.
    """
    try:
        row = load_json(text)
    except RepeatedKeyError as error:
        raise InputError(place, str(error), "each key once") from None
    except JsonTextError as error:
        expected = EXPECTED_ROW
        if not text.lstrip().startswith("{"):
            expected += ", or CSV whose first line names its columns, as prompt,completion"
        raise RepairableError(place, str(error), expected) from None
    if not isinstance(row, dict):
        raise RepairableError(place, f"is a JSON {type(row).__name__}, not an object", EXPECTED_ROW)
    converted = convert({key: value for key, value in row.items() if value is not None}, place)
    try:
        kind, values = _check_row(converted.row, place)
    except InputError as error:
        if error.place == place:
            raise
        inner = error.place.removeprefix(f"{place}: ")
        raise error.at(f"{place}: {converted.as_written(inner)}") from None
    return CheckedRow(kind, values, converted.form)


def _check_row(row: Mapping[str, Any], place: str) -> tuple[RowKind, dict[str, Any]]:
    """Return the kind and the values of a row in OpenAI's form."""
    kinds = [kind for kind, keys in _KEYS.items() if keys[-1] in row]
    if kinds == [RowKind.CHAT] and isinstance(row.get("label"), bool):
        kinds = [RowKind.UNPAIRED]
    if len(kinds) != 1:
        keys = ", ".join(map(repr, row)) or "none"
        raise RepairableError(place, f"a row with keys {keys}", EXPECTED_ROW)
    (kind,) = kinds
    known = ("messages", "label") if kind is RowKind.UNPAIRED else _KEYS[kind]
    others = (*LABEL_KEYS, *(TOOL_KEYS if "messages" in known else ()))
    if "label" in row and kind in (RowKind.CHAT, RowKind.COMPLETION):
        raise InputError(f"{place}: label", f"{row['label']!r}"[:60], "true or false")
    for key, value in row.items():
        if key not in (*known, *others) and value != []:
            expected = f"{_quoted(known)} and nothing else (beside {_quoted(LABEL_KEYS)})"
            raise RepairableError(place, f"the key {key!r} is not supported", expected)
    if kind is RowKind.PREFERENCE:
        return kind, _read_preference(row, place)
    if "messages" in known:
        chat = read_chat(row, place)
        _check_answered(chat["messages"], place)
        return kind, chat if kind is RowKind.CHAT else _with_label(chat, row["label"], place)
    for key in known:
        _check_text(row.get(key), f"{place}: {key}", may_be_empty=key == "prompt")
    return kind, {key: row[key] for key in known}


def _with_label(chat: dict[str, Any], label: bool, place: str) -> dict[str, Any]:
    """Return a chat of which the last message alone is a target."""
    *context, answer = chat["messages"]
    if is_context(answer) or not context:
        found = "is alone" if not context else "has weight 0"
        at = f"{place}: messages[{len(context)}]"
        raise InputError(at, found, "an answer, after the messages that it answers")
    return {**chat, "messages": [*_as_context(context), answer], "label": label}


def _as_context(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # What was said before the answer is not what is liked.
    return [one | {"weight": 0} if one["role"] == "assistant" else one for one in messages]


def find_unsupported_in_message(message: Mapping[str, Any]) -> str | None:
    """Return what in a message means something that cannot be trained on; None: nothing."""
    for key in UNSUPPORTED_MESSAGE_KEYS:
        if not is_absent(message.get(key)):
            return f"{key} is not supported"
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind not in _TEXT_PARTS:
            return f"content parts of type {kind!r:.30} are not supported"
    return None


def is_absent(value: object) -> bool:
    """Return whether a key's value counts as no value: null, or an empty list."""
    return value is None or value == []


_MESSAGE_KEYS = (
    "role", "content", "name", "weight", *CALL_KEYS, "tool_call_id", "reasoning_content",
)  # fmt: skip
# As the APIs for chats and for responses name them.
_TEXT_PARTS = ("text", "input_text", "output_text")


def read_chat(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the messages of a chat, and its tools if it has some, as `DataSet` has them.

    No message need be the assistant's.

    Raises:
        InputError: naming the message and the key that is not supported.
    """
    tools = _read_tools(row, place)
    chat: dict[str, Any] = {"messages": _read_messages(row.get("messages"), place)}
    return chat | {"tools": tools} if tools else chat


def _read_messages(messages: Any, place: str) -> list[dict[str, Any]]:
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{place}: messages", "is not a list, or is empty", "a list of messages")
    return [_read_message(value, f"{place}: messages[{n}]") for n, value in enumerate(messages)]


def _check_answered(messages: list[dict[str, Any]], place: str) -> None:
    if not any(message["role"] == "assistant" for message in messages):
        expected = "at least one message of the assistant, as a training target"
        raise RepairableError(f"{place}: messages", "has no message of the assistant", expected)
    last = messages[-1]["role"]
    if last != "assistant":
        # Nothing would be learnt of it, and OpenAI refuses it too.
        found = f"is a message of the {last} behind the last answer"
        place = f"{place}: messages[{len(messages) - 1}]"
        raise RepairableError(place, found, "a chat that ends with the assistant's message")


def _read_preference(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    given = row.get("input")
    known = ("messages", *TOOL_KEYS, *LABEL_KEYS)
    if not isinstance(given, dict) or not given.keys() <= set(known):
        expected = f"an object with {_quoted(known[:1])} (beside {_quoted(known[1:])})"
        raise InputError(f"{place}: input", f"{given!r}"[:60], expected)
    read = read_chat(given, f"{place}: input")
    read["messages"] = _as_context(read["messages"])
    for key in OUTPUT_KEYS:
        messages = row.get(key)
        if not isinstance(messages, list) or len(messages) != 1:
            raise InputError(f"{place}: {key}", f"{messages!r}"[:60], "a list of one message")
        message = _read_message(messages[0], f"{place}: {key}[0]")
        if message["role"] != "assistant" or is_context(message):
            found = f"is a message of the {message['role']}, weight {message.get('weight', 1)}"
            raise InputError(f"{place}: {key}[0]", found, "a message of the assistant, weight 1")
        read[key] = message
    if read[OUTPUT_KEYS[0]] == read[OUTPUT_KEYS[1]]:
        where = f"{place}: {OUTPUT_KEYS[1]}"
        raise InputError(where, "is the same as the better answer", "two different answers")
    return read


def _read_message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise RepairableError(where, "is not an object", 'an object with "role" and "content"')
    given = {key: value for key, value in message.items() if not is_absent(value)}
    unsupported = find_unsupported_in_message(given)
    if unsupported is not None:
        expected = f"messages of text by {', '.join(ROLES)}"
        raise InputError(where, unsupported, expected)
    role = given.get("role")
    if not isinstance(role, str) or role not in ROLES:
        found = "is missing" if role is None else f"{role!r}"[:60]
        raise RepairableError(f"{where}.role", found, f"one of {', '.join(ROLES)}")
    for key in given:
        if key not in _MESSAGE_KEYS:
            expected = f"{_quoted(_MESSAGE_KEYS[:2])} (beside {_quoted(_MESSAGE_KEYS[2:])})"
            raise RepairableError(where, f"the key {key!r} is not supported", expected)
    calls = _read_calls(given, role, where)
    content = _join_parts(given.get("content"), f"{where}.content")
    if content is None and calls:
        content = ""
    may_be_empty = bool(calls) or ROLES[role] == "tool"
    _check_text(content, f"{where}.content", may_be_empty=may_be_empty)
    read = {"role": ROLES[role], "content": content}
    if calls:
        read["tool_calls"] = calls
    if "tool_call_id" in given:
        if ROLES[role] != "tool":
            found = f"is on a message of the {role}"
            raise InputError(f"{where}.tool_call_id", found, "it on messages of tools only")
        _check_text(given["tool_call_id"], f"{where}.tool_call_id")
        read["tool_call_id"] = given["tool_call_id"]
    if "name" in given:
        _check_text(given["name"], f"{where}.name")
        read["name"] = given["name"]
    if "reasoning_content" in given and given["reasoning_content"] != "":
        if role != "assistant":
            found = f"is on a message of the {role}"
            expected = "it on messages of the assistant only"
            raise InputError(f"{where}.reasoning_content", found, expected)
        _check_text(given["reasoning_content"], f"{where}.reasoning_content")
        read["reasoning_content"] = given["reasoning_content"]
    if "weight" in given and _read_weight(given["weight"], role, where) == 0:
        read["weight"] = 0
    return read


def _join_parts(content: Any, where: str) -> Any:
    """Return content as a text, if it is a list of parts of text."""
    if not isinstance(content, list):
        return content
    for number, part in enumerate(content):
        place = f"{where}[{number}]"
        is_part = isinstance(part, dict) and part.keys() == {"type", "text"}
        if not is_part or part["type"] not in _TEXT_PARTS:
            raise RepairableError(place, f"{part!r}"[:60], 'a part {"type": "text", "text": str}')
        _check_text(part["text"], f"{place}.text", may_be_empty=True)
    return "".join(part["text"] for part in content)


def _read_tools(row: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Return a chat's tools as OpenAI's API has them today."""
    given = [key for key in TOOL_KEYS if not is_absent(row.get(key))]
    if not given:
        return []
    if len(given) > 1:
        raise InputError(place, f"has both {_quoted(TOOL_KEYS)}", "one of the two")
    (key,) = given
    tools = row[key]
    if isinstance(tools, str):
        # In columns of Parquet, where structs of all tools would have the same fields.
        try:
            tools = load_json(tools or "[]")
        except JsonTextError as error:
            raise InputError(f"{place}: {key}", str(error), "a list of functions") from None
    if not isinstance(tools, list):
        raise InputError(f"{place}: {key}", "is not a list", "a list of functions")
    read = []
    for number, tool in enumerate(tools):
        where = f"{place}: {key}[{number}]"
        if key == "functions":
            function = tool
        else:
            _check_function_type(tool, where)
            # As the API for responses has them, and data sets of LLaMA-Factory.
            is_flat = "name" in tool and "function" not in tool
            flat = {name: value for name, value in tool.items() if name != "type"}
            function = flat if is_flat else tool.get("function")
        _check_named(function, where)
        read.append({"type": "function", "function": function})
    return read


def _read_calls(message: Mapping[str, Any], role: str, where: str) -> list[dict[str, Any]]:
    """Return a message's calls of tools as OpenAI's API has them today, arguments as objects."""
    given = [key for key in CALL_KEYS if key in message]
    if not given:
        return []
    if role != "assistant" or len(given) > 1:
        found = f"is on a message of the {role}" if role != "assistant" else "is not alone"
        raise InputError(f"{where}.{given[0]}", found, "one of the two on the assistant's messages")
    (key,) = given
    calls = [{"function": message[key]}] if key == "function_call" else message[key]
    if not isinstance(calls, list):
        raise InputError(f"{where}.{key}", "is not a list", "a list of calls")
    read = []
    for number, call in enumerate(calls):
        place = f"{where}.{key}" if key == "function_call" else f"{where}.{key}[{number}]"
        if key == "tool_calls":
            _check_function_type(call, place)
        function = call.get("function")
        _check_named(function, place)
        arguments = _read_arguments(function.get("arguments", "{}"), f"{place}.arguments")
        one = {
            "type": "function",
            "function": {"name": function["name"], "arguments": arguments},
        }
        if "id" in call:
            _check_text(call["id"], f"{place}.id")
            one["id"] = call["id"]
        read.append(one)
    return read


def _check_function_type(value: Any, where: str) -> None:
    if not isinstance(value, dict):
        raise InputError(where, "is not an object", 'an object with "type" and "function"')
    if value.get("type", "function") != "function":
        raise InputError(f"{where}.type", f"{value['type']!r}"[:60], "'function'")


def _check_named(function: Any, where: str) -> None:
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise InputError(where, "has no function with a name", 'a "function" with a "name"')


def _read_arguments(arguments: Any, where: str) -> dict[str, Any]:
    """Return arguments, which OpenAI's API has as JSON in a text, and chat templates as objects."""
    expected = "a JSON object, as a text or as it is"
    if isinstance(arguments, str):
        try:
            arguments = load_json(arguments)
        except JsonTextError as error:
            raise InputError(where, str(error), expected) from None
    if not isinstance(arguments, dict):
        raise InputError(where, f"{arguments!r}"[:60], expected)
    return arguments


def _read_weight(weight: Any, role: str, where: str) -> int:
    if role != "assistant":
        found = f"weight on a message of the {role}"
        raise InputError(f"{where}.weight", found, "weights on messages of the assistant only")
    if isinstance(weight, bool) or weight not in (0, 1):
        raise InputError(f"{where}.weight", f"{weight!r}"[:60], "0 or 1")
    return int(weight)


def _check_text(value: Any, place: str, *, may_be_empty: bool = False) -> None:
    expected = "a text" if may_be_empty else "a text that is not empty"
    if value is None:
        raise RepairableError(place, "is missing", expected)
    if not isinstance(value, str) or not (value.strip() or may_be_empty):
        raise RepairableError(place, f"{value!r}"[:60], expected)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        found = f"has a lone surrogate (\\u{ord(value[error.start]):04x}) at {error.start}"
        raise RepairableError(place, found, "Unicode text with surrogates in pairs only") from None


def _quoted(keys: tuple[str, ...]) -> str:
    return " and ".join(f'"{key}"' for key in keys)
