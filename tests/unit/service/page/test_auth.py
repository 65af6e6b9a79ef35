"""Sessions end with their time, their key and their owner's wish; charts with their client."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from auctune.service.accounts.registry import Principal, Role
from auctune.service.charts.renderer import ChartSpec
from auctune.service.page.auth import PageContext, PageRequest, Session, Sessions

ADA = Principal("key-1", "ada", None, Role.USER)
BOB = Principal("key-2", "bob", None, Role.OPERATOR)


@dataclass
class Keys:
    held: dict[str, Principal] = field(default_factory=lambda: {"key-1": ADA, "key-2": BOB})


@dataclass
class Time:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def open_sessions(seconds: float = 60.0, of_a_key: int = 2) -> tuple[Sessions, Keys, Time]:
    keys, time = Keys(), Time()
    return Sessions(keys.held.get, time, seconds, of_a_key), keys, time


def test_an_id_finds_its_own_session_alone() -> None:
    sessions, _, _ = open_sessions()
    ada, bob = sessions.create(ADA), sessions.create(BOB)
    found = sessions.get(ada)
    assert found is not None
    assert found[1] is ADA
    assert ada != bob
    assert sessions.get(ada + "x") is None
    assert sessions.get("") is None


def test_a_token_is_of_one_session() -> None:
    sessions, _, _ = open_sessions()
    first, second = sessions.get(sessions.create(ADA)), sessions.get(sessions.create(ADA))
    assert first is not None
    assert second is not None
    assert first[0].verify_csrf(first[0].token)
    assert not first[0].verify_csrf(second[0].token)
    assert not first[0].verify_csrf("")


def test_a_session_lasts_so_long_and_no_longer() -> None:
    sessions, _, time = open_sessions(seconds=60.0)
    ada = sessions.create(ADA)
    time.now += 59.9
    assert sessions.get(ada) is not None
    time.now += 0.1
    assert sessions.get(ada) is None
    time.now -= 30
    assert sessions.get(ada) is None


def test_a_revoked_key_ends_its_sessions_and_no_others() -> None:
    sessions, keys, _ = open_sessions()
    ada, bob = sessions.create(ADA), sessions.create(BOB)
    del keys.held["key-1"]
    assert sessions.get(ada) is None
    assert sessions.get(bob) is not None


def test_the_oldest_session_of_a_key_makes_room() -> None:
    sessions, _, _ = open_sessions(of_a_key=2)
    bob, *ada = sessions.create(BOB), *(sessions.create(ADA) for _ in range(3))
    assert [sessions.get(one) is not None for one in ada] == [False, True, True]
    assert sessions.get(bob) is not None


def test_no_id_is_kept_as_it_is() -> None:
    sessions, _, _ = open_sessions()
    assert sessions.create(ADA) not in str(vars(sessions))


def test_a_chart_is_not_waited_for_once_the_client_has_left() -> None:
    async def work() -> None:
        has_left = asyncio.Event()
        ended: list[str] = []

        class Charts:
            async def draw(self, _: ChartSpec) -> None:
                try:
                    has_left.set()
                    await asyncio.Event().wait()
                finally:
                    ended.append("chart")

        async def receive() -> Message:
            await has_left.wait()
            return {"type": "http.disconnect"}

        service: Any = type("WithCharts", (), {"charts": Charts()})
        context = PageContext(service, Any, Any)  # type: ignore[arg-type]
        request = Request({"type": "http"}, receive)
        visit = PageRequest(request, context, Session("key-1", "token", 0.0), ADA)
        assert await visit.draw(None) is None
        with pytest.raises(ClientDisconnect):
            await visit.draw(ChartSpec("plan", {}, ""))
        assert ended == ["chart"]

    asyncio.run(work())
