"""Chats as tokens by the base's chat template, and which of them the assistant says.

A template may mark what the assistant says itself (`{% generation %}`); these marks count, as for
TRL and transformers. Else the assistant's messages are looked for in the rendered text:

- A message begins after what the template puts where the model is to begin writing; where the
  template shows it in another way, at its words, or at the spaces before them, which the model then
  has to write itself (Llama 2).
- It ends with its words, and one with calls of tools where the chat up to it ends when rendered
  alone. The special token that ends the turn belongs to it, with blanks in between.

What a template does not show is refused: a model cannot learn it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import TemplateError
from transformers.utils.chat_template_utils import render_jinja_template

from auctune.domain.dataset import is_context
from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Message = Mapping[str, Any]
Span = tuple[int, int]
"""First and last character (exclusive)."""

# As transformers looks for them.
_MARK = re.compile(r"\{%-?\s*generation\s*-?%\}")


class _UnmarkedError(Exception):
    """A message cannot be found in the rendered text."""

    def __init__(self, index: int, found: str) -> None:
        self.index = index
        self.found = found


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
        shown = [{key: one[key] for key in one if key != "weight"} for one in messages]
        try:
            text, spans = self._render_whole(shown, tools)
            if not self._is_marked:
                spans = list(self._find_spans(shown, tools, text))
        except _UnmarkedError as error:
            expected = "a chat template that marks what the assistant says ({% generation %})"
            raise InputError(f"{place}: messages[{error.index}]", error.found, expected) from None
        except InputError as error:
            raise error.within(place) from None
        encoded = self._tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
        # Arrays: a loop over all tokens for each message takes seconds for thousands of messages.
        begins, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
        targets = [False] * len(ids)
        for first, last in self._targets(messages, spans, place):
            inside = np.flatnonzero((begins < last) & (ends > first)).tolist()
            after = inside[-1] + 1 if inside else len(ids)
            end = after if self._is_marked else self._turn_end(after, ids, offsets, text)
            for n in (*inside, *range(after, end)):
                targets[n] = True
        return ids, targets

    def prompt(self, messages: Sequence[Message], tools: Sequence[Message]) -> list[int]:
        """Return the tokens of a chat, with the assistant's turn begun.

        Raises:
            InputError: if the template refuses the chat, or does not show all of it.
        """
        text, _ = self._render_whole(messages, tools, add_generation_prompt=True)
        return list(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def _render_whole(
        self, messages: Sequence[Message], tools: Sequence[Message], **options: Any
    ) -> tuple[str, list[Span]]:
        """Render a chat; raise InputError if the template refuses it, or leaves something out."""
        try:
            text, spans = self._render(messages, tools, **options)
            self._check_shown(messages, tools, text, **options)
        except (TemplateError, TypeError) as error:
            # Templates add texts up; one that does not know a key adds what is none.
            raise InputError(
                "messages",
                f"refused by the tokenizer's chat template ({error})",
                "messages in the order of roles that the base model knows",
            ) from None
        return text, spans

    def _render(
        self, messages: Sequence[Message], tools: Sequence[Message], **options: Any
    ) -> tuple[str, list[Span]]:
        """Return the text of a chat, and the spans that the template itself marks."""
        rendered, spans = render_jinja_template(
            conversations=[list(messages)],
            tools=list(tools) or None,
            chat_template=self._tokenizer.get_chat_template(tools=list(tools) or None),
            return_assistant_tokens_mask=self._is_marked,
            **options,
            **self._tokenizer.special_tokens_map,
        )
        return rendered[0], [tuple(span) for span in spans[0]] if spans else []

    def _check_shown(
        self, messages: Sequence[Message], tools: Sequence[Message], text: str, **options: Any
    ) -> None:
        missing = None
        if tools and text == self._render(messages, (), **options)[0]:
            missing = "tools"
        for number, message in enumerate(messages):
            calls = message.get("tool_calls", ())
            if any(call["function"]["name"] not in text for call in calls):
                missing = f"messages[{number}].tool_calls"
            elif message["role"] == "tool" and not _shows(text, message["content"]):
                missing = f"messages[{number}].content"
        if missing is not None:
            expected = "rows without tools, or a base whose chat template knows them"
            raise InputError(missing, "is not shown by the base's chat template", expected)

    def _targets(
        self, messages: Sequence[Message], spans: Sequence[Span], place: str
    ) -> Iterator[Span]:
        """Yield the spans of the assistant's messages but those of weight 0."""
        assistants = [one for one in messages if one["role"] == "assistant"]
        if len(spans) == len(assistants):
            pairs = zip(assistants, spans, strict=True)
            yield from (span for message, span in pairs if not is_context(message))
        elif any(map(is_context, assistants)):
            found = f"{len(spans)} turns for {len(assistants)} messages of the assistant"
            raise InputError(
                f"{place}: messages",
                f"the chat template marks {found}, so that weights have no place",
                "rows without weight 0 for this base",
            )
        else:
            yield from spans

    def _find_spans(
        self, messages: Sequence[Message], tools: Sequence[Message], text: str
    ) -> Iterator[Span]:
        """Yield the span of each of the assistant's messages in `text`, without the turn's end."""
        prompted, _ = self._render(messages, tools, add_generation_prompt=True)
        opening = prompted[len(text) :] if prompted.startswith(text) else ""
        position = 0
        for index, message in enumerate(messages):
            by_assistant = message["role"] == "assistant"
            opened = text.find(opening, position) if by_assistant and opening else -1
            begin = position if opened < 0 else opened + len(opening)
            if by_assistant and message.get("tool_calls"):
                if opened < 0:
                    raise _UnmarkedError(index, "has calls where no turn of the model is seen")
                position = self._end_alone(messages[: index + 1], tools, text)
                if position <= begin:
                    raise _UnmarkedError(index, "has calls, shown in another way within the chat")
                yield begin, position
                continue
            # Some templates strip the blanks around a message.
            words = message["content"]
            words = words if words in text else words.strip()
            at = text.find(words, begin)
            if at >= 0:
                position = at + len(words)
            if by_assistant:
                if at < 0:
                    raise _UnmarkedError(index, "is not shown as it was written")
                if opened < 0:
                    begin = len(text[:at].rstrip(" "))
                yield begin, position

    def _end_alone(self, messages: Sequence[Message], tools: Sequence[Message], text: str) -> int:
        """Return where the last of some messages ends, before the special token; 0 if unknown."""
        alone = self._render(messages, tools)[0].rstrip()
        if not text.startswith(alone):
            return 0
        ending = next((one for one in self._special_texts if alone.endswith(one)), "")
        return len(alone.removesuffix(ending).rstrip())

    def _turn_end(self, after: int, ids: list[int], offsets: list[Span], text: str) -> int:
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


def _shows(text: str, content: str) -> bool:
    # Some templates show a tool's result as JSON.
    return content.strip() in text or json.dumps(content)[1:-1] in text
