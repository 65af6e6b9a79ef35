"""The process that generates answers: several requests, an end of its own, a kill."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.domain.generation import (
    AnswerEnd,
    AnswerPiece,
    GenerationRequest,
    Piece,
    PromptRead,
    SamplingParams,
)
from auctune.engine.generation import Generator, GeneratorSettings, InferenceError
from support.peft_adapters import save_adapter
from support.small_bases import build_base

MANY = SamplingParams(max_tokens=60, temperature=0.0)


def make(folder: Path, idle_seconds: float = 60.0) -> Generator:
    build_base(folder / "base", "llama")
    settings = GeneratorSettings(
        base=str(folder / "base"), cache=folder, threads=1, niceness=10, max_batch=4
    )
    return Generator(settings, idle_seconds=idle_seconds, log=folder / "log")


async def text_of(generator: Generator, request: GenerationRequest) -> str:
    pieces = [piece async for piece in generator.generate(request)]
    assert isinstance(pieces[0], PromptRead)
    assert isinstance(pieces[-1], AnswerEnd)
    return "".join(piece.text for piece in pieces if isinstance(piece, AnswerPiece))


async def first_text(pieces: AsyncGenerator[Piece]) -> None:
    async for piece in pieces:
        if isinstance(piece, AnswerPiece):
            return


@pytest.mark.slow
def test_requests_share_a_process_which_comes_back_after_a_kill(tmp_path: Path) -> None:
    generator = make(tmp_path)
    adapter = save_adapter(tmp_path / "adapter")
    plain = GenerationRequest(prompt="word1 word2", params=MANY)
    tuned = GenerationRequest(prompt="word1 word2", params=MANY, adapter=adapter)

    async def run() -> None:
        first, second = await asyncio.gather(text_of(generator, plain), text_of(generator, tuned))
        assert first != second
        seconds: list[float] = []
        async for _ in generator.generate(plain, "ada", seconds.append):
            pass
        assert 0 < sum(seconds) < 60
        assert generator.pid is not None
        assert os.getpriority(os.PRIO_PROCESS, generator.pid) == 10

        # A client that leaves takes its request along; the others go on.
        leaving = generator.generate(plain)
        await first_text(leaving)
        await leaving.aclose()
        assert await text_of(generator, tuned) == second
        with pytest.raises(InputError, match="prompt: is empty"):
            await text_of(generator, GenerationRequest(prompt="", params=MANY))
        with pytest.raises(InputError, match="model: cannot be read"):
            await text_of(
                generator, GenerationRequest(prompt="word1", adapter=tmp_path / "none", params=MANY)
            )

        killed = generator.pid
        assert killed is not None
        pieces = generator.generate(plain)
        await first_text(pieces)
        os.kill(killed, signal.SIGKILL)
        with pytest.raises(InferenceError, match="killed by SIGKILL"):
            async for _ in pieces:
                pass
        assert await text_of(generator, plain) == first
        assert generator.pid != killed
        await generator.close()
        assert generator.pid is None

    asyncio.run(run())


@pytest.mark.slow
def test_it_ends_when_it_is_idle_and_a_base_that_is_missing_is_named(tmp_path: Path) -> None:
    generator = make(tmp_path, idle_seconds=0.2)
    request = GenerationRequest(prompt="word1 word2", params=MANY)

    async def run() -> None:
        text = await text_of(generator, request)
        while generator.pid is not None:
            await asyncio.sleep(0.05)
        assert await text_of(generator, request) == text
        await generator.close()
        missing = GeneratorSettings(base=str(tmp_path / "none"), cache=tmp_path)
        with pytest.raises(InferenceError, match="none"):
            await text_of(Generator(missing), request)

    asyncio.run(run())


def test_an_error_in_a_chat_template_ends_its_request_alone(tmp_path: Path) -> None:
    generator = make(tmp_path)
    template = (
        "{% for message in messages %}{{ message['content'] }} {% endfor %}"
        "{{ 1 // (messages | length - 1) }}"
    )
    (tmp_path / "base" / "chat_template.jinja").write_text(template)
    message = {"role": "user", "content": "word1"}

    async def run() -> None:
        good = text_of(generator, GenerationRequest(messages=(message, message), params=MANY))
        with pytest.raises(InferenceError, match=r"could not be read \(ZeroDivisionError\)"):
            await text_of(generator, GenerationRequest(messages=(message,), params=MANY))
        assert await good
        await generator.close()

    asyncio.run(run())
