"""Rows under the names that other tools give them, read as rows of auctune's kinds.

| kind | read from |
| --- | --- |
| chat | messages, conversations, conversation, turns, dialogue: lists of {role or from, content or value or text}; content as a text or as parts {"type": "text", "text"}; instruction (with input or context), with the names of answers below |
| completion | prompt, question, query, input, problem, with completion, output, response, answer, target, solution |
| text | text, content, document, body, or a bare string |
"""  # noqa: E501 (a table's row cannot be broken)

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auctune.datasets.checks import CALL_KEYS, TOOL_KEYS, find_unsupported_in_message, is_absent
from auctune.domain.dataset import OUTPUT_KEYS, RowKind

CHAT_KEYS = ("messages", "conversations", "conversation", "turns", "dialogue")
PROMPT_KEYS = ("prompt", "instruction", "question", "query", "problem", "input")
CONTEXT_KEYS = ("input", "context")
COMPLETION_KEYS = ("completion", "output", "response", "answer", "target", "solution")
TEXT_KEYS = ("text", "content", "document", "body")
SYSTEM_KEYS = ("system", "system_prompt")
ROLE_KEYS = ("role", "from", "speaker")
CONTENT_KEYS = ("content", "value", "text")
ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
}
LARGEST_NUMBER = 1e15

CONTEXT = "assistant (weight 0)"
"""Part name of an assistant's message of weight 0: context, without labels."""


@dataclass(frozen=True, slots=True)
class ShapedRow:
    """A row's texts in order, each with its role (chat) or its key (other kinds)."""

    kind: RowKind
    texts: tuple[tuple[str, str], ...]

    def to_json(self) -> dict[str, Any]:
        """Return the row in the format of auctune's data sets."""
        if self.kind is RowKind.CHAT:
            return {"messages": [_message(role, text) for role, text in self.texts]}
        return dict(self.texts)


def _message(part: str, text: str) -> dict[str, Any]:
    if part == CONTEXT:
        return {"role": "assistant", "content": text, "weight": 0}
    return {"role": part, "content": text}


def unsupported_part(value: object) -> str | None:
    """Return the part of a row that is not supported and changes what the row teaches, or None."""
    if not isinstance(value, Mapping):
        return None
    row = _lower_keys(value)
    turns = [turn for key in CHAT_KEYS if isinstance(row.get(key), list) for turn in row[key]]
    messages = [turn for turn in turns if isinstance(turn, Mapping)]
    found = tuple(map(find_unsupported_in_message, messages))
    found += (
        _answers(row),
        _used_tools(row),
        *map(_used_tools, messages),
        *map(_wrong_weight, messages),
    )
    return next((why for why in found if why is not None), None)


def _answers(row: Mapping[str, Any]) -> str | None:
    # Which answer is better, or liked, is not to be guessed at.
    keys = (*OUTPUT_KEYS, "chosen", "rejected")
    key = next((key for key in keys if not is_absent(row.get(key))), None)
    if isinstance(row.get("label"), bool):
        key = "label"
    return f"{key} in a row to repair" if key else None


def _used_tools(values: Mapping[Any, Any]) -> str | None:
    # They are trained on as they are; of a row that must be repaired, another shape is not known.
    keys = (*TOOL_KEYS, *CALL_KEYS, "tool_call_id", "reasoning_content")
    found = next((key for key in keys if not is_absent(values.get(key))), None)
    is_result = values.get("role") in ("tool", "function")
    return f"{found or 'a result of a tool'} in a row to repair" if found or is_result else None


def _wrong_weight(turn: Mapping[Any, Any]) -> str | None:
    weight = turn.get("weight")
    if is_absent(weight):
        return None
    if _role(turn) != "assistant":
        return "weight on a message that is not the assistant's"
    is_known = not isinstance(weight, bool) and weight in (0, 1)
    return None if is_known else "a weight other than 0 and 1"


def _role(turn: Mapping[Any, Any]) -> str | None:
    name = next((turn[key] for key in ROLE_KEYS if isinstance(turn.get(key), str)), "")
    return ROLES.get(name.strip().lower())


def _lower_keys(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {key.strip().lower(): entry for key, entry in row.items() if isinstance(key, str)}


def shape_row(value: object) -> ShapedRow | None:
    """Return the row that `value` stands for, or None if its shape is unknown."""
    if isinstance(value, str):
        return ShapedRow(RowKind.TEXT, (("text", value),))
    if not isinstance(value, Mapping):
        return None
    row = _lower_keys(value)
    return _shape_chat(row) or _shape_completion(row) or _shape_text(row)


def _shape_chat(row: Mapping[str, object]) -> ShapedRow | None:
    turns = next((row[key] for key in CHAT_KEYS if isinstance(row.get(key), list)), None)
    if not turns or not isinstance(turns, list):
        return None
    messages = [_shape_message(turn) for turn in turns]
    system = _first_text(row, SYSTEM_KEYS)
    # Without a message that cannot be read, the dialogue would be another one.
    if any(message is None for message in messages):
        return None
    texts = tuple(message for message in messages if message is not None)
    if system and texts[0][0] != "system":
        texts = (("system", system), *texts)
    return ShapedRow(RowKind.CHAT, texts)


def _shape_message(turn: object) -> tuple[str, str] | None:
    if not isinstance(turn, Mapping):
        return None
    role, text = _role(turn), _first_text(turn, CONTENT_KEYS)
    if role is None or text is None:
        return None
    is_context = role == "assistant" and turn.get("weight") == 0
    return CONTEXT if is_context else role, text


def _shape_completion(row: Mapping[str, object]) -> ShapedRow | None:
    completion = _first_text(row, COMPLETION_KEYS)
    if completion is None:
        return None
    prompt_key = next((key for key in PROMPT_KEYS if _read_text(row.get(key)) is not None), None)
    if prompt_key is None:
        return None
    prompt = _read_text(row[prompt_key]) or ""
    contexts = [_read_text(row.get(key)) for key in CONTEXT_KEYS if key != prompt_key]
    system = _first_text(row, SYSTEM_KEYS)
    if prompt_key == "prompt":
        contexts = []
    if prompt_key == "instruction":
        # As auctune.datasets.forms reads it.
        asked = "\n\n".join(part for part in (prompt, *contexts) if part and part.strip())
        texts = (("user", asked), ("assistant", completion))
        return ShapedRow(RowKind.CHAT, ((("system", system),) if system else ()) + texts)
    parts = [part for part in (system, prompt, *contexts) if part and part.strip()]
    joined = "\n\n".join(parts) if len(parts) > 1 else prompt
    if not {"prompt", "completion"} <= row.keys() and joined.strip():
        # A trainer joins prompt and completion as they are; these were two separate fields.
        joined = joined.removesuffix("\n") + "\n"
    return ShapedRow(RowKind.COMPLETION, (("prompt", joined), ("completion", completion)))


def _shape_text(row: Mapping[str, object]) -> ShapedRow | None:
    text = _first_text(row, TEXT_KEYS)
    return None if text is None else ShapedRow(RowKind.TEXT, (("text", text),))


def _first_text(row: Mapping[Any, object], keys: Sequence[str]) -> str | None:
    """Return the first of these fields that holds a text."""
    texts = (_read_text(row.get(key)) for key in keys)
    return next((text for text in texts if text is not None), None)


def _read_text(value: object) -> str | None:
    """Return a field's text: a string, a number (labels often are), or parts that are text."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value) if abs(value) <= LARGEST_NUMBER else None
    if isinstance(value, list) and value:
        return _join_parts(value)
    return None


def _join_parts(parts: Sequence[object]) -> str | None:
    """Return the text of a list of text parts, or of one string; several are alternatives."""
    if len(parts) == 1 and isinstance(parts[0], str):
        return parts[0]
    texts = [
        part.get("text") if isinstance(part, Mapping) and part.get("type", "text") == "text" else 0
        for part in parts
    ]
    strings = [text for text in texts if isinstance(text, str)]
    return "".join(strings) if len(strings) == len(parts) else None
