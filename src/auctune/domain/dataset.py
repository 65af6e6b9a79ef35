"""Training data: JSONL files of one kind of row each.

| kind | a row |
| --- | --- |
| chat | {"messages": [{"role": str, "content": str}, ...], "tools": [...]}, as at OpenAI |
| completion | {"prompt": str, "completion": str} |
| text | {"text": str} |
| preference | {"input": {"messages": [...], "tools": [...]}, "preferred_output": [MESSAGE], |
| | "non_preferred_output": [MESSAGE]}, with a message of the assistant each, as at OpenAI |

Blank lines are skipped. The role `developer` is read as `system`, `function` as `tool`. An
assistant's message may have `tool_calls`, and a `weight`: with 0 it is context and not a target. A
message may have a `name`, which the base's chat template may show. Content may be a list of parts
of text. A row may have an `id`, `metadata` and `parallel_tool_calls`, which are not trained on. A
key whose value is null or an empty list counts as absent. Everything else is refused by name:
nothing in a row is ignored.
"""

import codecs
import itertools
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

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
    'a JSON object with "messages", or "prompt" and "completion", or "text", or "input",'
    ' "preferred_output" and "non_preferred_output"'
)

DEFAULT_MAX_LENGTH = 2048
"""Tokens of a row at most, where neither job nor zone nor the base's context says otherwise."""

DEFAULT_MAX_ROW_CHARACTERS = 250_000
"""Characters of a row's line at most: some 60,000 tokens, for which a tokenizer takes half a second
on one core. A row is tokenized in one piece, which nothing can interrupt."""

_MAX_LINES_FOR_KIND = 1000
# Nesting that pydantic and chat templates can write again.
_MAX_DEPTH = 200

LABEL_KEYS = ("id", "metadata", "parallel_tool_calls")
"""Keys of a row that no chat template shows: accepted, and not trained on."""

TOOL_KEYS = ("tools", "functions")
"""Keys of a chat row with its tools, as OpenAI's API has them now and had them before."""

CALL_KEYS = ("tool_calls", "function_call")
"""Keys of an assistant's message with its calls of tools, now and before."""

OUTPUT_KEYS = ("preferred_output", "non_preferred_output")
"""Keys of the answers of a preference row, the better one first."""

OTHER_PREFERENCE_KEYS = ("chosen", "rejected")
"""Keys of preference rows in another form, which is not supported."""

UNSUPPORTED_MESSAGE_KEYS = ("refusal", "audio")
"""Keys of messages that mean something which is not supported."""


class RowKind(StrEnum):
    """What the rows of a data set look like."""

    CHAT = "chat"
    COMPLETION = "completion"
    TEXT = "text"
    PREFERENCE = "preference"


class DropCause(StrEnum):
    """Why a row has nothing to learn."""

    PROMPT_TOO_LONG = "prompt_too_long"
    """What is to be learnt begins beyond `max_length`."""
    WEIGHTS_ZERO = "weights_zero"
    """All messages of the assistant have weight 0."""
    NO_TARGET = "no_target"
    """There is no token after the first one."""
    SAME_ANSWERS = "same_answers"
    """The answers of a pair do not differ within `max_length`."""


CAUSE_WORDS: Mapping[str, str] = {
    DropCause.PROMPT_TOO_LONG: "with a prompt that fills max_length",
    DropCause.WEIGHTS_ZERO: "with weight 0 on all messages of the assistant",
    DropCause.NO_TARGET: "of one token",
    DropCause.SAME_ANSWERS: "with two answers that differ beyond max_length",
}
"""Causes for people, after a count of rows."""


CUT_CAUSES = (DropCause.PROMPT_TOO_LONG, DropCause.SAME_ANSWERS)
"""Causes that a larger `max_length` removes."""

_KEYS = {
    RowKind.CHAT: ("messages",),
    RowKind.COMPLETION: ("prompt", "completion"),
    RowKind.TEXT: ("text",),
    RowKind.PREFERENCE: ("input", *OUTPUT_KEYS),
}


@dataclass(frozen=True, slots=True)
class DataSet:
    """Rows of one kind, as read from a file.

    Attributes:
        kind: of all rows.
        rows: with the keys of their kind alone. A chat has `messages`, and `tools` if the file
            has some. A message has `role` and `content`, `name`, `tool_calls` and `tool_call_id`
            if the file has them, and `weight` if that is 0. Arguments of calls are objects. A
            preference has the chat before the answers, of context alone, and the answer of each of
            `OUTPUT_KEYS`, a message.
        lines: of the file, from 1, by row; empty for rows of no file.
    """

    kind: RowKind
    rows: tuple[dict[str, Any], ...]
    lines: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, index: int) -> str:
        """Return how errors call a row."""
        return f"line {self.lines[index]}" if self.lines else f"rows[{index}]"


def read_dataset(
    path: Path,
    place: str | None = None,
    *,
    max_row_characters: int | None = None,
    max_rows: int | None = None,
) -> DataSet:
    """Read and check the rows of a JSONL file.

    Args:
        path: the file.
        place: how errors call it; its path by default.
        max_row_characters: of a line; not limited by default.
        max_rows: first rows to read, at least 1; all by default.

    Raises:
        InputError: naming file, line and key, if the file cannot be read, is empty, has a line
            that is too long or no JSON object, a row of no known kind, an empty row, a key that
            is not supported, text that is not Unicode, or rows of mixed kinds. It is a
            `RepairableError` if a vendor may convert the row, or leave it out.
    """
    rows = iterate_rows(path, place, max_row_characters=max_row_characters)
    read = list(itertools.islice(rows, max_rows))
    return DataSet(read[0][1], tuple(row for _, _, row in read), tuple(line for line, _, _ in read))


def find_kind(path: Path) -> RowKind | None:
    """Return the kind of the first valid row of a file; None without one in its first 1,000 lines.

    Uploaded data may have rows that a vendor repairs before training.

    Raises:
        InputError: if the file cannot be read, or a line is too long.
    """
    limit = DEFAULT_MAX_ROW_CHARACTERS
    lines = iterate_lines(
        path, str(path), errors="replace", max_characters=limit, max_lines=_MAX_LINES_FOR_KIND
    )
    for _, line in lines:
        try:
            return read_row(line, "")[0]
        except InputError:
            continue
    return None


def iterate_rows(
    path: Path, place: str | None = None, *, max_row_characters: int | None = None
) -> Iterator[tuple[int, RowKind, dict[str, Any]]]:
    """Yield the line, kind and values of each row of a JSONL file, one at least.

    Arguments and errors are those of `read_dataset`; an error is raised when its line is reached.
    """
    place = place or str(path)
    kind: RowKind | None = None
    first_line = 0
    for number, line in iterate_lines(path, place, max_characters=max_row_characters):
        row_kind, row = read_row(line, f"{place}: line {number}")
        if kind is None:
            kind, first_line = row_kind, number
        elif row_kind is not kind:
            raise RepairableError(
                f"{place}: line {number}",
                f"a {row_kind} row, while line {first_line} is a {kind} row",
                "rows of one kind only",
            )
        yield number, kind, row
    if kind is None:
        raise InputError(place, "has no rows", f"one row per line, each {EXPECTED_ROW}")


def iterate_lines(
    path: Path,
    place: str,
    errors: Literal["strict", "replace"] = "strict",
    *,
    max_characters: int | None = None,
    max_lines: int | None = None,
) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file that are not blank, with their numbers from 1.

    Args:
        path: the file.
        place: how errors call it.
        errors: what to do with bytes that are not UTF-8: refuse their line, or mark them; a file in
            UTF-16 is read all the same.
        max_characters: of a line, its end not counted; not limited by default.
        max_lines: that are read, blank ones too; all by default.

    Raises:
        InputError: if the file cannot be read as UTF-8 text, or a line is too long.
    """
    # Reading one character more than allowed bounds the memory that a long line takes.
    size = -1 if max_characters is None else max_characters + 1
    number = 0
    try:
        with path.open("rb") as file:
            encoding = find_encoding(file.read(NUM_HEAD_BYTES), place)
        if errors == "strict" and encoding != UTF8:
            found = f"looks like {encoding.upper()}"
            raise RepairableError(place, found, "a JSONL file in UTF-8")
        # Bytes that are no UTF-8 become characters that no valid text has, so their line is known.
        strictness = "surrogateescape" if errors == "strict" else errors
        with path.open(encoding=encoding, errors=strictness) as lines:
            while number != max_lines and (line := lines.readline(size)):
                number += 1
                if max_characters is not None and len(line.removesuffix("\n")) > max_characters:
                    raise RepairableError(
                        f"{place}: line {number}",
                        f"more than {max_characters:,} characters",
                        "shorter rows: split long texts",
                    )
                if errors == "strict":
                    _check_utf8(line, f"{place}: line {number}")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise InputError(
            place, f"cannot be read ({error.strerror})", "a readable JSONL file"
        ) from None


UTF8 = "utf-8-sig"
NUM_HEAD_BYTES = 64
_UNDECODED = re.compile("[\udc80-\udcff]+")
# First bytes of files that hold others, which are unpacked with the program of that name.
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}


def find_encoding(head: bytes, place: str) -> str:
    """Return the encoding that the first bytes of a file show.

    Args:
        head: `NUM_HEAD_BYTES` of them.
        place: how errors call the file.

    Raises:
        InputError: if it is a packed file.
    """
    for magic, name in _PACKED.items():
        if head.startswith(magic):
            raise InputError(place, f"is packed ({name})", f"a JSONL file in UTF-8, without {name}")
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # JSON begins with ASCII, of which every second byte is then 0.
    if len(head) > 1 and 0 in head[:2] and head[:2] != b"\0\0":
        return "utf-16-be" if head[0] == 0 else "utf-16-le"
    return UTF8


def _check_utf8(line: str, place: str) -> None:
    wrong = None if line.isascii() else _UNDECODED.search(line)
    if wrong is None:
        return
    raw = wrong[0].encode("utf-8", "surrogateescape")
    shown = raw.decode("cp1252", "replace")
    found = f"has bytes that are not UTF-8 at character {wrong.start() + 1} ({raw[:8].hex(' ')})"
    expected = f"UTF-8; in Latin-1 or Windows-1252 they are {shown[:8]!r}"
    raise RepairableError(place, found, expected)


def read_row(line: str, place: str) -> tuple[RowKind, dict[str, Any]]:
    """Return the kind of the row on one line, and the row as `DataSet` has it.

    Raises:
        InputError: as `read_dataset`.
    """
    try:
        row = json.loads(line, object_pairs_hook=_unique_keys)
        _check_depth(row, line)
    except _RepeatedKeyError as error:
        raise InputError(place, f"the key {error.key!r} appears twice", "each key once") from None
    except json.JSONDecodeError as error:
        raise RepairableError(place, f"is not JSON ({error})", EXPECTED_ROW) from None
    except RecursionError:
        raise RepairableError(place, "is nested too deeply", EXPECTED_ROW) from None
    except ValueError:
        # Python converts no integer of more digits.
        found = f"has a number of more than {sys.get_int_max_str_digits()} digits"
        raise RepairableError(place, found, EXPECTED_ROW) from None
    if not isinstance(row, dict):
        raise RepairableError(place, f"is a JSON {type(row).__name__}, not an object", EXPECTED_ROW)
    given = {key: value for key, value in row.items() if value is not None}
    unsupported = find_unsupported(given)
    if unsupported is not None:
        raise InputError(place, unsupported, EXPECTED_ROW)
    kinds = [kind for kind, keys in _KEYS.items() if keys[-1] in given]
    if len(kinds) != 1:
        keys = ", ".join(map(repr, given)) or "none"
        raise RepairableError(place, f"a row with keys {keys}", EXPECTED_ROW)
    (kind,) = kinds
    known = _KEYS[kind]
    for key, value in given.items():
        is_known = key in known or key in LABEL_KEYS or (kind is RowKind.CHAT and key in TOOL_KEYS)
        if not is_known and value != []:
            expected = f"{_quoted(known)} and nothing else (beside {_quoted(LABEL_KEYS)})"
            raise RepairableError(place, f"the key {key!r} is not supported", expected)
    if kind is RowKind.CHAT:
        chat = read_chat(given, place)
        _check_answered(chat["messages"], place)
        return kind, chat
    if kind is RowKind.PREFERENCE:
        return kind, _read_preference(given, place)
    for key in known:
        _check_text(given.get(key), f"{place}: {key}", may_be_empty=key == "prompt")
    return kind, {key: given[key] for key in known}


def find_unsupported(row: Mapping[str, Any]) -> str | None:
    """Return what in a row means something that cannot be trained on; `None` if there is nothing.

    Preferences change what a row teaches: without them it is another row.
    """
    for key in OTHER_PREFERENCE_KEYS:
        if not is_absent(row.get(key)):
            return f"preference rows with {key!r} are not supported"
    if isinstance(row.get("label"), bool):
        return "preference rows with 'label' are not supported"
    return None


def find_unsupported_in_message(message: Mapping[str, Any]) -> str | None:
    """Return what in a message means something that cannot be trained on, as `find_unsupported`."""
    for key in UNSUPPORTED_MESSAGE_KEYS:
        if not is_absent(message.get(key)):
            return f"{key} is not supported"
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind != "text":
            return f"content parts of type {kind!r:.30} are not supported"
    return None


def is_context(message: Mapping[str, Any]) -> bool:
    """Return whether an assistant's message is context, without targets."""
    return message.get("weight") == 0


def is_absent(value: object) -> bool:
    """Return whether a key's value counts as no value: null, or an empty list."""
    return value is None or value == []


_MESSAGE_KEYS = ("role", "content", "name", "weight", *CALL_KEYS, "tool_call_id")


class _RepeatedKeyError(ValueError):
    def __init__(self, key: str) -> None:
        self.key = key


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RepeatedKeyError(key)
            seen.add(key)
    return made


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
    # What was said before the answers is not what is preferred.
    read["messages"] = [
        one | {"weight": 0} if one["role"] == "assistant" else one for one in read["messages"]
    ]
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
        raise InputError(place, f"{_quoted(OUTPUT_KEYS)} are the same", "two different answers")
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
    if "weight" in given and _read_weight(given["weight"], role, where) == 0:
        read["weight"] = 0
    return read


def _join_parts(content: Any, where: str) -> Any:
    """Return content as a text, if it is a list of parts of text."""
    if not isinstance(content, list):
        return content
    for number, part in enumerate(content):
        place = f"{where}[{number}]"
        if not isinstance(part, dict) or part.keys() != {"type", "text"}:
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
    if not isinstance(tools, list):
        raise InputError(f"{place}: {key}", "is not a list", "a list of functions")
    read = []
    for number, tool in enumerate(tools):
        where = f"{place}: {key}[{number}]"
        if key == "functions":
            function = tool
        else:
            _check_function_type(tool, where)
            function = tool.get("function")
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


def _check_depth(value: Any, text: str) -> None:
    """Raise a `RecursionError` for JSON that others cannot write again, given as a text too."""
    if text.count("[") + text.count("{") <= _MAX_DEPTH:
        return
    level = [value]
    for _ in range(_MAX_DEPTH):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        if not inner:
            return
        level = inner
    raise RecursionError


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
            text, arguments = arguments, json.loads(arguments)
            _check_depth(arguments, text)
        except RecursionError:
            raise InputError(where, "is nested too deeply", expected) from None
        except ValueError as error:
            raise InputError(where, f"is not JSON ({error})", expected) from None
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
