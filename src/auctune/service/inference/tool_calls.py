"""Calls of tools within the text of an answer, in the format of Hermes, Qwen and SmolLM:

    <tool_call>
    {"name": "get_weather", "arguments": {"city": "Lisbon"}}
    </tool_call>

Text in another form, and calls of tools that the request does not have, stay text.
"""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from auctune.service.identifiers import new_id

_OPEN = "<tool_call>"
_CALL = re.compile(r"\s*<tool_call>\s*(\{.*?\})\s*</tool_call>\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call; `arguments` is JSON of an object."""

    id: str
    name: str
    arguments: str


class ToolCallParser:
    """Separates the calls of one answer from its text.

    Args:
        names: of the tools; without any, all is text.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._held = ""

    def add(self, text: str) -> str:
        """Add a piece of the answer; return the text that is shown by now.

        Text from the first call on is held back, and so is what may be the beginning of one.
        """
        if not self._names:
            return text
        self._held += text
        begin = self._held.find(_OPEN)
        shown = len(self._held[:begin].rstrip()) if begin >= 0 else self._certain()
        text, self._held = self._held[:shown], self._held[shown:]
        return text

    def finish(self) -> tuple[str, list[ToolCall]]:
        """Return the rest of the text, and the calls; no calls if one of them cannot be read."""
        calls, position = [], 0
        while (found := _CALL.match(self._held, position)) is not None:
            call = self._read(found[1])
            if call is None:
                return self._held, []
            calls.append(call)
            position = found.end()
        return (self._held, []) if position < len(self._held) or not calls else ("", calls)

    def _certain(self) -> int:
        """Return how many of the held characters cannot belong to a call."""
        text = self._held
        for count in range(min(len(_OPEN) - 1, len(text)), 0, -1):
            if _OPEN.startswith(text[-count:]):
                text = text[:-count]
                break
        return len(text.rstrip())

    def _read(self, text: str) -> ToolCall | None:
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError):
            return None
        name, arguments = value.get("name"), value.get("arguments", {})
        is_call = isinstance(name, str) and name in self._names and isinstance(arguments, dict)
        return ToolCall(new_id("call"), name, json.dumps(arguments)) if is_call else None
