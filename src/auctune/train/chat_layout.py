"""Where the words of a chat's messages stand in the text that a chat template makes of it.

Every text of a message is followed by a mark, a character of its own. A template keeps the marks
where it keeps the texts: so a text is found where the template put it, and not where the same words
happen to stand. What is trained on is the text rendered without marks; the two must not differ
otherwise.

A message is shown if all of its words are, and, of its calls, the name and all keys and values of
the arguments. Templates may remove blanks around words, and write names, keys and values as JSON,
Python or XML would.
"""

import html
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from auctune.domain.errors import InputError
from auctune.train.control_tokens import RARE_PATTERN

Message = Mapping[str, Any]
Span = tuple[int, int]
"""First and last character (exclusive)."""

# A template may look for tags in contents, to split them: no mark must come between.
_TAG = re.compile(r"</?[\w:.|-]+>|\[/?[A-Z_]+\]")
_BLANKS = re.compile(r"\s*")
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")
"""Keys of messages under which templates know what the assistant has thought."""
_SHOWN_CHARACTERS = 60


class NotShownError(Exception):
    """A text of a message is not where it should be in the rendered text.

    Attributes:
        place: of it in the row.
        found: what is wrong with it.
        is_of_tools: whether it is a tool, a call or a result.
    """

    def __init__(self, place: str, found: str, *, is_of_tools: bool) -> None:
        super().__init__(f"{place}: {found}")
        self.place = place
        self.found = found
        self.is_of_tools = is_of_tools


@dataclass(frozen=True, slots=True)
class MessageSpans:
    """Where a message is shown.

    Attributes:
        words: spans of its texts, in their order; none of an empty message.
        last_mark: place of the last mark of its texts.
    """

    words: tuple[Span, ...]
    last_mark: int

    @property
    def whole(self) -> Span | None:
        """From its first character to its last one."""
        if not self.words:
            return None
        return min(begin for begin, _ in self.words), max(end for _, end in self.words)


@dataclass(frozen=True, slots=True)
class _Content:
    """A message's content, in parts: tags as they are, and texts with their marks.

    Attributes:
        parts: texts and marks, "" of a tag.
        blanks: at its end.
    """

    parts: tuple[tuple[str, str], ...]
    blanks: str


@dataclass(frozen=True, slots=True)
class _Call:
    """A call: texts with their marks, and values that are no texts, which have none."""

    parts: tuple[tuple[Any, str], ...]


@dataclass(slots=True)
class _Marked:
    """A message: its texts in the order in which they are said, each with its key."""

    role: str
    contents: list[tuple[str, _Content]] = field(default_factory=list)
    calls: list[_Call] = field(default_factory=list)


class MarkedChat:
    """A chat with a mark behind each of its texts.

    Args:
        messages, tools: as `DataSet` has them.
        template: Jinja source of the chat template.
        marks: characters of `unused_characters` that are not in the chat.

    Attributes:
        messages, tools: with marks.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message],
        template: str,
        marks: Iterator[str],
    ) -> None:
        self._marks = marks
        self._used: set[str] = set()
        self._tags = _tags_of(template)
        self._parts: list[_Marked] = []
        self.messages = [self._mark_message(one) for one in messages]
        self._tools: list[str] = []
        self.tools = [self._mark_tool(one) for one in tools]

    def unmark(self, text: str) -> tuple[str, dict[str, list[int]]]:
        """Return a rendered text without marks, and the places where each mark stood in it."""
        pieces: list[str] = []
        places: dict[str, list[int]] = {}
        begin = position = 0
        for match in RARE_PATTERN.finditer(text):
            if match[0] in self._used:
                pieces.append(text[begin : match.start()])
                begin = match.end()
                position += len(pieces[-1])
                places.setdefault(match[0], []).append(position)
        return "".join((*pieces, text[begin:])), places

    def locate(
        self, text: str, places: Mapping[str, Sequence[int]], *, may_omit_reasoning: bool
    ) -> list[MessageSpans]:
        """Return where each message is shown.

        Args:
            text, places: as `unmark` returns them.
            may_omit_reasoning: whether what the assistant has thought need not be shown.

        Raises:
            NotShownError: if a message, a call or a tool is not shown, or not in its place. The
                first message may stand elsewhere before the last answer if it is the system's, as
                some templates show it in the user's last turn.
        """
        for number, mark in enumerate(self._tools):
            if mark not in places:
                why = "is not shown by the base's chat template"
                raise NotShownError(f"tools[{number}]", why, is_of_tools=True)
        found = _Places(text, places)
        spans, position = [], 0
        for index, one in enumerate(self._parts):
            is_moved = index == 0 and one.role == "system"
            at = f"messages[{index}]"
            start, words, last_mark = position, [], position
            omits = may_omit_reasoning and one.role == "assistant"
            parts: list[tuple[str, _Content | _Call]] = [
                *one.contents,
                *((f"tool_calls[{number}]", call) for number, call in enumerate(one.calls)),
            ]
            for key, part in parts:
                # Rows have it under one key, whatever the template calls it.
                where = f"{at}.{REASONING_KEYS[0] if key in REASONING_KEYS else key}"
                if isinstance(part, _Call):
                    new, last = found.call(part, start, where)
                elif omits and key in REASONING_KEYS and not found.has(part):
                    continue
                else:
                    new, last = found.content(part, start, where, one.role, omits=omits)
                if new:
                    words += new
                    start, last_mark = max(end for _, end in new), max(last, last_mark)
            spans.append(MessageSpans(tuple(words), last_mark))
            if not is_moved:
                position = start
        answers = [
            one.whole
            for part, one in zip(self._parts, spans, strict=True)
            if part.role == "assistant" and one.whole is not None
        ]
        first = spans[0].whole
        if answers and first is not None and first[0] >= answers[-1][1]:
            why = "of the system is shown by the base's chat template behind the last answer"
            raise NotShownError("messages[0].content", why, is_of_tools=False)
        return spans

    def _mark(self, text: str) -> tuple[str, str]:
        """Return a text with a mark behind its last character that is not blank, and the mark."""
        mark = next(self._marks, None)
        if mark is None:
            raise InputError("messages", "has too many texts", "a chat of fewer texts")
        self._used.add(mark)
        end = len(text.rstrip())
        return f"{text[:end]}{mark}{text[end:]}", mark

    def _mark_message(self, message: Message) -> dict[str, Any]:
        marked = dict(message)
        self._parts.append(_Marked(message["role"]))
        for key in (*REASONING_KEYS, "content"):
            if key in message:
                marked[key], content = self._mark_content(message[key])
                self._parts[-1].contents.append((key, content))
        if "tool_calls" in message:
            marked["tool_calls"] = [self._mark_call(one) for one in message["tool_calls"]]
        return marked

    def _mark_content(self, text: str) -> tuple[str, _Content]:
        """Return a text with marks, and its parts."""
        texts = self._tags.split(text) if self._tags else [text]
        if not any(one.strip() for one in texts[::2]):
            texts = [text]
        parts: list[tuple[str, str]] = []
        content = ""
        for number, one in enumerate(texts):
            if number % 2 or not one.strip():
                content += one
                if number % 2:
                    parts.append((one, ""))
            else:
                with_mark, mark = self._mark(one)
                content += with_mark
                parts.append((one.strip(), mark))
        return content, _Content(tuple(parts), text[len(text.rstrip()) :])

    def _mark_call(self, call: Message) -> dict[str, Any]:
        function = call["function"]
        name, mark = self._mark(function["name"])
        parts: list[tuple[Any, str]] = [(function["name"], mark)]
        arguments = self._mark_value(function["arguments"], parts)
        self._parts[-1].calls.append(_Call(tuple(parts)))
        return {**call, "function": {**function, "name": name, "arguments": arguments}}

    def _mark_value(self, value: Any, parts: list[tuple[Any, str]]) -> Any:
        if isinstance(value, dict):
            marked = {}
            for key, one in value.items():
                with_mark = self._mark_value(key, parts)
                marked[with_mark] = self._mark_value(one, parts)
            return marked
        if isinstance(value, list):
            return [self._mark_value(one, parts) for one in value]
        if isinstance(value, str) and value.strip():
            with_mark, mark = self._mark(value)
            parts.append((value.strip(), mark))
            return with_mark
        if not isinstance(value, str):
            parts.append((value, ""))
        return value

    def _mark_tool(self, tool: Message) -> dict[str, Any]:
        name, mark = self._mark(tool["function"]["name"])
        self._tools.append(mark)
        return {**tool, "function": {**tool["function"], "name": name}}


class _Places:
    """Finds texts by their marks in a rendered text."""

    def __init__(self, text: str, places: Mapping[str, Sequence[int]]) -> None:
        self._text = text
        self._places = places
        self._all = sorted(place for found in places.values() for place in found)

    def has(self, content: _Content) -> bool:
        """Return whether a text is shown anywhere."""
        return any(mark in self._places for _, mark in content.parts if mark)

    def content(
        self, content: _Content, start: int, place: str, role: str, *, omits: bool
    ) -> tuple[list[Span], int]:
        """Return the spans of a content's texts from `start` on, tags included; the last mark."""
        parts = self._without_omitted(content.parts) if omits else content.parts
        whose = f"of the {role} "
        spans: list[Span] = []
        tags: list[str] = []
        last = start
        for text, mark in (*parts, ("", "")):
            if text and not mark:
                tags.append(text)
                continue
            begin = end = start
            if mark:
                begin, end = self._find(text, mark, start, place, whose)
                shown = self._tags_before(tags, start, begin, is_alone=bool(spans))
            else:
                # Behind the last text.
                shown = self._tags_behind(tags, start)
            if shown is None:
                found = f"{whose}is shown by the base's chat template without its {', '.join(tags)}"
                raise NotShownError(place, found, is_of_tools=False)
            if mark:
                spans.append((shown, end))
                start, last, tags = end, end, []
            elif spans and tags:
                spans.append((start, shown))
        if spans and self._text.startswith(content.blanks, spans[-1][1]):
            begin, end = spans[-1]
            spans[-1] = begin, end + len(content.blanks)
        return spans, last

    def call(self, call: _Call, start: int, place: str) -> tuple[list[Span], int]:
        """Return the spans of a call's name, keys and values from `start` on; the last mark."""
        spans: list[Span] = []
        cursor = last = start
        for value, mark in call.parts:
            if mark:
                span = self._find(value, mark, start, place)
                last = max(last, span[1])
            else:
                span = self._find_value(value, cursor, place)
            cursor = span[1]
            spans.append(span)
        return spans, last

    def _without_omitted(self, parts: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """Return the parts of a content without reasoning that is not shown."""
        if not any(mark and mark not in self._places for _, mark in parts):
            return parts
        tags = [text if not mark else "" for text, mark in parts]
        if "</think>" not in tags:
            return parts
        end = len(tags) - 1 - tags[::-1].index("</think>")
        begin = max((n for n in range(end) if tags[n] == "<think>"), default=0)
        return parts[:begin] + parts[end + 1 :]

    def _tags_before(
        self, tags: Sequence[str], start: int, end: int, *, is_alone: bool
    ) -> int | None:
        """Return where tags begin that stand before a text, with blanks; None if they do not.

        Args:
            is_alone: whether nothing but blanks may stand before them, from `start` on.
        """
        for tag in reversed(tags):
            end = start + len(self._text[start:end].rstrip()) - len(tag)
            if end < start or not self._text.startswith(tag, end):
                return None
        return None if is_alone and self._text[start:end].strip() else end

    def _tags_behind(self, tags: Sequence[str], start: int) -> int | None:
        """Return where tags end that stand behind a text, with blanks; None if they do not."""
        for tag in tags:
            blanks = _BLANKS.match(self._text, start)
            start = start if blanks is None else blanks.end()
            if not self._text.startswith(tag, start):
                return None
            start += len(tag)
        return start

    def _find(self, text: str, mark: str, start: int, place: str, whose: str = "") -> Span:
        ends = self._places.get(mark, ())
        end = next((one for one in ends if one > start), None)
        if end is not None:
            for form in _forms(text):
                begin = end - len(form)
                if begin >= start and self._text.startswith(form, begin):
                    return begin, end
        if not ends:
            found = "is not shown by the base's chat template"
        elif end is None:
            found = "is not shown in its place by the base's chat template"
        else:
            found = "is not shown by the base's chat template as it was written"
        short = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
        is_of_tools = not whose or "tool" in whose
        raise NotShownError(place, f"{whose}{found} ({short!r})", is_of_tools=is_of_tools)

    def _find_value(self, value: Any, start: int, place: str) -> Span:
        """Return the span of a number, true, false or null, before the next text of the chat."""
        following = bisect_right(self._all, start)
        bound = self._all[following] if following < len(self._all) else len(self._text)
        for form in dict.fromkeys((json.dumps(value), str(value))):
            if (at := self._text.find(form, start, bound)) >= 0:
                return at, at + len(form)
        found = f"is not shown by the base's chat template ({json.dumps(value)})"
        raise NotShownError(place, found, is_of_tools=True)


def _forms(text: str) -> Iterator[str]:
    """Yield a text as templates may write it."""
    yield text
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield json.dumps(text)[1:-1]
    yield repr(text)[1:-1]
    yield html.escape(text)


@lru_cache(8)
def _tags_of(template: str) -> re.Pattern[str] | None:
    """Return a pattern of the tags that a template has, as a group."""
    tags = sorted(set(_TAG.findall(template)), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, tags))})") if tags else None
