"""Generation worker whose answers vLLM computes; its messages are those of the other one.

Prompts and rows are read here, and text is made of tokens here, by what auctune's own engine uses:
the server is sent tokens, and sends tokens. The worker ends with the server, and is started again
by the next request.

| request | requests to the server |
| --- | --- |
| for answers | one for each answer; all but the first find the prompt in its cache of prefixes |
| for a score | one for each row, for the log-probabilities of its prompt |

The server has no more of them at once than it computes. The others wait here: a free place goes to
the user who was served the fewest tokens.

The server computes no tokens while it loads an adapter. So adapters are loaded one at a time, that
of the user whose loads have taken least time first, and not for requests that are cancelled.
"""

import asyncio
import os
import shutil
import time
import traceback
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import httpx2
from pydantic import TypeAdapter

from auctune.domain import AuctuneError, InputError
from auctune.domain.fair_places import FairPlaces
from auctune.domain.generation import (
    DRAW_COST,
    READ_COST,
    GenerationRequest,
    Piece,
    PromptRead,
    RowScored,
    RowsRead,
    RowsScored,
    SamplingParams,
)
from auctune.engine.generation import SETTINGS, GeneratorSettings
from auctune.engine.messages.base import ErrorRecord, Failed, Ready
from auctune.engine.messages.generation import GENERATOR_MESSAGES, Generated, GeneratedPiece
from auctune.engine.vllm_server import BASE, VllmServer
from auctune.engine.workers.generation import Accepted, Parent, RequestThread, refuse

if TYPE_CHECKING:
    from auctune.domain.generation import DrawnToken
    from auctune.train.generation.reading import ReadRequest, ReadRows, RequestReader

MESSAGES = GENERATOR_MESSAGES
_POLL_SECONDS = 0.1
_GENERATE = "/inference/v1/generate"
_MAX_SEED = 2**63 - 1
_OUTPUT_LAYER = "lm_head."


@dataclass(frozen=True, slots=True)
class _Token:
    """A token at its place among all; `rank` is missing if its logit is not a number."""

    token_id: int
    logprob: float
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class _Drawn(_Token):
    """A token of an answer, and the likeliest ones, this one first."""

    top_logprobs: tuple[_Token, ...] = ()


@dataclass(frozen=True, slots=True)
class _Logprobs:
    content: tuple[_Drawn, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    logprobs: _Logprobs


@dataclass(frozen=True, slots=True)
class _Chunk:
    """An event of a stream: new tokens of an answer, or an error."""

    choices: tuple[_Choice, ...] = ()
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _PromptToken:
    logprob: float
    rank: int | None


@dataclass(frozen=True, slots=True)
class _PromptScore:
    """For each token of a prompt but the first, itself and the likeliest one, by number."""

    prompt_logprobs: tuple[dict[int, _PromptToken] | None, ...]


_CHUNKS = TypeAdapter(_Chunk)
_PROMPT_SCORES = TypeAdapter(_PromptScore)


def main(parent: Parent, argument: Any) -> None:
    """Serve requests; the argument is a `GeneratorSettings` with `vllm`."""
    settings = SETTINGS.validate_python(argument)
    os.nice(settings.niceness)
    asyncio.run(_serve(parent, settings))


async def _serve(parent: Parent, settings: GeneratorSettings) -> None:
    from auctune.train.generation.reading import RequestReader
    from auctune.train.tokenizer import find_source

    def end(reason: str) -> NoReturn:
        parent.send(Failed(error=ErrorRecord.of(AuctuneError(f"vLLM ended: {reason}"))))
        parent.exit(1)

    try:
        source, _ = find_source(settings.base, settings.cache)
        server = VllmServer(source, settings, end)
        reader = RequestReader.without_base(settings.base, cache=settings.cache)
    except AuctuneError as error:
        parent.send(Failed(error=ErrorRecord.of(error)))
        return
    async with server.client() as client:
        context = await _wait_until_ready(client)
        server.set_ready()
        context = min(context, reader.context_tokens or context)
        # It draws a token after each prompt, also where only the prompt's own are wanted.
        reader = replace(reader, context_tokens=context, row_tokens=context - 1)
        parent.send(Ready())
        accepted: asyncio.Queue[Accepted] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def accept(one: Accepted) -> None:
            loop.call_soon_threadsafe(accepted.put_nowait, one)

        RequestThread(parent, reader, accept).start()
        worker = _Worker(parent, settings, reader, server, client)
        while (one := await accepted.get()) is not None:
            worker.accept(*one)


async def _wait_until_ready(client: httpx2.AsyncClient) -> int:
    """Return the tokens of a prompt and its answer at most, once the server has started.

    If it ends before that, so does the worker.
    """
    while True:
        try:
            await client.get("/health")
            found = (await client.get("/v1/models")).json()
        except httpx2.TransportError:
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return int(found["data"][0]["max_model_len"])


class _Worker:
    """Sends requests to the server, and what it answers to the parent."""

    def __init__(
        self,
        parent: Parent,
        settings: GeneratorSettings,
        reader: "RequestReader",
        server: VllmServer,
        client: httpx2.AsyncClient,
    ) -> None:
        from auctune.train.generation.token_bytes import TokenBytes

        self._parent, self._reader, self._server, self._client = parent, reader, server, client
        self._adapters = _Adapters(settings, server.folder, client)
        self._places = _Places(settings.max_batch)
        self._bytes = TokenBytes(reader.tokenizer)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def accept(self, id_: str, user: str, weight: float, read: "ReadRequest | None") -> None:
        """Begin with a request, or cancel it."""
        if read is None:
            if (task := self._tasks.get(id_)) is not None:
                task.cancel()
            return
        hold = partial(self._places.hold, user, weight)
        adapter = self._adapters.use(read[0].adapter, user, weight)
        self._tasks[id_] = task = asyncio.create_task(self._run(id_, hold, adapter, *read))
        task.add_done_callback(lambda task: self._end(id_, task))

    def _end(self, id_: str, task: "asyncio.Task[None]") -> None:
        del self._tasks[id_]
        if not task.cancelled() and (error := task.exception()) is not None:
            traceback.print_exception(error)
            self._parent.exit(1)

    async def _run(
        self,
        id_: str,
        hold: "_Hold",
        used: AbstractAsyncContextManager["_Adapter"],
        request: Any,
        content: "list[int] | ReadRows",
    ) -> None:
        try:
            async with used as adapter:
                if isinstance(content, list):
                    await self._answer(id_, hold, request, content, adapter)
                else:
                    await self._score(id_, hold, content, adapter)
        except* AuctuneError as errors:
            refuse(self._parent, id_, _first(errors))
        except* (httpx2.TransportError, _ServerError) as errors:
            await self._check_server()
            refuse(self._parent, id_, AuctuneError(f"vLLM failed: {_first(errors)}"))

    async def _check_server(self) -> None:
        """Kill a server that does not work any more, and wait for the end of this worker."""
        try:
            works = (await self._client.get("/health")).is_success
        except httpx2.TransportError:
            works = False
        if not works:
            self._server.kill()
            await asyncio.Event().wait()

    def _send(self, id_: str, piece: Piece) -> None:
        self._parent.send(Generated(pieces=(GeneratedPiece(request=id_, piece=piece),)))

    async def _answer(
        self,
        id_: str,
        hold: "_Hold",
        request: GenerationRequest,
        prompt: list[int],
        adapter: "_Adapter",
    ) -> None:
        room = self._reader.room(request, len(prompt))
        async with asyncio.TaskGroup() as group:
            for number in range(request.num_replies):
                body = {
                    "model": adapter.name,
                    "token_ids": prompt,
                    "stream": True,
                    "sampling_params": _sampling(request.params, number, room, self._reader.ends),
                }
                # The server reads the prompt once, with the first answer.
                place = hold(READ_COST * (0 if number else len(prompt)))
                group.create_task(self._stream(id_, place, body, number, room, request.params))

    async def _stream(
        self,
        id_: str,
        place: "_Place",
        body: dict[str, Any],
        number: int,
        room: int,
        params: SamplingParams,
    ) -> None:
        from auctune.train.generation.text import AnswerPieces, AnswerText, diverged_error

        text = AnswerText(self._reader.tokenizer, params.stop)
        answer = AnswerPieces(number, text, self._reader.ends, room)
        async with AsyncExitStack() as stack:
            charge = await stack.enter_async_context(place)
            if number == 0:
                self._send(id_, PromptRead(len(body["token_ids"])))
            stream = self._client.stream("POST", _GENERATE, json=body)
            response = await stack.enter_async_context(stream)
            async for choice in _choices(response):
                for token in choice.logprobs.content:
                    charge(DRAW_COST)
                    if token.rank is None:
                        raise diverged_error()
                    for piece in answer.add(token.token_id, self._describe(token, params)):
                        self._send(id_, piece)
                    # To leave the stream cancels the rest.
                    if answer.is_complete:
                        return
        raise _ServerError("an answer has no end")

    def _describe(self, drawn: _Drawn, params: SamplingParams) -> "DrawnToken | None":
        if (num_top := params.num_logprobs) is None:
            return None
        ordered = sorted(drawn.top_logprobs, key=lambda one: -one.logprob)
        top = [(one.token_id, one.logprob) for one in ordered[:num_top]]
        return self._bytes.describe(drawn.token_id, drawn.logprob, top)

    async def _score(
        self, id_: str, hold: "_Hold", content: "ReadRows", adapter: "_Adapter"
    ) -> None:
        from auctune.train.generation.scoring import ScoreSum
        from auctune.train.rows import IGNORE_INDEX

        if adapter.has_output_layer:
            # It leaves that out of the probabilities of prompts (vLLM's issue 51594).
            problem = "adapts the output layer, with which vLLM cannot score rows"
            raise InputError("model", problem, "auctune evaluate, which can")
        rows = content.rows
        self._send(id_, RowsRead(len(rows), rows.num_trained_tokens, content.questions))
        total = ScoreSum()
        for row in rows.rows:
            body = {
                "model": adapter.name,
                "token_ids": row.input_ids.tolist(),
                "sampling_params": {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 1},
            }
            async with hold(READ_COST * len(row)):
                response = await self._client.post(_GENERATE, json=body)
            _check(response.status_code, response.text)
            found = _PROMPT_SCORES.validate_json(response.content).prompt_logprobs
            for label, scores in zip(row.labels.tolist()[1:], found[1:], strict=True):
                if label != IGNORE_INDEX:
                    assert scores is not None
                    total.add_targets(-scores[label].logprob, int(scores[label].rank == 1), 1)
            self._send(id_, RowScored(len(row)))
        self._send(id_, RowsScored(total.score()))


class _ServerError(Exception):
    """The server answered with an error that no request should have."""


def _first(errors: "BaseExceptionGroup[Any]") -> Any:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _sampling(
    params: SamplingParams, number: int, room: int, ends: frozenset[int]
) -> dict[str, Any]:
    """Return the parameters of the answer of a number; texts that stop it are found here."""
    # With no mass at all the likeliest token stays.
    is_greedy = params.temperature == 0 or params.top_p == 0
    found = {
        "max_tokens": room,
        "temperature": 0.0 if is_greedy else params.temperature,
        "top_p": 1.0 if is_greedy else params.top_p,
        "stop_token_ids": sorted(ends),
        "ignore_eos": True,
        "detokenize": False,
        # One more, as a token that is not among the likeliest takes one of the places; and always
        # that of the token itself, as it shows whether the logits are numbers.
        "logprobs": params.num_logprobs + 1 if params.num_logprobs else 0,
    }
    if params.seed is not None and not is_greedy:
        found["seed"] = (params.seed + number) % _MAX_SEED
    return found


async def _choices(response: httpx2.Response) -> AsyncIterator[_Choice]:
    """Yield the new tokens of an answer as the server streams them."""
    if not response.is_success:
        _check(response.status_code, (await response.aread()).decode(errors="replace"))
    async for line in response.aiter_lines():
        data = line.removeprefix("data: ")
        if data != line and data != "[DONE]":
            chunk = _CHUNKS.validate_json(data)
            if chunk.error is not None:
                raise _ServerError(chunk.error.get("message"))
            for choice in chunk.choices:
                yield choice


def _check(status: int, text: str) -> None:
    if status >= httpx2.codes.BAD_REQUEST:
        raise _ServerError(f"{status} {text[:300]}")


_Place = AbstractAsyncContextManager[Callable[[float], object]]
"""A place of an answer or a row; in its block, what adds to its cost."""
_Hold = Callable[[float], _Place]
"""Returns a place of a user for work of a cost."""


class _Places:
    """Places of the answers and rows that the server computes, or of the adapters that it loads.

    Users use tokens of the first, and seconds of the second.
    """

    def __init__(self, num_places: int) -> None:
        self._places = FairPlaces(num_places)

    @asynccontextmanager
    async def hold(
        self, user: str, weight: float, cost: float
    ) -> AsyncIterator[Callable[[float], object]]:
        """Hold a place until the end of the block; what is yielded adds to its cost."""
        await self._places.take(user, weight)
        self._places.share.begin(user, cost)
        try:
            yield partial(self._places.share.charge, user)
        finally:
            self._places.free(user)


@dataclass(slots=True)
class _Adapter:
    """An adapter that the server has loaded.

    Attributes:
        name: by which requests name it; never given twice, as the server keeps prefixes by it.
        num_bytes: of its files.
        has_output_layer: whether it adapts that.
        num_requests: that use it, or wait for it.
        is_begun: whether it is being loaded, or loaded.
        loading: done once it is loaded.
    """

    name: str
    num_bytes: int = 0
    has_output_layer: bool = False
    num_requests: int = 0
    is_begun: bool = False
    loading: "asyncio.Task[None] | None" = None


class _Adapters:
    """Adapters that the server has loaded, the least recently used of them unloaded for others.

    Args:
        settings: of the worker.
        folder: for their files, from which the server reads an adapter again that it has dropped.
        client: of the server.
    """

    def __init__(
        self, settings: GeneratorSettings, folder: Path, client: httpx2.AsyncClient
    ) -> None:
        assert settings.vllm is not None
        self._vllm = settings.vllm
        self._max_bytes = settings.max_adapter_bytes
        self._folder, self._client = folder, client
        self._adapters: OrderedDict[Path, _Adapter] = OrderedDict()
        self._numbers = count()
        self._loads = _Places(1)

    @asynccontextmanager
    async def use(self, path: Path | None, user: str, weight: float) -> AsyncIterator[_Adapter]:
        """Load the adapter of an archive or folder, unless it is, and keep it in the block.

        Args:
            path: of its files; None: the base alone.
            user: whose turn it takes.
            weight: of the user, as of `FairShare`.

        Raises:
            InputError: naming `model`, if it is not an adapter of the base.
        """
        if path is None:
            yield _Adapter(BASE)
            return
        if (adapter := self._adapters.get(path)) is None:
            adapter = self._adapters[path] = _Adapter(f"adapter-{next(self._numbers)}")
            adapter.loading = asyncio.create_task(self._load(adapter, path, user, weight))
        assert adapter.loading is not None
        self._adapters.move_to_end(path)
        adapter.num_requests += 1
        try:
            # The request may be cancelled; others may wait for the adapter.
            await asyncio.shield(adapter.loading)
            await self._unload_unused()
            yield adapter
        finally:
            adapter.num_requests -= 1
            if not (adapter.num_requests or adapter.is_begun):
                self._forget(path, adapter)
                adapter.loading.cancel()

    def _forget(self, path: Path, adapter: _Adapter) -> None:
        if self._adapters.get(path) is adapter:
            del self._adapters[path]

    async def _load(self, adapter: _Adapter, path: Path, user: str, weight: float) -> None:
        try:
            async with self._loads.hold(user, weight, 0.0) as charge:
                adapter.is_begun, begun = True, time.monotonic()
                try:
                    await self._load_next(adapter, path)
                finally:
                    charge(time.monotonic() - begun)
        except BaseException:
            self._forget(path, adapter)
            shutil.rmtree(self._folder / adapter.name, ignore_errors=True)
            raise

    async def _load_next(self, adapter: _Adapter, path: Path) -> None:
        await asyncio.to_thread(self._unpack, adapter, path)
        body = {"lora_name": adapter.name, "lora_path": str(self._folder / adapter.name)}
        response = await self._client.post("/v1/load_lora_adapter", json=body)
        if not response.is_success:
            reason = response.json()["error"]["message"]
            found = f"cannot be loaded by vLLM ({reason})"
            raise InputError("model", found, "an adapter of this base")

    def _unpack(self, adapter: _Adapter, path: Path) -> None:
        from auctune.train.adapter_files import read_start, unpack_adapter

        start, _ = read_start(path, "model")
        if start.base_digest is None:
            # vLLM would answer with weights of other shapes too.
            found = "does not say which base it was trained on"
            raise InputError("model", found, "an adapter that auctune has trained")
        start.check_base(self._vllm.base_digest, "model")
        if start.rank > self._vllm.max_rank:
            found = f"is an adapter of rank {start.rank}"
            expected = f"at most {self._vllm.max_rank}: `max_rank` of [inference.vllm]"
            raise InputError("model", found, expected)
        folder = self._folder / adapter.name
        unpack_adapter(path, folder, "model")
        adapter.num_bytes = sum(one.stat().st_size for one in folder.iterdir())
        adapter.has_output_layer = any(_OUTPUT_LAYER in one for one in start.shapes)

    async def _unload_unused(self) -> None:
        total = sum(one.num_bytes for one in self._adapters.values())
        for path, adapter in list(self._adapters.items()):
            if total <= self._max_bytes:
                return
            if not adapter.num_requests and adapter.loading is not None and adapter.loading.done():
                del self._adapters[path]
                total -= adapter.num_bytes
                body = {"lora_name": adapter.name}
                await self._client.post("/v1/unload_lora_adapter", json=body)
                shutil.rmtree(self._folder / adapter.name)
