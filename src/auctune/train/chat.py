"""Chats as tokens by the base's chat template, and which of them the assistant says.

A template may mark what the assistant says itself (`{% generation %}`); these marks count, as for
TRL and transformers. Else the assistant's messages are found in the rendered text:

- A message begins after what the template puts where the model is to begin writing; where the
  template shows it in another way, at its words, or at the spaces before them, which the model then
  has to write itself (Llama 2).
- What was thought before it (`reasoning_content`) is given to the template under the key that it
  knows, else within `<think>` before the words, if the template knows that.
- It ends with its words, and one with calls of tools where the chat up to it ends when rendered
  alone. The special token that ends the turn belongs to it, with blanks in between.

All words of all messages have to be shown, in their order (auctune.train.chat_layout): what a
template does not show is refused, as a model cannot learn it. Control tokens in texts of a row are
text (auctune.train.control_tokens).
"""

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from auctune.domain.dataset import is_context
from auctune.domain.errors import InputError
from auctune.train.chat_layout import (
    REASONING_KEYS,
    MarkedChat,
    MessageSpans,
    NotShownError,
    Span,
)
from auctune.train.control_tokens import (
    REASONING_TAGS,
    ControlTokens,
    strings_of,
    unused_characters,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = Mapping[str, Any]

_TURNS: list[Message] = [
    {"role": "user", "content": "Where is Rome?"},
    {"role": "assistant", "content": "In Italy"},
]
_FUNCTION = {"name": "find", "description": "Find a city", "parameters": {"type": "object"}}
_TOOLS: list[Message] = [{"type": "function", "function": _FUNCTION}]
_CALL: Message = {
    "type": "function",
    "function": {"name": "find", "arguments": {"city": "Rome"}},
    "id": "call00001",
}
_CALL_TURNS: list[Message] = [
    _TURNS[0],
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "content": "Italy", "tool_call_id": "call00001"},
    _TURNS[1],
]

# transformers keeps one compiled template for all, and what it marks with it: one thread at a time.
_RENDERING = threading.Lock()
# As transformers looks for them.
_MARK = re.compile(r"\{%-?\s*generation\s*-?%\}")


@dataclass(frozen=True, slots=True)
class _Shown:
    """A chat as text.

    Attributes:
        text: with the first of `helpers` in control tokens of the row.
        helpers: characters that the row does not have, as `ControlTokens.encode` takes them.
        spans: that the template marks.
        places: of its messages.
        marked: the chat with marks.
        as_text: whether the template takes arguments of calls as JSON.
    """

    text: str
    helpers: tuple[str, str]
    spans: list[Span]
    places: list[MessageSpans]
    messages: Sequence[Message]
    tools: Sequence[Message]
    marked: MarkedChat
    as_text: bool


class ChatTemplate:
    """Renders and masks chats.

    Args:
        tokenizer: a fast one, with a chat template.

    Raises:
        InputError: if the tokenizer does not say which text a token stands for.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        if not tokenizer.is_fast:
            raise InputError(
                "tokenizer",
                f"{type(tokenizer).__name__} does not say which text a token stands for",
                "a fast tokenizer for rows of chats",
            )
        self._tokenizer = tokenizer
        self._is_marked = _MARK.search(str(tokenizer.chat_template)) is not None
        self._special = frozenset(tokenizer.added_tokens_decoder)
        self._special_texts = tuple(str(token) for token in tokenizer.added_tokens_decoder.values())
        self._control = ControlTokens(tokenizer)

    def tokenize(
        self, messages: Sequence[Message], tools: Sequence[Message], place: str
    ) -> tuple[list[int], list[bool]]:
        """Return the tokens of a chat, and for each whether it is a target.

        Args:
            messages, tools: as `DataSet` has them.
            place: how errors call the row.

        Raises:
            InputError: if the template refuses the chat, or does not show all of it.
        """
        try:
            shown = self._show(messages, tools)
            targets = list(self._targets(messages, shown))
        except InputError as error:
            raise error.within(place) from None
        text = shown.text
        ids, offsets = self._control.encode(text, *shown.helpers)
        # Arrays: a loop over all tokens for each message takes seconds for thousands of messages.
        begins, ends = offsets.T
        is_target = [False] * len(ids)
        pairs = [] if self._is_marked else offsets.tolist()
        for first, last in targets:
            inside = np.flatnonzero((begins < last) & (ends > first)).tolist()
            after = inside[-1] + 1 if inside else len(ids)
            end = after if self._is_marked else self._turn_end(after, ids, pairs, text)
            for n in (*inside, *range(after, end)):
                is_target[n] = True
        return ids, is_target

    def prompt(self, messages: Sequence[Message], tools: Sequence[Message]) -> list[int]:
        """Return the tokens of a chat, with the assistant's turn begun.

        What the assistant has thought in earlier turns need not be shown.

        Raises:
            InputError: if the template refuses the chat, or does not show all of it.
        """
        shown = self._show(messages, tools, may_omit_reasoning=True, add_generation_prompt=True)
        return self._control.encode(shown.text, *shown.helpers)[0]

    def end_tokens(self) -> frozenset[int]:
        """Return the control tokens with which training ends an answer, or a call of a tool."""
        found = [self._answer_end(_TURNS)]
        if found == [None]:
            # The next turn of some templates begins with what ends the one before.
            found = [self._answer_end([*_TURNS, *_TURNS])]
        found.append(self._answer_end(_CALL_TURNS, _TOOLS))
        return frozenset(one for one in found if one is not None)

    def _answer_end(self, messages: Sequence[Message], tools: Sequence[Message] = ()) -> int | None:
        """Return the control token that ends the first answer of a chat; None if there is none."""
        try:
            ids, is_target = self.tokenize(messages, tools, "the template")
        except Exception:
            # Templates are programs, and need not know these chats.
            return None
        begin = is_target.index(True)
        end = next((n for n in range(begin, len(ids)) if not is_target[n]), len(ids))
        found = None
        for one in reversed(ids[begin:end]):
            if one in self._control.ids and one != self._tokenizer.unk_token_id:
                found = one
            elif self._tokenizer.decode([one]).strip():
                break
        return found

    def _show(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message],
        *,
        may_omit_reasoning: bool = False,
        **options: Any,
    ) -> _Shown:
        """Render a chat and find its messages.

        Raises:
            InputError: if the template refuses it, or leaves something out.
        """
        source = self._source(tools)
        texts = "\0".join(strings_of([*messages, *tools]))
        characters = unused_characters(texts)
        breaker, anchor = next(characters), next(characters)
        plain = [
            _place_reasoning({key: one[key] for key in one if key != "weight"}, number, source)
            for number, one in enumerate(messages)
        ]
        if next(self._control.find(texts), None) is not None:
            plain, tools = self._control.protect((plain, tools), breaker)
        tools = list(tools)
        marked = MarkedChat(plain, tools, source, characters)
        as_text = False
        try:
            try:
                text, spans = self._render(plain, tools, as_text=False, **options)
            except TypeError:
                # Templates add texts up: some take arguments as JSON.
                if not any("tool_calls" in one for one in messages):
                    raise
                text, spans = self._render(plain, tools, as_text=True, **options)
                as_text = True
            with_marks, _ = self._render(marked.messages, marked.tools, as_text=as_text, **options)
        except (TemplateError, TypeError) as error:
            raise InputError(
                "messages",
                f"refused by the base's chat template ({error})",
                "messages whose roles, order and keys the template knows",
            ) from None
        unmarked, places = marked.unmark(with_marks)
        if unmarked != text:
            raise InputError(
                "messages",
                "cannot be found in the text that the base's chat template makes of them",
                "a base whose chat template shows messages as they are written",
            )
        try:
            found = marked.locate(text, places, may_omit_reasoning=may_omit_reasoning)
        except NotShownError as error:
            expected = (
                "messages without tools, or a base whose chat template knows them"
                if error.is_of_tools
                else "rows without it, or a base whose chat template shows it"
            )
            found_words = error.found.replace(breaker, "")
            raise InputError(error.place, found_words, expected) from None
        return _Shown(text, (breaker, anchor), spans, found, plain, tools, marked, as_text)

    def _source(self, tools: Sequence[Message]) -> str:
        """Return the chat template in Jinja."""
        return str(self._tokenizer.get_chat_template(tools=list(tools) or None))

    def _render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message],
        *,
        as_text: bool,
        **options: Any,
    ) -> tuple[str, list[Span]]:
        """Return the text of a chat, and the spans that the template itself marks."""
        with _RENDERING:
            rendered, spans = render_jinja_template(
                conversations=[[_with_text(one) if as_text else one for one in messages]],
                tools=list(tools) or None,
                chat_template=self._source(tools),
                return_assistant_tokens_mask=self._is_marked,
                **options,
                **self._tokenizer.special_tokens_map,
            )
        return rendered[0], [tuple(span) for span in spans[0]] if spans else []

    def _targets(self, messages: Sequence[Message], shown: _Shown) -> Iterator[Span]:
        """Yield the spans of the assistant's messages but those of weight 0."""
        if self._is_marked:
            yield from self._marked_targets(messages, shown)
            return
        text, opening = shown.text, self._opening(shown)
        position = 0
        for index, (message, places) in enumerate(zip(messages, shown.places, strict=True)):
            if places.whole is None:
                continue
            begin, end = places.whole
            if message["role"] == "assistant" and not is_context(message):
                opened = text.rfind(opening, position, begin) if opening else -1
                first = opened + len(opening) if opened >= 0 else len(text[:begin].rstrip(" "))
                if message.get("tool_calls"):
                    if opened < 0:
                        found = "has calls, and its turn does not begin as that of an answer does"
                        raise _badly_marked(f"messages[{index}]", found)
                    end = self._end_of_calls(index, shown)
                yield first, end
            # The first message may be shown elsewhere.
            if index or message["role"] != "system":
                position = end

    def _opening(self, shown: _Shown) -> str:
        """Return what the template puts where the model is to begin writing; "" if unknown."""
        num_before = next(n for n, one in enumerate(shown.messages) if one["role"] == "assistant")
        text = shown.text
        for messages in (shown.messages, shown.messages[:num_before]):
            try:
                if messages is not shown.messages:
                    text, _ = self._render(messages, shown.tools, as_text=shown.as_text)
                prompted, _ = self._render(
                    messages, shown.tools, as_text=shown.as_text, add_generation_prompt=True
                )
            except TemplateError:
                # Some refuse chats that have no user, or do not end with one.
                continue
            if prompted.startswith(text) and len(prompted) > len(text):
                return prompted[len(text) :]
        return ""

    def _marked_targets(self, messages: Sequence[Message], shown: _Shown) -> Iterator[Span]:
        """Yield the spans that the template marks but those of messages of weight 0."""
        num_others = [0] * len(shown.spans)
        num_targets = [0] * len(shown.spans)
        for index, (message, places) in enumerate(zip(messages, shown.places, strict=True)):
            is_target = message["role"] == "assistant" and not is_context(message)
            for begin, end in places.words:
                inside = [n for n, (a, b) in enumerate(shown.spans) if a < end and begin < b]
                for n in inside:
                    num_targets[n] += is_target
                    num_others[n] += not is_target
                    if message["role"] != "assistant":
                        found = f"of the {message['role']} is marked as the assistant's"
                        raise _badly_marked(f"messages[{index}]", found)
                if is_target and not any(
                    shown.spans[n][0] <= begin and end <= shown.spans[n][1] for n in inside
                ):
                    found = "of the assistant is not marked as the assistant's"
                    raise _badly_marked(f"messages[{index}]", found)
        for span, targets, others in zip(shown.spans, num_targets, num_others, strict=True):
            if targets and others:
                raise InputError(
                    "messages",
                    "the chat template marks several messages as one, so weights have no place",
                    "rows without weight 0 for this base",
                )
            if not others:
                yield span

    def _end_of_calls(self, index: int, shown: _Shown) -> int:
        """Return where a message with calls ends, before the special token.

        It is where the chat up to it ends when rendered alone.
        """
        place = shown.places[index].last_mark
        marked = shown.marked
        unknown = _badly_marked(
            f"messages[{index}]", "has calls, shown in another way within the chat"
        )
        try:
            with_marks, _ = self._render(
                marked.messages[: index + 1], marked.tools, as_text=shown.as_text
            )
        except TemplateError:
            raise unknown from None
        alone, places = marked.unmark(with_marks)
        alone = alone.rstrip()
        ending = next((one for one in self._special_texts if alone.endswith(one)), "")
        last = max(max(found) for found in places.values())
        tail = alone.removesuffix(ending).rstrip()[last:]
        if not shown.text.startswith(tail, place):
            raise unknown
        return place + len(tail)

    def _turn_end(
        self, after: int, ids: list[int], offsets: Sequence[Sequence[int]], text: str
    ) -> int:
        """Return the place behind the special token that ends a turn.

        Some templates (that of Llama 2) put blanks between a message and the token that ends its
        turn.

        Args:
            after: place of the first token behind the message; returned if no special token
                follows.
        """
        for place in range(after, len(ids)):
            if ids[place] in self._special:
                return place + 1
            first, last = offsets[place]
            if text[first:last].strip():
                break
        return after


def _badly_marked(place: str, found: str) -> InputError:
    expected = "a chat template that marks what the assistant says ({% generation %})"
    return InputError(place, found, expected)


def _place_reasoning(message: dict[str, Any], number: int, template: str) -> dict[str, Any]:
    """Return a message with its `reasoning_content` where a template looks for it.

    Raises:
        InputError: if it looks nowhere.
    """
    thought = message.pop("reasoning_content", None)
    if thought is None:
        return message
    for key in REASONING_KEYS:
        if re.search(rf"\.{key}\b|['\"]{key}['\"]", template):
            return {**message, key: thought}
    if REASONING_TAGS[1] in template:
        begin, end = REASONING_TAGS
        words = f"\n\n{message['content']}" if message["content"] else ""
        return {**message, "content": f"{begin}\n{thought.strip()}\n{end}{words}"}
    raise InputError(
        f"messages[{number}].reasoning_content",
        "has no place in the base's chat template",
        "rows without it, or a base whose chat template shows it",
    )


def _with_text(message: Message) -> Message:
    """Return a message with the arguments of its calls as JSON."""
    if "tool_calls" not in message:
        return message
    calls = [
        {
            **call,
            "function": {
                **call["function"],
                "arguments": json.dumps(call["function"]["arguments"], ensure_ascii=False),
            },
        }
        for call in message["tool_calls"]
    ]
    return {**message, "tool_calls": calls}
