"""Requests are read in turn, and the places of a server of vLLM are shared."""

import asyncio
import json
import queue
from pathlib import Path
from typing import Any, NoReturn

import httpx2

from auctune.domain.generation import GenerationRequest
from auctune.engine.generation import GeneratorSettings, VllmSettings
from auctune.engine.messages.base import Stop
from auctune.engine.messages.generation import Cancel, Generate, MeasureSize
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.workers.generation import RequestThread
from auctune.engine.workers.vllm import _Adapters, _Places
from auctune.train.adapter_files import write_record
from auctune.train.generation.reading import RequestReader
from support.peft_adapters import save_adapter
from support.small_bases import build_base
from support.waits import WAIT_SECONDS


def _end(code: int) -> NoReturn:
    raise SystemExit(code)


def read_all(folder: Path, num_found: int, *messages: Any) -> list[Any]:
    """What is sent or accepted of these messages, in its order."""
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()
    parent = ParentChannel[Any, Any](found.put, _end)
    # There are no heartbeats.
    parent.stop_requested.set()
    reader = RequestReader.of(build_base(folder / "base", "llama"))
    thread = RequestThread(parent, reader, found.put)
    for message in messages:
        parent.receive(message)
    thread.start()
    results = [found.get(timeout=WAIT_SECONDS) for _ in range(num_found)]
    parent.receive(Stop())
    thread.join()
    assert found.get() is None
    assert found.empty()
    return results


def measure(id_: str, num_words: int = 10) -> MeasureSize:
    request = GenerationRequest(prompt="word1 " * num_words)
    return MeasureSize(id=id_, user=id_[0], request=request)


def test_prompts_of_users_are_tokenized_in_turn(tmp_path: Path) -> None:
    many = [measure(f"a{number}", 60) for number in range(9)]
    sizes = read_all(tmp_path, 11, *many, measure("b0"), measure("c0"))
    found = [one.request for one in sizes]
    assert set(found[:3]) == {"a0", "b0", "c0"}
    assert [one for one in found if one[0] == "a"] == [one.id for one in many]


def test_a_request_that_is_cancelled_before_its_turn_is_not_read(tmp_path: Path) -> None:
    request = GenerationRequest(prompt="word1")
    messages = [Generate(id=id_, user=id_[0], request=request) for id_ in ("a0", "a1", "b0")]
    found = read_all(tmp_path, 3, *messages, Cancel(id="a1"), Cancel(id="b9"))
    # One that does not wait may be under way.
    assert [(id_, read is None) for id_, _, _, read in found] == [
        ("b9", True),
        ("a0", False),
        ("b0", False),
    ]


def test_a_place_goes_to_the_user_who_was_served_least() -> None:
    order: list[str] = []

    async def run() -> None:
        places = _Places(1)
        ends = {name: asyncio.Event() for name in ("a1", "a2", "a3", "b1", "b2")}

        async def hold(name: str, cost: float) -> None:
            async with places.hold(name[0], 1.0, cost) as charge:
                order.append(name)
                charge(cost)
                await ends[name].wait()

        tasks = {name: asyncio.create_task(hold(name, 10.0)) for name in ends}
        await settle()
        tasks["a2"].cancel()
        for name in ("a1", "b1", "b2", "a3"):
            if name in order:
                ends[name].set()
            await settle()
        for event in ends.values():
            event.set()
        await asyncio.wait(tasks.values())
        # All are free again.
        async with places.hold("c", 1.0, 1.0):
            order.append("c")

    asyncio.run(run())
    assert order == ["a1", "b1", "a3", "b2", "c"]


class LoadingServer:
    """A server of vLLM that loads adapters when it is told to."""

    def __init__(self, folder: Path) -> None:
        self.names: list[str] = []
        self._may_load = asyncio.Semaphore(0)
        self._told = asyncio.Event()
        vllm = VllmSettings(python=Path("python"), base_digest="0" * 64)
        settings = GeneratorSettings(base="tiny", cache=folder, vllm=vllm)
        self._client = httpx2.AsyncClient(
            transport=httpx2.MockTransport(self._answer), base_url="http://vllm"
        )
        self.adapters = _Adapters(settings, folder / "served", self._client)
        (folder / "served").mkdir()

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.names.append(json.loads(request.content)["lora_name"])
        self._told.set()
        await self._may_load.acquire()
        return httpx2.Response(200)

    async def told(self) -> None:
        """Wait until it is told to load the next adapter."""
        await self._told.wait()
        self._told.clear()

    def load(self, num_adapters: int) -> None:
        for _ in range(num_adapters):
            self._may_load.release()


def test_adapters_are_loaded_one_at_a_time_by_turns_of_users_who_still_want_them(
    tmp_path: Path,
) -> None:
    paths = [save_adapter(tmp_path / f"{number}") for number in range(5)]
    for path in paths:
        write_record("0" * 64, path)

    async def run() -> list[str]:
        server = LoadingServer(tmp_path)

        async def use(number: int, user: str) -> str:
            async with server.adapters.use(paths[number], user, 1.0) as adapter:
                return adapter.name

        users = ("a", "a", "a", "a", "b")
        tasks = [asyncio.create_task(use(number, user)) for number, user in enumerate(users)]
        await server.told()
        # The first one is being loaded, for whoever wants it later.
        for gone in (0, 1):
            tasks[gone].cancel()
        await settle()
        assert server.names == ["adapter-0"]
        server.load(9)
        names = await asyncio.gather(*tasks[2:], use(0, "c"))
        # It waits like a new one.
        assert await use(1, "a") == "adapter-5"
        assert names == ["adapter-2", "adapter-3", "adapter-4", "adapter-0"]
        return server.names

    loaded = asyncio.run(asyncio.wait_for(run(), WAIT_SECONDS))
    assert loaded == [f"adapter-{number}" for number in (0, 4, 2, 3, 5)]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
