"""/v1/models: bases and fine-tuned models; /v1/chat/completions and /v1/completions: answers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from auctune.domain import AuctuneError
from auctune.service.accounts.registry import Principal
from auctune.service.http.errors import ERRORS, ApiError, to_api_error
from auctune.service.http.requests import SECURED, CurrentUser, ServiceDep, body_schema, read_body
from auctune.service.http.routes.files import delete_record
from auctune.service.http.routes.streams import HEADERS
from auctune.service.http.schemas import (
    ChatCompletion,
    ModelDeleted,
    ModelList,
    ModelObject,
    TextCompletion,
)
from auctune.service.http.serializers import JSON, json_in_thread
from auctune.service.inference.answers import Answer, ChatAnswer, CompletionAnswer
from auctune.service.inference.catalog import Model
from auctune.service.inference.generation import PromptPiece
from auctune.service.inference.requests import ChatRequest, CompletionRequest
from auctune.service.service import Service

T = TypeVar("T")
R = TypeVar("R", ChatRequest, CompletionRequest)
Pieces = AsyncGenerator[PromptPiece]

router = APIRouter(prefix="/v1", responses=ERRORS)


def _documented(request: type[Any], answer: type[Any]) -> dict[str, Any]:
    """Return the OpenAPI description of a route that parses its body itself."""
    return {
        "tags": ["answers"],
        "responses": {
            200: {
                "model": answer,
                "content": {"text/event-stream": {}},
                "description": "The answer, or with `stream` its chunks as server-sent events",
            }
        },
        "openapi_extra": {**SECURED, **body_schema(request)},
    }


@router.post("/chat/completions", **_documented(ChatRequest, ChatCompletion))
async def chat(service: ServiceDep, who: CurrentUser, request: Request) -> Response:
    """Answer a chat."""
    body = read_body(await request.body(), ChatRequest)
    return await _respond(service, who, request, body, ChatAnswer)


@router.post("/completions", **_documented(CompletionRequest, TextCompletion))
async def complete(service: ServiceDep, who: CurrentUser, request: Request) -> Response:
    """Continue prompts."""
    body = read_body(await request.body(), CompletionRequest)
    return await _respond(service, who, request, body, CompletionAnswer)


def check_enabled(service: Service) -> None:
    """Raise 403 if models do not answer."""
    if not service.generation.is_enabled:
        found = "models do not answer at this service: [inference] is not enabled in its settings"
        raise ApiError(403, found, "inference_disabled")


async def _respond(
    service: Service,
    who: Principal,
    request: Request,
    body: R,
    answer_type: Callable[[Model, R, float, int], Answer],
) -> Response:
    check_enabled(service)
    model = await service.models.find(body.model, who.user)
    prompts = body.prompts(None if model.file is None else service.files.path(model.file))
    answer = answer_type(model, body, service.now(), len(prompts))
    pieces = service.generation.generate(model, who, prompts)
    # What is wrong with a request is known before the first piece, and is no part of a stream.
    first = await while_connected(request, anext(pieces))
    if body.stream:
        return ClosedStream(_events(answer, first, pieces), "text/event-stream", pieces)
    return await while_connected(request, _whole(answer, first, pieces))


async def _whole(answer: Answer, first: PromptPiece, pieces: Pieces) -> Response:
    async with aclosing(pieces):
        answer.add(*first)
        async for prompt, piece in pieces:
            answer.add(prompt, piece)
    return Response(orjson.dumps(answer.whole()), media_type="application/json")


async def _events(answer: Answer, first: PromptPiece, pieces: Pieces) -> AsyncGenerator[bytes]:
    for chunk in (*answer.first_chunks(), *answer.chunks(*first)):
        yield _event(chunk)
    try:
        async for prompt, piece in pieces:
            for chunk in answer.chunks(prompt, piece):
                yield _event(chunk)
    except AuctuneError as error:
        yield _event(to_api_error(error).content())
        return
    for chunk in answer.last_chunks():
        yield _event(chunk)
    yield b"data: [DONE]\n\n"


def _event(content: JSON) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(content)


class ClosedStream(StreamingResponse):
    """Stream whose content, and where that comes from, are closed when the client disconnects."""

    def __init__(
        self,
        content: AsyncGenerator[bytes],
        media_type: str,
        source: AsyncGenerator[Any] | None = None,
    ) -> None:
        super().__init__(content, media_type=media_type, headers=HEADERS)
        self._content, self._source = content, source or content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The client may leave before the first piece of content is asked for.
        async with aclosing(self._source), aclosing(self._content):
            await super().__call__(scope, receive, send)


async def while_connected(request: Request, work: Awaitable[T]) -> T:
    """Return what some work returns, or cancel it when the client disconnects."""
    task, watch = asyncio.ensure_future(work), asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        watch.cancel()
        await asyncio.wait((task, watch))


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@router.get("/models", tags=["models"], response_model=ModelList)
async def list_models(service: ServiceDep, who: CurrentUser) -> Response:
    """List the bases, and the user's fine-tuned models, newest first."""
    models = await service.models.list(who.user)
    return await json_in_thread(lambda: {"object": "list", "data": list(map(_model, models))})


# Names of bases may be paths.
@router.get("/models/{model:path}", tags=["models"], response_model=ModelObject)
async def retrieve(service: ServiceDep, who: CurrentUser, model: str) -> JSON:
    """Return a base, or one of the user's fine-tuned models, or a checkpoint of one."""
    return _model(await service.models.find(model, who.user))


@router.delete("/models/{model:path}", tags=["models"], response_model=ModelDeleted)
async def delete(service: ServiceDep, who: CurrentUser, model: str) -> JSON:
    """Delete a fine-tuned model of the user, or a checkpoint: the result file with its adapter."""
    found = await service.models.find(model, who.user)
    if found.file is None:
        raise ApiError(403, f"{model!r} is a base, which nobody can delete", "forbidden", "model")
    await delete_record(service, found.file)
    return {"id": found.name, "object": "model", "deleted": True}


def _model(model: Model) -> JSON:
    return {
        "id": model.name,
        "object": "model",
        "created": int(model.created_at),
        "owned_by": model.owner,
    }
