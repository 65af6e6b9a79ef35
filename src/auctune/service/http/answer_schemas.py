"""Response models of models and their answers: OpenAI's objects."""

from typing import Literal

from pydantic import BaseModel


class ModelObject(BaseModel):
    """A base, or a fine-tuned model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str


class ModelList(BaseModel):
    """All models of a user."""

    object: Literal["list"] = "list"
    data: list[ModelObject]


class ModelDeleted(BaseModel):
    """A model that was deleted."""

    id: str
    object: Literal["model"] = "model"
    deleted: bool


class Usage(BaseModel):
    """Numbers of tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Logprob(BaseModel):
    """A token, its bytes in UTF-8 and the natural logarithm of its probability."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprobs(Logprob):
    """A token of an answer, and the likeliest ones at its place."""

    top_logprobs: list[Logprob]


class ChatLogprobs(BaseModel):
    """Tokens of an answer to a chat."""

    content: list[TokenLogprobs]
    refusal: None


class CalledFunction(BaseModel):
    """Name and arguments of a call, these as JSON in a text."""

    name: str
    arguments: str


class MessageToolCall(BaseModel):
    """A call of a tool."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class AnswerMessage(BaseModel):
    """Message of the assistant."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: list[MessageToolCall] | None = None


class ChatChoice(BaseModel):
    """One answer to a chat."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: Literal["stop", "length", "tool_calls"]


class ChatCompletion(BaseModel):
    """Answers to a chat."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage


class TextLogprobs(BaseModel):
    """Tokens of a continuation; `text_offset` counts characters from its begin."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(BaseModel):
    """One continuation of a prompt."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: Literal["stop", "length"]


class TextCompletion(BaseModel):
    """Continuations of prompts."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage
