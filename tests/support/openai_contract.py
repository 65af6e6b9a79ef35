"""OpenAI's interface as JSON Schemas, and the violations of it in an answer of this service.

Source: openai/openai-openapi, openapi.yaml 2.3.0 (commit f85dbe2, 2026-08-21): names, types,
required fields, enums and null values of the answers of its routes. What this service never sends
(moderation, audio, graders) is left out; fields of our own are allowed, as there.

Departures, both towards the document's own examples: `nullable`, which OpenAPI 3.1 no longer
knows, is read as the document means it; and `finish_reason` of a streamed completion may be null
before the end. A job of method `kto`, which OpenAI does not have and no client of its asks for, is
checked as one of `dpo`.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
from jsonschema import Draft202012Validator
from openai.types import (
    Completion,
    ErrorObject,
    FileDeleted,
    FileObject,
    Model,
    ModelDeleted,
)
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.fine_tuning import FineTuningJob, FineTuningJobEvent
from openai.types.fine_tuning.jobs import FineTuningJobCheckpoint
from pydantic import BaseModel, ValidationError

JSON = dict[str, Any]

STRING: JSON = {"type": "string"}
INTEGER: JSON = {"type": "integer"}
NUMBER: JSON = {"type": "number"}
BOOLEAN: JSON = {"type": "boolean"}


def _one_of(*values: str) -> JSON:
    return {"type": "string", "enum": list(values)}


def _nullable(schema: JSON) -> JSON:
    return {"anyOf": [schema, {"type": "null"}]}


def _array(items: JSON, **limits: int) -> JSON:
    return {"type": "array", "items": items, **limits}


def _map(values: JSON) -> JSON:
    return {"type": "object", "additionalProperties": values}


def _object(required: JSON, optional: JSON | None = None) -> JSON:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
    }


def _auto_or(schema: JSON) -> JSON:
    return {"oneOf": [_one_of("auto"), schema]}


def _list(items: JSON, required: JSON | None = None, optional: JSON | None = None) -> JSON:
    return _object({"object": _one_of("list"), "data": _array(items), **(required or {})}, optional)


ERROR = _object(
    {
        "error": _object(
            {
                "message": STRING,
                "type": STRING,
                "param": _nullable(STRING),
                "code": _nullable(STRING),
            }
        )
    }
)

FILE = _object(
    {
        "id": STRING,
        "object": _one_of("file"),
        "bytes": INTEGER,
        "created_at": INTEGER,
        "filename": STRING,
        "purpose": _one_of(
            "assistants",
            "assistants_output",
            "batch",
            "batch_output",
            "fine-tune",
            "fine-tune-results",
            "vision",
            "user_data",
        ),
        "status": _one_of("uploaded", "processed", "error"),
    },
    {"expires_at": INTEGER, "status_details": STRING},
)
FILES = _list(FILE, {"first_id": STRING, "last_id": STRING, "has_more": BOOLEAN})
FILE_DELETED = _object({"id": STRING, "object": _one_of("file"), "deleted": BOOLEAN})

_EPOCHS = _auto_or({"type": "integer", "minimum": 1, "maximum": 50})
_BATCH_SIZE = _auto_or({"type": "integer", "minimum": 1, "maximum": 256})
_HYPERPARAMETERS = {
    "batch_size": _BATCH_SIZE,
    "learning_rate_multiplier": _auto_or({"type": "number", "exclusiveMinimum": 0}),
    "n_epochs": _EPOCHS,
}
_BETA = _auto_or({"type": "number", "exclusiveMinimum": 0, "maximum": 2})
_METHOD = _object(
    {"type": _one_of("supervised", "dpo", "reinforcement")},
    {
        "supervised": _object({}, {"hyperparameters": _object({}, _HYPERPARAMETERS)}),
        "dpo": _object({}, {"hyperparameters": _object({}, {**_HYPERPARAMETERS, "beta": _BETA})}),
    },
)
_WANDB = _object(
    {"project": STRING},
    {"name": _nullable(STRING), "entity": _nullable(STRING), "tags": _array(STRING)},
)
JOB = _object(
    {
        "id": STRING,
        "object": _one_of("fine_tuning.job"),
        "created_at": INTEGER,
        "error": _nullable(
            _object({"code": STRING, "message": STRING, "param": _nullable(STRING)})
        ),
        "fine_tuned_model": _nullable(STRING),
        "finished_at": _nullable(INTEGER),
        # Here alone may batch_size be null.
        "hyperparameters": _object({}, {**_HYPERPARAMETERS, "batch_size": _nullable(_BATCH_SIZE)}),
        "model": STRING,
        "organization_id": STRING,
        "result_files": _array(STRING),
        "status": _one_of(
            "validating_files", "queued", "running", "succeeded", "failed", "cancelled"
        ),
        "trained_tokens": _nullable(INTEGER),
        "training_file": STRING,
        "validation_file": _nullable(STRING),
        "seed": INTEGER,
    },
    {
        "integrations": _nullable(
            _array(_object({"type": _one_of("wandb"), "wandb": _WANDB}), maxItems=5)
        ),
        "estimated_finish": _nullable(INTEGER),
        "method": _METHOD,
        "metadata": _nullable(_map(STRING)),
    },
)
JOBS = _list(JOB, {"has_more": BOOLEAN})
EVENTS = _list(
    _object(
        {
            "id": STRING,
            "object": _one_of("fine_tuning.job.event"),
            "created_at": INTEGER,
            "level": _one_of("info", "warn", "error"),
            "message": STRING,
        },
        {"type": _one_of("message", "metrics"), "data": {"type": "object"}},
    ),
    {"has_more": BOOLEAN},
)
_METRICS = (
    "step",
    "train_loss",
    "train_mean_token_accuracy",
    "valid_loss",
    "valid_mean_token_accuracy",
    "full_valid_loss",
    "full_valid_mean_token_accuracy",
)
CHECKPOINTS = _list(
    _object(
        {
            "id": STRING,
            "object": _one_of("fine_tuning.job.checkpoint"),
            "created_at": INTEGER,
            "fine_tuned_model_checkpoint": STRING,
            "fine_tuning_job_id": STRING,
            "metrics": _object({}, dict.fromkeys(_METRICS, NUMBER)),
            "step_number": INTEGER,
        }
    ),
    {"has_more": BOOLEAN},
    {"first_id": _nullable(STRING), "last_id": _nullable(STRING)},
)

MODEL = _object(
    {"id": STRING, "object": _one_of("model"), "created": INTEGER, "owned_by": STRING},
    {"shutdown_date": _nullable(STRING)},
)
MODELS = _list(MODEL)
MODEL_DELETED = _object({"id": STRING, "object": STRING, "deleted": BOOLEAN})

_USAGE = _object(
    {"prompt_tokens": INTEGER, "completion_tokens": INTEGER, "total_tokens": INTEGER},
    {
        "completion_tokens_details": _object(
            {},
            dict.fromkeys(
                (
                    "accepted_prediction_tokens",
                    "audio_tokens",
                    "reasoning_tokens",
                    "rejected_prediction_tokens",
                    "text_tokens",
                ),
                INTEGER,
            ),
        ),
        "prompt_tokens_details": _object(
            {},
            dict.fromkeys(
                (
                    "audio_tokens",
                    "cache_write_tokens",
                    "cached_tokens",
                    "image_tokens",
                    "text_tokens",
                ),
                INTEGER,
            ),
        ),
    },
)
_SERVICE_TIER = _nullable(_one_of("auto", "default", "flex", "scale", "priority", "fast"))
_LOGPROB = {"token": STRING, "logprob": NUMBER, "bytes": _nullable(_array(INTEGER))}
_TOKENS = _nullable(_array(_object({**_LOGPROB, "top_logprobs": _array(_object(_LOGPROB))})))
_CHAT_LOGPROBS = _nullable(_object({"content": _TOKENS, "refusal": _TOKENS}))
_CHAT_FINISH = _one_of("stop", "length", "tool_calls", "content_filter", "function_call")
_CALL = _object(
    {
        "id": STRING,
        "type": _one_of("function"),
        "function": _object({"name": STRING, "arguments": STRING}),
    }
)
_CALL_CHUNK = _object(
    {"index": INTEGER},
    {
        "id": STRING,
        "type": _one_of("function"),
        "function": _object({}, {"name": STRING, "arguments": STRING}),
    },
)
_CHAT_MESSAGE = _object(
    {"role": _one_of("assistant"), "content": _nullable(STRING), "refusal": _nullable(STRING)},
    {"tool_calls": _array(_CALL)},
)
_CHAT_DELTA = _object(
    {},
    {
        "role": _one_of("developer", "system", "user", "assistant", "tool"),
        "content": _nullable(STRING),
        "refusal": _nullable(STRING),
        "tool_calls": _array(_CALL_CHUNK),
    },
)
_ANSWER = {"id": STRING, "created": INTEGER, "model": STRING}
CHAT = _object(
    {
        **_ANSWER,
        "object": _one_of("chat.completion"),
        "choices": _array(
            _object(
                {
                    "index": INTEGER,
                    "message": _CHAT_MESSAGE,
                    "finish_reason": _CHAT_FINISH,
                    "logprobs": _CHAT_LOGPROBS,
                }
            )
        ),
    },
    {
        "usage": _USAGE,
        "system_fingerprint": STRING,
        "service_tier": _SERVICE_TIER,
        "metadata": _nullable(_map(STRING)),
    },
)
CHAT_CHUNK = _object(
    {
        **_ANSWER,
        "object": _one_of("chat.completion.chunk"),
        "choices": _array(
            _object(
                {
                    "index": INTEGER,
                    "delta": _CHAT_DELTA,
                    "finish_reason": _nullable(_CHAT_FINISH),
                },
                {"logprobs": _CHAT_LOGPROBS},
            )
        ),
    },
    {
        "usage": _nullable(_USAGE),
        "system_fingerprint": STRING,
        "service_tier": _SERVICE_TIER,
        "obfuscation": STRING,
    },
)


def _completion(finish_reason: JSON, usage: JSON) -> JSON:
    logprobs = _object(
        {},
        {
            "text_offset": _array(INTEGER),
            "token_logprobs": _array(NUMBER),
            "tokens": _array(STRING),
            "top_logprobs": _array(_map(NUMBER)),
        },
    )
    choice = {
        "index": INTEGER,
        "text": STRING,
        "logprobs": _nullable(logprobs),
        "finish_reason": finish_reason,
    }
    return _object(
        {**_ANSWER, "object": _one_of("text_completion"), "choices": _array(_object(choice))},
        {"usage": usage, "system_fingerprint": STRING},
    )


_COMPLETION_FINISH = _one_of("stop", "length", "content_filter")
COMPLETION = _completion(_COMPLETION_FINISH, _USAGE)
COMPLETION_CHUNK = _completion(_nullable(_COMPLETION_FINISH), _nullable(_USAGE))


@dataclass(frozen=True)
class Answer:
    """Answer of a route.

    Attributes:
        schema: of the document.
        type: of the official client, which has the answer, or each object of its list.
        is_list: whether the answer is a list of such objects.
    """

    schema: JSON
    type: type[BaseModel] | None
    is_list: bool = False

    @cached_property
    def validator(self) -> Draft202012Validator:
        Draft202012Validator.check_schema(self.schema)
        return Draft202012Validator(self.schema)

    def violations(self, body: Any) -> list[str]:
        found = [
            f"{error.json_path}: {error.message[:300]}"
            for error in self.validator.iter_errors(body)
        ]
        if found or self.type is None:
            return found
        for one in body["data"] if self.is_list else [body]:
            try:
                # As JSON: what came over the wire has no other types.
                self.type.model_validate_json(orjson.dumps(one), strict=True)
            except ValidationError as error:
                found += [
                    f"{self.type.__name__}: {'.'.join(map(str, each['loc']))}: {each['msg']}"
                    for each in error.errors()
                ]
        return found


class _Failure(BaseModel):
    error: ErrorObject


_FAILURE = Answer(ERROR, _Failure)
_JOB = Answer(JOB, FineTuningJob)
_ID = r"/[^/]+"
# A fine-tuned model of a model of a hub has a slash in its name.
_MODEL_ID = r"/.+"
_JOB_PATH = rf"/v1/fine_tuning/jobs{_ID}"
ANSWERS: dict[tuple[str, str], Answer | None] = {
    ("POST", "/v1/files"): Answer(FILE, FileObject),
    ("GET", "/v1/files"): Answer(FILES, FileObject, is_list=True),
    ("GET", rf"/v1/files{_ID}"): Answer(FILE, FileObject),
    ("DELETE", rf"/v1/files{_ID}"): Answer(FILE_DELETED, FileDeleted),
    # Bytes.
    ("GET", rf"/v1/files{_ID}/content"): None,
    ("POST", "/v1/fine_tuning/jobs"): _JOB,
    ("GET", "/v1/fine_tuning/jobs"): Answer(JOBS, FineTuningJob, is_list=True),
    ("GET", _JOB_PATH): _JOB,
    ("POST", rf"{_JOB_PATH}/(cancel|pause|resume)"): _JOB,
    ("GET", rf"{_JOB_PATH}/events"): Answer(EVENTS, FineTuningJobEvent, is_list=True),
    ("GET", rf"{_JOB_PATH}/checkpoints"): Answer(
        CHECKPOINTS, FineTuningJobCheckpoint, is_list=True
    ),
    ("GET", "/v1/models"): Answer(MODELS, Model, is_list=True),
    ("GET", rf"/v1/models{_MODEL_ID}"): Answer(MODEL, Model),
    ("DELETE", rf"/v1/models{_MODEL_ID}"): Answer(MODEL_DELETED, ModelDeleted),
    ("POST", "/v1/chat/completions"): Answer(CHAT, ChatCompletion),
    ("POST", "/v1/completions"): Answer(COMPLETION, Completion),
}
"""Answers with status 200, by method and pattern of the path; None: not JSON."""
CHUNKS = {
    "/v1/chat/completions": Answer(CHAT_CHUNK, ChatCompletionChunk),
    # The client's type has no null as the `finish_reason`.
    "/v1/completions": Answer(COMPLETION_CHUNK, None),
}
"""Chunks of a streamed answer, by path."""


def find_route(route: str, method: str) -> tuple[str, str]:
    """Return the key of ANSWERS for a request; raise LookupError if there is none."""
    for one, path in ANSWERS:
        if one == method and re.fullmatch(path, route):
            return one, path
    raise LookupError(f"{method} {route} is not one of OpenAI's routes that are served here")


def violations(
    route: str, method: str, status: int, body: Any, *, is_chunk: bool = False
) -> list[str]:
    """Return what OpenAI's document, or its client's types, do not allow in an answer.

    Args:
        route: path of the request, as `/v1/files/file-1` or `/v1/files/{id}`.
        method: of the request, in capitals.
        status: of the answer; 400 and more have an error as their body.
        body: of the answer, parsed; of a stream, one chunk.
        is_chunk: whether the body is one of a stream.

    Raises:
        LookupError: if the document has no such route.
    """
    answer = ANSWERS[find_route(route, method)]
    if status >= 400:
        return _FAILURE.violations(body)
    if status != 200:
        return [f"status {status}: the document has 200"]
    if is_chunk:
        return CHUNKS[route].violations(body)
    return [] if answer is None else answer.violations(_without_kto(body))


def _without_kto(body: Any) -> Any:
    """Return an answer with jobs of method `dpo` in place of `kto`."""
    if isinstance(body, dict) and isinstance(body.get("data"), list):
        return {**body, "data": [_without_kto(one) for one in body["data"]]}
    method = body.get("method") if isinstance(body, dict) else None
    if not isinstance(method, dict) or method.get("type") != "kto":
        return body
    return {**body, "method": {"type": "dpo", "dpo": method["kto"]}}


def check(route: str, method: str, status: int, body: Any) -> None:
    """Raise AssertionError if an answer breaks the interface; other routes are not looked at."""
    try:
        found = violations(route, method, status, body)
    except LookupError:
        return
    assert not found, f"{method} {route} {status}: {found}"
