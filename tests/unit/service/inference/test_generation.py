"""What answers cost, however they end: a scripted process, the service's own ledger and budgets."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from auctune.domain import AuctuneError, InputError
from auctune.domain.generation import (
    AnswerEnd,
    AnswerPiece,
    GenerationRequest,
    Piece,
    PromptRead,
    Request,
    RequestSize,
    SamplingParams,
)
from auctune.engine.generation import InferenceError
from auctune.service.accounts.limits import LimitReachedError, OpenLimiter
from auctune.service.accounts.registry import Budget, Role
from auctune.service.config.inference import InferenceConfig
from auctune.service.fair_queue import FairQueue, RequestScope, request_scope
from auctune.service.inference.catalog import Model
from support.serving import Clock, Served, make_file, make_zone, serving

CONTEXT = 100


class ScriptedGenerator:
    """Answers to a prompt of words: "fail N" fails after N tokens, others have all they may."""

    def __init__(self) -> None:
        self.error: AuctuneError = InputError("model", "computes numbers that are not finite", "-")
        # Holds each answer back after its first token.
        self.gate = asyncio.Event()
        self.gate.set()
        self.started: list[object] = []
        self.is_stopped = False

    async def measure(self, request: Request, user: str, *, weight: float) -> RequestSize:
        assert isinstance(request, GenerationRequest)
        assert isinstance(request.prompt, str)
        if (count := len(request.prompt.split())) >= CONTEXT:
            raise InputError("prompt", f"has {count} tokens", f"fewer than {CONTEXT}")
        wanted = request.params.max_tokens or CONTEXT
        return RequestSize(count, min(wanted, CONTEXT - count))

    async def generate(
        self, request: Request, user: str, on_seconds: Callable[[float], None], *, weight: float
    ) -> AsyncGenerator[Piece]:
        size = await self.measure(request, user, weight=weight)
        assert isinstance(request, GenerationRequest)
        assert isinstance(request.prompt, str)
        self.started.append(request.prompt)
        on_seconds(0.25)
        yield PromptRead(size.prompt_tokens)
        words = request.prompt.split()
        failing = int(words[1]) if words[0] == "fail" else None
        for number in range(request.num_replies):
            for token in range(1, size.answer_tokens + 1):
                if failing is not None and token > failing:
                    raise self.error
                yield AnswerPiece(number, "x ", (), token)
                await asyncio.sleep(0)
                await self.gate.wait()
                if self.is_stopped:
                    raise self.error
            yield AnswerEnd(number, "length", size.answer_tokens)

    def stop(self, why: str) -> None:
        self.is_stopped = True

    async def close(self) -> None: ...


def open_market(folder: Path, price: str, clock: Clock | None = None) -> Any:
    limits = InferenceConfig(max_batch=16, price=Decimal(price))
    file = make_file([make_zone()]).model_copy(update={"inference": limits})
    return serving(folder, file, clock)


def script(served: Served) -> ScriptedGenerator:
    scripted: Any = ScriptedGenerator()

    async def replace() -> None:
        served.service.generation._generators["tiny"] = scripted

    served.run(replace)
    found: ScriptedGenerator = scripted
    return found


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with open_market(tmp_path, "1000.0000") as opened:
        yield opened


def ask(served: Served, key: str, **fields: Any) -> Any:
    with served.http(key) as http:
        return http.post("/v1/completions", json={"model": "tiny", "max_tokens": 9, **fields})


def balance(served: Served, key: str) -> Decimal:
    with served.http(key) as http:
        return Decimal(http.get("/v1/ledger").json()["balance"])


def test_no_prompt_is_answered_before_all_were_checked(served: Served) -> None:
    scripted, key = script(served), served.key("ada")
    answer = ask(served, key, prompt=["good prompt"] * 15 + ["long " * CONTEXT], stream=True)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "prompt")
    assert scripted.started == []
    assert balance(served, key) == 0


def test_probabilities_of_tokens_are_bounded_over_all_answers(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auctune.service.inference.generation.MAX_LOGPROBS", 2 * 3 * 9 * 6)
    scripted, key = script(served), served.key("ada")
    body = {"prompt": ["one", "two"], "n": 3, "logprobs": 5}
    assert ask(served, key, **body).status_code == 200
    refused = ask(served, key, **body | {"max_tokens": 10})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "logprobs")
    assert "asks for 360 probabilities of tokens at most; expected 324" in refused.text
    assert len(scripted.started) == 2


def test_what_the_process_used_counts_for_its_request_whose_gate_is_free(served: Served) -> None:
    script(served)
    who = served.service.accounts.authenticate(served.key("ada"))
    assert who is not None
    requests = [GenerationRequest(prompt="one", params=SamplingParams(max_tokens=2))] * 3

    async def run() -> tuple[float, bool]:
        gate, scope = FairQueue("requests", 1, 1), RequestScope(served.service.reads)
        async with gate.place("ada") as scope.gate:
            with request_scope(scope):
                model = Model("tiny", "tiny", 0.0, "auctune")
                async for _ in served.service.generation.generate(model, who, requests):
                    pass
            return scope.use.process_seconds, gate.places.is_free("bob")

    assert served.run(run) == (0.75, True)


def test_a_user_who_has_too_many_requests_waiting_is_told_when_to_try_again() -> None:
    now = [0.0]
    waiting = OpenLimiter(2, "2 requests for answers of yours", now=lambda: now[0])
    first, second = waiting.open("a"), waiting.open("a")
    waiting.open("b")
    now[0] = 8.0
    first()
    first()
    third = waiting.open("a")
    with pytest.raises(LimitReachedError, match="2 requests for answers of yours") as error:
        waiting.open("a")
    # Of 8 seconds for one, a twentieth is in the mean, and two wait.
    assert error.value.retry_after == pytest.approx(8 / 20 / 2)
    second()
    third()
    assert set(waiting._open) == {"b"}


@pytest.mark.parametrize("stream", [True, False])
def test_what_was_drawn_before_a_request_failed_is_charged(served: Served, stream: bool) -> None:
    script(served)
    key = served.key("ada")
    answer = ask(served, key, prompt=["fail 5"] + ["good prompt"] * 3, stream=stream)
    assert "not finite" in answer.text
    assert "[DONE]" not in answer.text
    # 8 tokens of prompts, and of each answer at least the 4 before the one that failed it.
    assert 8 + 5 + 3 * 4 <= balance(served, key) <= 8 + 5 + 3 * 9


def test_nothing_is_charged_if_the_process_ends(served: Served) -> None:
    scripted, key = script(served), served.key("ada")
    scripted.error = InferenceError("the process of the model ended: killed by SIGKILL")
    answer = ask(served, key, prompt=["good prompt", "fail 8"], stream=True)
    assert "killed by SIGKILL" in answer.text
    assert balance(served, key) == 0


def test_answers_that_may_cost_more_than_is_left_are_not_begun(served: Served) -> None:
    scripted = script(served)
    key = served.key("ada", budget=Budget(Decimal("100.0000"), 3600.0))
    # 1 + 11 * 9 tokens at most.
    assert ask(served, key, prompt="one", n=11).status_code == 200
    assert balance(served, key) == 100
    refused = ask(served, key, prompt="one")
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
    assert len(scripted.started) == 1


@pytest.mark.parametrize("kind", ["team", "user", "key"])
def test_concurrent_answers_never_spend_more_than_a_budget(served: Served, kind: str) -> None:
    scripted = script(served)
    budget = Budget(Decimal("200.0000"), 3600.0)

    async def restrict() -> list[str]:
        service, keys = served.service, []
        if kind == "team":
            await service.put_team("lab", budget)
        for number in range(4):
            user = f"user{number}" if kind == "team" else "ada"
            if kind == "team" or number == 0:
                team = "lab" if kind == "team" else None
                await service.put_user(user, team, budget if kind == "user" else None)
                record, secret = await service.accounts.add_key(user, Role.USER, "")
                if kind == "key":
                    await service.change_key(record, budget, record.default_terms)
            keys.append(secret)
        return keys

    keys: list[str] = served.run(restrict)
    served.run(_call(scripted.gate.clear))
    with ThreadPoolExecutor(4) as threads:
        # Each may cost 1 + 8 * 9 = 73: two fit.
        asked = [threads.submit(ask, served, key, prompt="one", n=8) for key in keys]
        answers = as_completed(asked)
        refused = [next(answers).result() for _ in range(2)]
        assert [one.status_code for one in refused] == [429, 429]
        assert "is left of your budget beside your other requests" in refused[0].text
        served.run(_call(scripted.gate.set))
        statuses = sorted(one.result().status_code for one in asked)
    assert statuses == [200, 200, 429, 429]
    assert sum(balance(served, key) for key in dict.fromkeys(keys)) == 146
    # What was reserved is free again: 54 are left.
    assert ask(served, keys[0], prompt="one", n=5).status_code == 200


def _call(function: Any) -> Any:
    async def call() -> None:
        function()

    return call


def test_a_stream_ends_with_an_error_when_the_service_stops(served: Served) -> None:
    scripted, key = script(served), served.key("ada")
    served.run(_call(scripted.gate.clear))
    with served.http(key) as http:
        body = {"model": "tiny", "prompt": "one", "max_tokens": 9, "stream": True}
        with http.stream("POST", "/v1/completions", json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            scripted.error = InferenceError("the process of the model ended: the service stops")
            served.run(_call(served.service.generation.stop))
            served.run(_call(scripted.gate.set))
            rest = [line for line in lines if line]
    assert "the service stops" in rest[-1]
    assert "data: [DONE]" not in rest
    assert balance(served, key) == 0


def test_fractions_of_money_are_carried_to_later_answers_also_after_a_restart(
    tmp_path: Path,
) -> None:
    # 0.00001 a token: each request costs 0.00005.
    with open_market(tmp_path, "0.0100") as served:
        script(served)
        key, other = served.key("ada"), served.key("eve")
        for _ in range(3):
            assert ask(served, key, prompt="one two", max_tokens=3).status_code == 200
        assert balance(served, key) == Decimal("0.0001")
        assert ask(served, other, prompt="one two", max_tokens=3).status_code == 200
        assert balance(served, other) == 0
        assert sum(served.service.queries.balances().values()) == 0
    with open_market(tmp_path, "0.0100", served.clock) as again:
        script(again)
        assert ask(again, key, prompt="one two", max_tokens=3).status_code == 200
        assert balance(again, key) == Decimal("0.0002")
        assert balance(again, other) == 0
