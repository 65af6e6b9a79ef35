"""Answers as OpenAI's API has them: `chat.completion` and `text_completion`, whole and in chunks.

An answer writes what was generated of a request: `chunks` for each piece, in a stream, or `whole`
once all pieces were added. Probabilities of tokens become JSON as they come, as all of an answer at
once would hold up the event loop.

Calls of tools within the text are in the format of Hermes, Qwen and SmolLM:

    <tool_call>
    {"name": "get_weather", "arguments": {"city": "Lisbon"}}
    </tool_call>

Text in another form, and calls of tools that the request does not have, stay text.
"""

import codecs
import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

import auctune
from auctune.domain.generation import AnswerEnd, AnswerPiece, DrawnToken, Piece, PromptRead
from auctune.service.identifiers import new_id
from auctune.service.inference.catalog import Model
from auctune.service.inference.requests import ChatRequest, CompletionRequest

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


JSON = dict[str, Any]


def system_fingerprint(model: Model) -> str:
    """Return what determines answers beside the request: the model, and what computes them."""
    file = "" if model.file is None else model.file.sha256
    engine = " vllm" if model.uses_vllm else ""
    content = f"{auctune.__version__} {model.base} {file}{engine}"
    return f"fp_{hashlib.sha256(content.encode()).hexdigest()[:12]}"


@dataclass
class _Choice:
    """One answer so far."""

    text: str = ""
    logprobs: JSON | None = None
    calls: list[ToolCall] = field(default_factory=list)
    finish_reason: str | None = None


class Answer(ABC):
    """What was generated of a request so far.

    Args:
        model: that answers.
        request: that is answered.
        created_at: in unix time.
        num_prompts: of the request, each with as many answers.

    Attributes:
        prompt_tokens, completion_tokens: of all prompts and answers.
    """

    prefix: str
    object: str
    chunk_object: str

    def __init__(
        self,
        model: Model,
        request: ChatRequest | CompletionRequest,
        created_at: float,
        num_prompts: int,
    ) -> None:
        self._head: JSON = {
            "id": new_id(self.prefix),
            "created": int(created_at),
            "model": model.name,
            "system_fingerprint": system_fingerprint(model),
        }
        self._num_answers = request.num_answers
        self._includes_usage = request.includes_usage
        self._choices = [_Choice() for _ in range(num_prompts * self._num_answers)]
        self.prompt_tokens = self.completion_tokens = 0

    def add(self, prompt: int, piece: Piece) -> None:
        """Add a piece of an answer to a prompt."""
        for _ in self.chunks(prompt, piece):
            pass

    def chunks(self, prompt: int, piece: Piece) -> Iterator[JSON]:
        """Add a piece of an answer to a prompt; yield what a stream shows of it."""
        if isinstance(piece, PromptRead):
            self.prompt_tokens += piece.prompt_tokens
            return
        assert isinstance(piece, AnswerPiece | AnswerEnd)
        index = prompt * self._num_answers + piece.answer
        if isinstance(piece, AnswerEnd):
            self.completion_tokens += piece.num_tokens
            for shown in self._end(index, piece.reason):
                yield self._chunk([{"index": index, **shown}])
        elif (written := self._write(index, piece)) is not None:
            yield self._chunk([{"index": index, **written}])

    def first_chunks(self) -> Iterator[JSON]:
        """Yield what a stream begins with."""
        yield from ()

    def last_chunks(self) -> Iterator[JSON]:
        """Yield what a stream ends with, before `[DONE]`."""
        if self._includes_usage:
            yield {**self._chunk([]), "usage": self.usage()}

    def whole(self) -> JSON:
        """Return the complete answer."""
        choices = [{"index": index, **self._choice(one)} for index, one in enumerate(self._choices)]
        return {**self._head, "object": self.object, "choices": choices, "usage": self.usage()}

    def usage(self) -> JSON:
        """Return the numbers of tokens."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
        }

    def _chunk(self, choices: list[JSON]) -> JSON:
        usage = {"usage": None} if self._includes_usage else {}
        return {**self._head, "object": self.chunk_object, "choices": choices, **usage}

    @abstractmethod
    def _write(self, index: int, piece: AnswerPiece) -> JSON | None:
        """Add a piece to an answer; return what a stream shows of it, or None."""

    @abstractmethod
    def _end(self, index: int, reason: str) -> Iterator[JSON]:
        """End an answer; yield what a stream shows of that."""

    @abstractmethod
    def _choice(self, choice: _Choice) -> JSON:
        """Return a complete answer, without its index."""


class ChatAnswer(Answer):
    """Answers to a chat."""

    prefix = "chatcmpl"
    object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def __init__(
        self, model: Model, request: ChatRequest, created_at: float, num_prompts: int
    ) -> None:
        super().__init__(model, request, created_at, num_prompts)
        self._has_logprobs = bool(request.logprobs)
        for choice in self._choices:
            choice.logprobs = self._logprobs(())
        self._parsers = [ToolCallParser(request.tool_names) for _ in self._choices]

    def first_chunks(self) -> Iterator[JSON]:
        for index in range(len(self._choices)):
            delta = {"role": "assistant", "content": ""}
            yield self._chunk([{"index": index, **_delta(delta)}])

    def _write(self, index: int, piece: AnswerPiece) -> JSON | None:
        choice, text = self._choices[index], self._parsers[index].add(piece.text)
        choice.text += text
        logprobs = self._logprobs(piece.tokens)
        _append(choice.logprobs, logprobs)
        if not text and not piece.tokens:
            return None
        return _delta({"content": text}, logprobs)

    def _end(self, index: int, reason: str) -> Iterator[JSON]:
        choice = self._choices[index]
        text, choice.calls = self._parsers[index].finish()
        choice.text += text
        choice.finish_reason = "tool_calls" if choice.calls else reason
        if text:
            yield _delta({"content": text})
        if choice.calls:
            calls = [{"index": n, **_call(call)} for n, call in enumerate(choice.calls)]
            yield _delta({"tool_calls": calls})
        yield {**_delta({}), "finish_reason": choice.finish_reason}

    def _choice(self, choice: _Choice) -> JSON:
        message: JSON = {"role": "assistant", "content": choice.text, "refusal": None}
        if choice.calls:
            message["content"] = choice.text or None
            message["tool_calls"] = list(map(_call, choice.calls))
        return {
            "message": message,
            "logprobs": choice.logprobs,
            "finish_reason": choice.finish_reason,
        }

    def _logprobs(self, tokens: Iterable[DrawnToken]) -> JSON | None:
        if not self._has_logprobs:
            return None
        content = [
            _written({**_logprob(one), "top_logprobs": [_logprob(other) for other in one.top]})
            for one in tokens
        ]
        return {"content": content, "refusal": None}


class CompletionAnswer(Answer):
    """Continuations of prompts."""

    prefix = "cmpl"
    object = chunk_object = "text_completion"

    def __init__(
        self, model: Model, request: CompletionRequest, created_at: float, num_prompts: int
    ) -> None:
        super().__init__(model, request, created_at, num_prompts)
        self._num_logprobs = request.logprobs
        self._offsets = [_TextOffset() for _ in self._choices]
        for choice, offset in zip(self._choices, self._offsets, strict=True):
            choice.logprobs = self._logprobs((), offset)

    def _write(self, index: int, piece: AnswerPiece) -> JSON | None:
        choice = self._choices[index]
        choice.text += piece.text
        logprobs = self._logprobs(piece.tokens, self._offsets[index])
        _append(choice.logprobs, logprobs)
        return {"text": piece.text, "logprobs": logprobs, "finish_reason": None}

    def _end(self, index: int, reason: str) -> Iterator[JSON]:
        self._choices[index].finish_reason = reason
        yield {"text": "", "logprobs": None, "finish_reason": reason}

    def _choice(self, choice: _Choice) -> JSON:
        return {
            "text": choice.text,
            "logprobs": choice.logprobs,
            "finish_reason": choice.finish_reason,
        }

    def _logprobs(self, tokens: Sequence[DrawnToken], offset: "_TextOffset") -> JSON | None:
        if self._num_logprobs is None:
            return None
        return {
            "tokens": [one.token for one in tokens],
            "token_logprobs": [one.logprob for one in tokens],
            # The drawn token is among them in any case.
            "top_logprobs": [
                _written({other.token: other.logprob for other in (*one.top, one)})
                for one in tokens
            ],
            "text_offset": [offset.advance(one) for one in tokens],
        }


class _TextOffset:
    """Counts the characters of an answer before each token, which may be parts of characters."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._offset = 0

    def advance(self, token: DrawnToken) -> int:
        before = self._offset
        self._offset += len(self._decoder.decode(bytes(token.bytes)))
        return before


def _delta(delta: JSON, logprobs: JSON | None = None) -> JSON:
    return {"delta": delta, "logprobs": logprobs, "finish_reason": None}


def _written(value: JSON) -> Any:
    """Return a value that is JSON already."""
    return orjson.Fragment(orjson.dumps(value))


def _append(logprobs: JSON | None, more: JSON | None) -> None:
    """Append the lists of logprobs to those of an answer."""
    for name, values in (more or {}).items():
        if values is not None:
            assert logprobs is not None
            logprobs[name] += values


def _call(call: ToolCall) -> JSON:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _logprob(token: Any) -> JSON:
    return {"token": token.token, "logprob": token.logprob, "bytes": list(token.bytes)}
