"""Requests are read in turn, and the places of a server of vLLM are shared."""

import asyncio
import queue
from pathlib import Path
from typing import Any, NoReturn

from auctune.domain.generation import GenerationRequest
from auctune.engine.messages.base import Stop
from auctune.engine.messages.generation import Cancel, Generate, MeasureSize
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.workers.generation import RequestThread
from auctune.engine.workers.vllm import _Places
from auctune.train.generation.reading import RequestReader
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


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)
