"""Users share an engine by the tokens that they were served, and nobody's answer changes by it."""

import itertools
import queue
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from auctune.domain.generation import (
    DRAW_COST,
    READ_COST,
    AnswerEnd,
    AnswerPiece,
    GenerationRequest,
    SamplingParams,
    ScoreRequest,
)
from auctune.train.adapter_files import read_start
from auctune.train.base import Base
from auctune.train.generation.engine import Engine, Reply
from support.peft_adapters import save_adapter
from support.small_bases import build_base, write_rows

CHUNK, QUANTUM = 7, 4
# Bytes of the keys and values of a token.
TOKEN_BYTES = 256


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return build_base(tmp_path_factory.mktemp("fair") / "base", "llama")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auctune.train.generation.engine._SPARE_TOKENS", 2)
    monkeypatch.setattr("auctune.train.generation.engine._QUANTUM_TOKENS", QUANTUM)


class Run:
    """An engine, what it has replied, and what its users were served."""

    def __init__(self, base: Base, **limits: Any) -> None:
        self.engine = Engine(base, **limits)
        self.engine._chunk = CHUNK
        # No answer ends before its `max_tokens`.
        self.engine.reader = replace(self.engine.reader, ends=frozenset())
        self.users: dict[str, str] = {}
        self.texts: Counter[tuple[str, int]] = Counter()
        self.ends: dict[tuple[str, int], AnswerEnd] = {}
        self.served: Counter[str] = Counter()
        self.num_paused = 0
        pause = self.engine._pause

        def counted(answer: Any) -> None:
            self.num_paused += 1
            pause(answer)

        self.engine._pause = counted  # type: ignore[method-assign]
        self.text: dict[tuple[str, int], str] = {}

    def add(self, id_: str, user: str, num_prompt: int, weight: float = 1.0, **params: Any) -> None:
        self.users[id_] = user
        params = {"temperature": 1.0, "seed": len(self.users)} | params
        prompt = tuple(3 + (number + len(id_)) % 50 for number in range(num_prompt))
        adapter = params.pop("adapter", None)
        request = GenerationRequest(adapter=adapter, prompt=prompt, params=SamplingParams(**params))
        self.engine.add(id_, request, user, weight)

    def step(self) -> list[Reply]:
        replies = self.engine.step()
        for id_, cost in self.engine.costs.items():
            self.served[self.users[id_]] += int(cost)
        for id_, piece in replies:
            if isinstance(piece, AnswerPiece):
                key = id_, piece.answer
                self.text[key] = self.text.get(key, "") + piece.text
            elif isinstance(piece, AnswerEnd):
                self.ends[id_, piece.answer] = piece
        return replies

    def finish(self) -> "Run":
        while not self.engine.is_idle:
            self.step()
        return self


REQUESTS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.integers(1, 30),
        st.integers(1, 30),
        st.integers(1, 5),
        st.integers(0, 12),
    ),
    min_size=2,
    max_size=10,
)
SETTINGS = settings(
    max_examples=25,
    deadline=None,
    # To shrink takes minutes.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.slow
@SETTINGS
@given(requests=REQUESTS, max_batch=st.integers(1, 4), max_tokens=st.sampled_from([60, 200, 10**6]))
def test_answers_that_were_paused_are_those_of_an_engine_of_their_own(
    base: Base, requests: list[tuple[str, int, int, int, int]], max_batch: int, max_tokens: int
) -> None:
    run = Run(base, max_batch=max_batch, max_cache_bytes=max_tokens * TOKEN_BYTES)
    alone = Run(base, max_batch=8)
    for number, (user, num_prompt, num_tokens, num_answers, num_steps) in enumerate(requests):
        params = {"max_tokens": num_tokens, "num_answers": num_answers, "seed": number}
        run.add(f"{number}", user, num_prompt, **params)
        for _ in range(num_steps):
            run.step()
            longest = max((len(one.prompt) + len(one.drawn) for one in run.engine._rows), default=0)
            # A single answer, or the prompt that is being read, may take more.
            assert run.engine._stored_bytes() <= (max_tokens + longest + 30) * TOKEN_BYTES
        alone.add(f"{number}", user, num_prompt, **params)
        alone.finish()
    run.finish()
    assert run.text == alone.text
    assert run.ends == alone.ends
    assert run.engine._stored_bytes() == 0
    assert not run.engine._users
    assert not run.engine._share._num_open


def test_one_that_is_paused_goes_on_where_it_was(base: Base) -> None:
    run, alone = Run(base, max_batch=1), Run(base)
    run.add("long", "a", 20, max_tokens=30)
    alone.add("long", "a", 20, max_tokens=30)
    for _ in range(12):
        run.step()
    run.add("short", "b", 5, max_tokens=8)
    run.finish()
    alone.finish()
    assert run.num_paused
    assert run.text["long", 0] == alone.text["long", 0]
    assert run.ends["long", 0].num_tokens == 30


@pytest.mark.slow
@SETTINGS
@given(data=st.data(), max_batch=st.integers(1, 8))
def test_users_who_always_want_more_are_served_the_same(
    base: Base, data: st.DataObject, max_batch: int
) -> None:
    run = Run(base, max_batch=max_batch)
    users = "abc"[: data.draw(st.integers(2, 3))]
    sizes = {
        user: (
            # A part of one prompt is read in a step: prompts that bring enough to draw.
            data.draw(st.integers(1, CHUNK)),
            data.draw(st.integers(max_batch, 30)),
            data.draw(st.integers(1, 12)),
        )
        for user in users
    }
    count = 0
    for _ in range(150):
        for user in users:
            num_prompt, num_tokens, num_answers = sizes[user]
            while len(run.engine._queues.get(user, ())) < 2:
                count += 1
                params = {"max_tokens": num_tokens, "num_answers": num_answers}
                run.add(f"{count}", user, num_prompt, **params)
        run.step()
        found = run.served.values()
        # A part of a prompt, and what all places draw until they may be taken.
        bound = READ_COST * CHUNK + DRAW_COST * max_batch * (QUANTUM + 2)
        assert len(found) < len(users) or max(found) - min(found) <= bound


@pytest.mark.slow
@SETTINGS
@given(
    others=st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 20), st.integers(1, 6)), min_size=1, max_size=9
    ),
    max_batch=st.integers(1, 8),
    num_steps=st.integers(1, 30),
    shared=st.booleans(),
)
def test_a_newcomer_is_answered_at_once_whatever_others_have(
    base: Base,
    others: list[tuple[int, int, int]],
    max_batch: int,
    num_steps: int,
    shared: bool,
) -> None:
    run = Run(base, max_batch=max_batch)
    for number, (num_prompt, num_answers, num_requests) in enumerate(others):
        user = "other" if shared else f"other {number}"
        for count in range(num_requests):
            params = {"max_tokens": 200, "num_answers": num_answers}
            run.add(f"{number}.{count}", user, num_prompt, **params)
    for _ in range(len(others) + num_steps):
        run.step()
    run.add("new", "newcomer", CHUNK, max_tokens=QUANTUM)
    steps = 0
    while ("new", 0) not in run.ends:
        run.step()
        steps += 1
    num_users = 1 if shared else len(others)
    if num_users < max_batch:
        # It is read and has its first token in the first step, and one more in each other.
        assert steps == QUANTUM
    else:
        assert steps <= (num_users + 2) * (QUANTUM + 1)


def test_rows_of_users_are_scored_in_turn(base: Base, tmp_path: Path) -> None:
    run = Run(base)
    rows = write_rows(tmp_path / "rows.jsonl", 12, 1)
    for id_, user in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")):
        run.users[id_] = user
        run.engine.add(id_, ScoreRequest(data=rows, max_rows=12), user)
    while "b1" in run.engine._users:
        run.step()
    assert abs(run.served["a"] - run.served["b"]) <= CHUNK
    run.finish()


def test_a_user_with_twice_the_weight_is_served_twice_as_much(base: Base) -> None:
    run = Run(base, max_batch=1)
    for number in range(3):
        run.add(f"a{number}", "a", 3, weight=2.0, max_tokens=100)
        run.add(f"b{number}", "b", 3, max_tokens=100)
    while sum(run.served.values()) < 250 * DRAW_COST:
        run.step()
    assert 1.7 <= run.served["a"] / run.served["b"] <= 2.3


@dataclass
class Reads:
    """Reads of adapters' files, each of which waits until it may go on."""

    may_read: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    begun: "queue.SimpleQueue[str]" = field(default_factory=queue.SimpleQueue)

    def __call__(self, path: Path, place: str) -> Any:
        self.begun.put(path.name)
        assert self.may_read.acquire(timeout=60)
        return read_start(path, place)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    found = Reads()
    monkeypatch.setattr("auctune.train.generation.adapter_pool.read_start", found)
    yield found
    found.may_read.release(100)


def save_adapters(folder: Path, num_adapters: int) -> list[Path]:
    return [save_adapter(folder / f"{number}") for number in range(num_adapters)]


def test_files_of_an_adapter_are_read_while_others_are_answered(
    base: Base, tmp_path: Path, reads: Reads
) -> None:
    run, (path, *_) = Run(base), save_adapters(tmp_path, 1)
    rows = write_rows(tmp_path / "rows.jsonl", 1, 1)
    run.add("waits", "a", 9, max_tokens=5, adapter=path)
    run.engine.add("rows", ScoreRequest(data=rows, max_rows=1, adapter=path), "c")
    run.users["rows"] = "c"
    run.add("goes on", "b", 9, max_tokens=20)
    while ("goes on", 0) not in run.ends:
        run.step()
    assert set(run.served) == {"b"}
    assert not run.engine.is_idle
    reads.may_read.release()
    run.finish()
    assert set(run.served) == {"a", "b", "c"}
    # Once for both.
    assert reads.begun.qsize() == 1


def test_adapters_are_read_by_turns_of_users_and_loaded_one_in_a_step(
    base: Base, tmp_path: Path, reads: Reads
) -> None:
    run, paths = Run(base), save_adapters(tmp_path, 4)
    for number, path in enumerate(paths[:3]):
        run.add(f"a{number}", "a", 9, max_tokens=9, adapter=path)
    run.step()
    run.add("b", "b", 9, max_tokens=9, adapter=paths[3])
    reads.may_read.release(4)
    pool: Any = run.engine._pool
    load, in_step = pool._load, Counter[int]()
    num_steps = 0

    def counted(*arguments: Any) -> Any:
        in_step[num_steps] += 1
        return load(*arguments)

    pool._load = counted
    while not run.engine.is_idle:
        num_steps += 1
        run.step()
    assert [reads.begun.get() for _ in paths] == ["0", "3", "1", "2"]
    assert list(in_step.values()) == [1] * 4


def test_files_that_nobody_waits_for_any_more_hold_up_nobody(
    base: Base, tmp_path: Path, reads: Reads
) -> None:
    run, (gone, wanted) = Run(base), save_adapters(tmp_path, 2)
    run.add("gone", "a", 9, max_tokens=5, adapter=gone)
    run.step()
    assert reads.begun.get() == "0"
    run.engine.cancel("gone")
    assert run.engine.is_idle
    reads.may_read.release(2)
    run.add("wanted", "b", 9, max_tokens=5, adapter=wanted)
    run.finish()
    assert set(run.ends) == {("wanted", 0)}


def test_a_user_is_charged_for_the_time_of_a_load_as_the_rest_of_its_step_is(
    base: Base, tmp_path: Path
) -> None:
    ticks = itertools.count()
    run = Run(base, now=lambda: float(next(ticks)))
    (path,) = save_adapters(tmp_path, 1)
    run.add("draws", "b", 1, max_tokens=20)
    run.step()
    run.add("loads", "a", CHUNK, max_tokens=5, adapter=path)
    share = run.engine._share
    before = share.time("a")
    while "loads" not in run.engine.costs:
        run.step()
    # A third of the step's time is that of the load; in the rest the prompt is read, and a token of
    # either answer is drawn.
    rest = READ_COST * CHUNK + 2 * DRAW_COST
    assert run.engine.costs == {"draws": DRAW_COST, "loads": rest - DRAW_COST + rest / 2}
    assert share.time("a") == before + run.engine.costs["loads"]
    run.add("again", "a", CHUNK, max_tokens=5, adapter=path)
    while "again" not in run.engine.costs:
        run.step()
    assert run.engine.costs["again"] == READ_COST * CHUNK + DRAW_COST
