"""Thousands of requests for answers that end in every way: what was delivered is what is paid."""

import asyncio
import os
import random
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from auctune.domain import AuctuneError, InputError
from auctune.domain.generation import (
    AnswerEnd,
    AnswerPiece,
    GenerationRequest,
    Piece,
    PromptRead,
    Request,
    SamplingParams,
)
from auctune.domain.money import STEP
from auctune.engine.generation import Generator, GeneratorSettings, InferenceError
from auctune.service.accounts.budgets import BudgetExceededError
from auctune.service.accounts.limits import LimitReachedError
from auctune.service.accounts.registry import Budget, Principal, Role
from auctune.service.config.inference import InferenceConfig
from auctune.service.inference.catalog import Model
from auctune.service.ledger import user_account
from auctune.service.storage.event_log import EventType
from support.serving import Served, make_file, make_zone, serving
from support.small_bases import WORDS, build_base

NUM_REQUESTS, NUM_AT_ONCE = 10_000, 64
# Of 1,000 tokens: one costs 7.331 of the smallest amounts.
PRICE = Decimal("0.7331")
# Requests with which the process is killed.
KILLED = {1_000, 4_000, 7_500}
BUDGETS = {"user": Decimal("1.0000"), "team": Decimal("1.5000"), "key": Decimal("0.7000")}


@dataclass
class Delivered:
    """What the process has delivered for a request."""

    prompts: int = 0
    num_prompts: int = 0
    drawn: dict[tuple[int, int], int] = field(default_factory=dict)
    is_lost: bool = False

    @property
    def tokens(self) -> tuple[int, int]:
        """Of prompts and answers; of what the service's own fault ends nobody pays any."""
        return (0, 0) if self.is_lost else (self.prompts, sum(self.drawn.values()))


_delivered: ContextVar[Delivered] = ContextVar("delivered")


class CountingGenerator(Generator):
    """Counts what it delivers, for the request in whose context it is called."""

    async def generate(
        self,
        request: Request,
        user: str = "",
        on_seconds: Callable[[float], None] = lambda _seconds: None,
        *,
        weight: float = 1.0,
    ) -> AsyncGenerator[Piece]:
        delivered = _delivered.get()
        number = delivered.num_prompts
        delivered.num_prompts += 1
        replies = super().generate(request, user, on_seconds, weight=weight)
        async with aclosing(replies) as pieces:
            try:
                async for piece in pieces:
                    if isinstance(piece, PromptRead):
                        delivered.prompts += piece.prompt_tokens
                    elif isinstance(piece, AnswerPiece | AnswerEnd):
                        delivered.drawn[number, piece.answer] = piece.num_tokens
                    yield piece
            except InferenceError:
                delivered.is_lost = True
                raise


async def add_users(served: Served) -> list[Principal]:
    """Users without a budget, with one, in a team with one, and with a key that has one."""
    service = served.service
    found: list[Principal] = []
    await service.put_team("lab", Budget(BUDGETS["team"], 3600.0))
    teams: dict[str, Any] = {"ben": "lab", "cem": "lab"}
    for user in ("ada", "ben", "cem", "dan", "eve", "fay"):
        budget = Budget(BUDGETS["user"], 3600.0) if user == "dan" else None
        await service.put_user(user, teams.get(user), budget)
        for _ in range(2 if user in ("eve", "fay") else 1):
            record, secret = await service.accounts.add_key(user, Role.USER, "")
            if user == "eve" and not any(one.user == "eve" for one in found):
                await service.change_key(
                    record, Budget(BUDGETS["key"], 3600.0), record.default_terms
                )
            who = service.accounts.authenticate(secret)
            assert who is not None
            found.append(who)
    return found


def make_requests(random_: random.Random, missing: Path) -> list[GenerationRequest]:
    """Prompts of a request; at times one is too long, or names an adapter that is not there."""
    params = SamplingParams(
        max_tokens=random_.randint(1, 5),
        num_answers=random_.randint(1, 3),
        seed=random_.randint(0, 10**6),
    )
    texts = [" ".join(random_.choices(WORDS, k=random_.randint(1, 6)))]
    while random_.random() < 0.25:
        texts.append(" ".join(random_.choices(WORDS, k=random_.randint(1, 6))))
    kind = random_.random()
    if kind < 0.08:
        texts[-1] = " ".join(random_.choices(WORDS, k=64))
    requests = [GenerationRequest(prompt=text, params=params) for text in texts]
    if kind > 0.92:
        requests.append(GenerationRequest(prompt=texts[0], params=params, adapter=missing))
    return requests


class Play:
    """The requests, what they delivered, and how they ended."""

    def __init__(self, served: Served, folder: Path, users: list[Principal]) -> None:
        self._served, self._missing, self._users = served, folder / "missing", users
        self._generation: Any = served.service.generation
        self._random = random.Random(6)
        self.ends: Counter[str] = Counter()
        self.delivered: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    async def run(self) -> None:
        places = asyncio.Semaphore(NUM_AT_ONCE)

        async def limited(number: int) -> None:
            async with places:
                await self._one(number)

        async with asyncio.TaskGroup() as group:
            for number in range(NUM_REQUESTS):
                group.create_task(limited(number))

    async def _one(self, number: int) -> None:
        who, model = self._random.choice(self._users), self._random.choice(("tiny", "small"))
        requests = make_requests(self._random, self._missing)
        num_read = self._random.randint(0, 6) if self._random.random() < 0.25 else None
        delivered = Delivered()
        _delivered.set(delivered)
        asked = Model(model, "tiny", 0.0, "auctune"), who, requests, num_read
        while (end := await self._read(*asked)) == LimitReachedError.__name__:
            self.ends[end] += 1
            await asyncio.sleep(0.1)
        if number in KILLED and (pid := self._generation._generators["tiny"].pid) is not None:
            os.kill(pid, signal.SIGKILL)
        self.ends[end] += 1
        prompt, completion = delivered.tokens
        self.delivered[who.user, model].update(prompt=prompt, completion=completion)

    async def _read(
        self,
        model: Model,
        who: Principal,
        requests: list[GenerationRequest],
        num_read: int | None,
    ) -> str:
        """Read the pieces of the replies, or the first of them; return how that ends."""
        try:
            async with aclosing(self._generation.generate(model, who, requests)) as pieces:
                if num_read == 0:
                    return "cut off"
                count = 0
                async for _ in pieces:
                    count += 1
                    if count == num_read:
                        return "cut off"
        except AuctuneError as error:
            return type(error).__name__
        return "finished"


@pytest.mark.slow
def test_what_is_delivered_is_charged_to_the_last_digit_however_requests_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_base(tmp_path / "base", "llama")
    monkeypatch.setattr("auctune.service.inference.generation.MAX_WAITING", 16)
    limits = InferenceConfig(price=PRICE)
    file = make_file([make_zone()]).model_copy(update={"inference": limits})
    with serving(tmp_path / "market", file) as served:
        settings = GeneratorSettings(
            base=str(tmp_path / "base"), cache=tmp_path, threads=1, max_batch=16
        )

        async def play() -> Play:
            generator = CountingGenerator(settings, log=tmp_path / "log")
            served.service.generation._generators["tiny"] = generator
            found = Play(served, tmp_path, await add_users(served))
            await found.run()
            return found

        found: Play = served.run(play)
        for end in ("finished", "cut off", *map(_name, ENDS)):
            assert found.ends[end] > 0, found.ends
        assert found.ends.total() >= NUM_REQUESTS
        charges = [
            orjson.loads(row.body)
            for row in served.service.log.read_zone("default", 0)
            if row.type == EventType.TOKENS_USED
        ]
        check_charges(found, charges)
        check_budgets(charges)
        assert served.service.spending._reserved == {}
        balances = served.service.queries.balances()
        fractions = served.ask(lambda zone: dict(zone.model.state.fractions))
    for user in {one["user"] for one in charges}:
        paid = sum(Decimal(one["amount"]) for one in charges if one["user"] == user)
        assert balances[user_account(user)] * STEP == paid
    assert sum(balances.values()) == 0
    with serving(tmp_path / "market", file, served.clock) as again:
        assert again.service.queries.balances() == balances
        assert again.ask(lambda zone: dict(zone.model.state.fractions)) == fractions


ENDS = (InputError, InferenceError, BudgetExceededError, LimitReachedError)


def _name(error: type[AuctuneError]) -> str:
    return error.__name__


def check_charges(found: Play, charges: list[Any]) -> None:
    """Tokens, amounts and fractions are those of what was delivered."""
    for (user, model), tokens in found.delivered.items():
        of = [one for one in charges if (one["user"], one["model"]) == (user, model)]
        for part in ("prompt", "completion"):
            assert sum(one[f"{part}_tokens"] for one in of) == tokens[part]
        carried = Decimal(of[-1]["carried"]) if of else Decimal(0)
        paid = sum(Decimal(one["amount"]) for one in of)
        assert paid + carried == PRICE * tokens.total() / 1000


def check_budgets(charges: list[Any]) -> None:
    """No sum of charges is over a budget, and each budget is all but used up."""
    spent: Counter[str] = Counter()
    of_key: Counter[str] = Counter()
    for one in charges:
        amount = int(Decimal(one["amount"]) / STEP)
        if one["team"] is not None:
            spent["team"] += amount
        if one["user"] == "dan":
            spent["user"] += amount
        if one["user"] == "eve":
            of_key[one["key"]] += amount
    spent["key"] = min(of_key.values())
    for kind, budget in BUDGETS.items():
        assert budget * Decimal("0.9") <= spent[kind] * STEP <= budget
