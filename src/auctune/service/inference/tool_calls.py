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
        # White space after the text that is shown, then what may be the beginning of a call, or the
        # text from the first call on.
        self._blanks: list[str] = []
        self._begun = ""
        self._called: list[str] = []

    def add(self, text: str) -> str:
        """Add a piece of the answer; return the text that is shown by now.

        Text from the first call on is held back, and so is what may be the beginning of one. A
        piece costs what its length costs, however much is held back.
        """
        if not self._names:
            return text
        if self._called:
            self._called.append(text)
            return ""
        text = self._begun + text
        begin = text.find(_OPEN)
        if begin >= 0:
            shown = self._show(text[:begin])
            self._called, self._blanks = [*self._blanks, text[begin:]], []
            self._begun = ""
            return shown
        begin = len(text) - self._num_begun(text)
        self._begun = text[begin:]
        return self._show(text[:begin])

    def _show(self, text: str) -> str:
        """Return text with the white space before it, without that at its end, which is kept."""
        if not (shown := text.rstrip()):
            self._blanks.append(text)
            return ""
        before, self._blanks = self._blanks, [text[len(shown) :]]
        return "".join((*before, shown))

    def finish(self) -> tuple[str, list[ToolCall]]:
        """Return the rest of the text, and the calls; no calls if one of them cannot be read."""
        held = "".join((*self._blanks, self._begun, *self._called))
        calls, position = [], 0
        while (found := _CALL.match(held, position)) is not None:
            call = self._read(found[1])
            if call is None:
                return held, []
            calls.append(call)
            position = found.end()
        return (held, []) if position < len(held) or not calls else ("", calls)

    @staticmethod
    def _num_begun(text: str) -> int:
        """Return how many characters at the end may be the beginning of a call."""
        counts = range(min(len(_OPEN) - 1, len(text)), 0, -1)
        return next((count for count in counts if _OPEN.startswith(text[-count:])), 0)

    def _read(self, text: str) -> ToolCall | None:
        try:
            value: Any = json.loads(text)
            name, arguments = value.get("name"), value.get("arguments", {})
            is_call = isinstance(name, str) and name in self._names and isinstance(arguments, dict)
            return ToolCall(new_id("call"), name, json.dumps(arguments)) if is_call else None
        except (ValueError, RecursionError):
            return None
