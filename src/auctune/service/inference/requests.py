"""Bodies of requests for answers: OpenAI's fields.

What changes an answer in a way that is not offered is refused by name, except with its neutral
value. What changes no answer is accepted and has no effect.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StrictBool,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from auctune.datasets import read_chat
from auctune.domain import InputError
from auctune.domain.generation import GenerationRequest, SamplingParams
from auctune.service.jobs.request import FORBID_EXTRA, Name

_MAX_ANSWERS = 128
_MAX_STOPS = 4
_MIN_TEMPERATURE = 1e-4
_DEFAULT_TEXT_TOKENS = 16
"""Tokens of a completion, as at OpenAI; an answer of a chat goes on to its end."""

Count = Annotated[int, Field(ge=1, le=10**9, strict=True)]
Answers = Annotated[int, Field(ge=1, le=_MAX_ANSWERS, strict=True)]
Temperature = Annotated[float, Field(ge=0, le=2, strict=True)]
Share = Annotated[float, Field(ge=0, le=1, strict=True)]
Seed = Annotated[int, Field(ge=-(2**63), le=2**63 - 1, strict=True)]
StopText = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
StopTexts = Annotated[list[StopText], Field(max_length=_MAX_STOPS)]
# pydantic checks the items with its own error otherwise, one for each kind of prompt.
_PROMPT_SCHEMA = {
    "anyOf": [
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
        {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
        {
            "type": "array",
            "items": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
            "minItems": 1,
        },
    ]
}


class Only:
    """Annotation of a field that is not offered: null and these neutral values are accepted."""

    def __init__(self, *neutral: object) -> None:
        self.neutral = neutral

    def __get_pydantic_core_schema__(self, _: Any, __: GetCoreSchemaHandler) -> CoreSchema:
        """Accept the neutral values only."""
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(
        self, _: CoreSchema, __: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the schema of the neutral values."""
        return {"enum": [None, *self.neutral]}

    def _check(self, value: Any) -> Any:
        # 0 equals False.
        if value is None or any(
            one == value and isinstance(one, bool) == isinstance(value, bool)
            for one in self.neutral
        ):
            return value
        expected = " or ".join(map(json.dumps, self.neutral)) or "null"
        raise InputError("", f"{value!r:.60} is not offered", f"{expected}, or no such field")


class StreamOptions(BaseModel):
    """Options of a streamed answer; `include_obfuscation` has no effect."""

    model_config = FORBID_EXTRA

    include_usage: StrictBool | None = None
    include_obfuscation: StrictBool | None = None


class AnswerRequest(BaseModel):
    """Fields that requests for answers share."""

    model_config = FORBID_EXTRA

    model: Name
    temperature: Temperature | None = None
    top_p: Share | None = None
    max_tokens: Count | None = None
    stop: StopText | StopTexts | None = None
    seed: Seed | None = None
    n: Answers | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None

    frequency_penalty: Annotated[Any, Only(0)] = None
    presence_penalty: Annotated[Any, Only(0)] = None
    logit_bias: Annotated[Any, Only({})] = None

    # They change no answer.
    user: str | None = None
    metadata: dict[str, str] | None = None
    store: StrictBool | None = None

    @model_validator(mode="after")
    def _options_are_of_a_stream(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise InputError("stream_options", "is given without a stream", "stream: true")
        return self

    @property
    def num_answers(self) -> int:
        """Answers to each prompt."""
        return self.n or 1

    @property
    def includes_usage(self) -> bool:
        """Return whether the last chunk of a stream has the usage."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def _params(self, max_tokens: int | None, num_logprobs: int | None) -> SamplingParams:
        stop = [self.stop] if isinstance(self.stop, str) else self.stop
        temperature = 1.0 if self.temperature is None else self.temperature
        # At these the likeliest token has all of the probability, up to rounding.
        if self.top_p == 0 or temperature < _MIN_TEMPERATURE:
            temperature = 0.0
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            stop=tuple(stop or ()),
            seed=self.seed,
            num_answers=self.num_answers,
            num_logprobs=num_logprobs,
        )


class ChatRequest(AnswerRequest):
    """POST /v1/chat/completions; `messages` and `tools` are as in rows of chats."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    max_completion_tokens: Count | None = None
    logprobs: StrictBool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20, strict=True)] | None = None

    audio: Annotated[Any, Only()] = None
    function_call: Annotated[Any, Only("auto", "none")] = None
    functions: Annotated[Any, Only([])] = None
    modalities: Annotated[Any, Only(["text"])] = None
    parallel_tool_calls: Annotated[Any, Only(True)] = None
    reasoning_effort: Annotated[Any, Only("none")] = None
    response_format: Annotated[Any, Only({"type": "text"})] = None
    verbosity: Annotated[Any, Only("medium")] = None
    web_search_options: Annotated[Any, Only()] = None

    # They change no answer.
    prediction: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            found = "is given beside max_completion_tokens"
            raise InputError("max_tokens", found, "one of the two")
        if self.top_logprobs is not None and not self.logprobs:
            raise InputError("top_logprobs", "is given without logprobs", "logprobs: true")
        if self.tool_choice == "auto" and not self.tools:
            raise InputError("tool_choice", "is given without tools", "tools")
        return self

    @property
    def tool_names(self) -> frozenset[str]:
        """Names of the tools that an answer may call."""
        if self.tool_choice == "none":
            return frozenset()
        return frozenset(tool["function"]["name"] for tool in self.tools or ())

    def prompts(self, adapter: Path | None) -> list[GenerationRequest]:
        """Return what to generate.

        Raises:
            InputError: naming the message or the tool that is not supported.
        """
        tools = None if self.tool_choice == "none" else self.tools
        for index, message in enumerate(self.messages):
            if message.get("weight") is not None:
                raise InputError(f"messages[{index}].weight", "is not offered", "no such field")
        try:
            chat = read_chat({"messages": self.messages, "tools": tools}, "")
        except InputError as error:
            place = error.place.removeprefix(": ").replace(": ", ".")
            raise InputError(place, error.found, error.expected) from None
        num_logprobs = (self.top_logprobs or 0) if self.logprobs else None
        params = self._params(self.max_completion_tokens or self.max_tokens, num_logprobs)
        request = GenerationRequest(
            adapter=adapter,
            messages=tuple(chat["messages"]),
            tools=tuple(chat.get("tools", ())),
            params=params,
        )
        return [request]


class CompletionRequest(AnswerRequest):
    """POST /v1/completions."""

    prompt: Annotated[Any, WithJsonSchema(_PROMPT_SCHEMA)]
    logprobs: Annotated[int, Field(ge=0, le=5, strict=True)] | None = None

    best_of: Answers | None = None
    echo: Annotated[Any, Only(False)] = None
    suffix: Annotated[Any, Only()] = None

    @model_validator(mode="after")
    def _all_answers_are_returned(self) -> Self:
        if self.best_of not in (None, self.num_answers):
            found = f"is {self.best_of} for n = {self.num_answers}"
            raise InputError("best_of", found, "as many as n: all answers are returned")
        return self

    def prompts(self, adapter: Path | None) -> list[GenerationRequest]:
        """Return what to generate, by prompt.

        Raises:
            InputError: for a prompt in another form, or too many of them.
        """
        prompts = _read_prompts(self.prompt)
        if (count := len(prompts) * self.num_answers) > _MAX_ANSWERS:
            raise InputError("prompt", f"asks for {count} answers", f"{_MAX_ANSWERS} at most")
        params = self._params(self.max_tokens or _DEFAULT_TEXT_TOKENS, self.logprobs)
        return [GenerationRequest(adapter=adapter, prompt=one, params=params) for one in prompts]


def _read_prompts(prompt: Any) -> list[str | tuple[int, ...]]:
    """Return the prompts of a request: texts or tokens, one or a list."""
    if isinstance(prompt, str) or (isinstance(prompt, list) and prompt and _are_tokens(prompt)):
        prompt = [prompt]
    if not isinstance(prompt, list) or not prompt:
        raise InputError("prompt", f"{prompt!r:.60}", "a text, tokens, or a list of either")
    prompts: list[str | tuple[int, ...]] = []
    for index, one in enumerate(prompt):
        if isinstance(one, str):
            _check_unicode(one, f"prompt[{index}]")
            prompts.append(one)
        elif isinstance(one, list) and _are_tokens(one):
            prompts.append(tuple(one))
        else:
            expected = "a text, or a list of tokens"
            raise InputError(f"prompt[{index}]", f"{one!r:.60}", expected)
    return prompts


def _are_tokens(value: list[Any]) -> bool:
    return all(type(one) is int and 0 <= one < 2**31 for one in value)


def _check_unicode(text: str, place: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(place, "has a lone surrogate", "Unicode text") from None
