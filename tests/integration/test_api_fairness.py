"""Requests of several users: who waits for whom, what is counted, and what is bounded."""

import asyncio
import math
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from auctune.service import service
from auctune.service.accounts.registry import Principal, Role
from auctune.service.fair_queue import Gate, ReadThreads, RequestScope, request_scope
from auctune.service.service import _REQUESTS_AT_WORK
from support.page_visitor import PageVisitor
from support.serving import Served, make_file, serving
from support.waits import poll

pytest_plugins = ["support.served_market"]


def test_whoever_sends_bodies_slowly_holds_no_place(served: Served) -> None:
    key = served.key("slow")
    host, port = served.url.removeprefix("http://").split(":")
    head = f"POST /v1/quotes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n"
    with ExitStack() as stack:
        for _ in range(40):
            line = stack.enter_context(socket.create_connection((host, int(port))))
            line.sendall(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        with served.http(served.key("other")) as http:
            assert [http.get("/v1/ledger").status_code for _ in range(3)] == [200] * 3


def test_all_keys_of_a_user_share_its_open_requests_and_a_refusal_says_when_to_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_REQUESTS", 2)
    with serving(tmp_path) as served:
        first, second = served.key("ada"), served.key("ada")
        file = served.upload(first)
        job = served.bid(served.client(first), file).id
        with ExitStack() as stack:
            for key in (first, second):
                http = stack.enter_context(served.http(key))
                path = f"/v1/fine_tuning/jobs/{job}/events/stream"
                assert stack.enter_context(http.stream("GET", path)).status_code == 200
            with served.http(second) as http:
                refused = http.get("/v1/ledger")
        assert refused.status_code == 429
        assert refused.json()["error"]["message"] == "you have 2 open requests, the maximum"
        assert int(refused.headers["retry-after"]) >= 1


def test_a_stream_of_the_page_is_an_open_request_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MAX_REQUESTS", 1)
    with serving(tmp_path) as served:
        key = served.key("ada")
        ada, file = PageVisitor(served, key), served.upload(key)
        job = served.bid(served.client(key), file).id
        with ada.http.stream("GET", f"/page/jobs/{job}/news") as told:
            assert told.status_code == 200
            assert ada.http.get("/page/files").status_code == 429
        poll(lambda: ada.http.get("/page/files").status_code == 200)


def test_the_examination_of_an_upload_counts_though_its_request_has_ended(served: Served) -> None:
    key = served.key("sends")
    served.upload(key)
    gate = served.service.gate
    poll(lambda: gate.used["sends"].process_seconds > 0)
    with served.http(key) as http:

        def is_all_charged() -> bool:
            # The next request finds what was used since the last one.
            http.get("/v1/zones")
            return math.isclose(gate._charged["sends"], gate.used["sends"].cost)

        poll(is_all_charged)


def test_what_each_user_has_used_is_in_the_metrics_and_ones_own_on_the_page(
    served: Served,
) -> None:
    key = served.key("user")
    ada = PageVisitor(served, key)
    market = {"lora": {"max_length": 50}}
    body = {"model": "tiny", "training_file": served.upload(key), "market": market}
    with served.http(key) as http:
        http.get("/v1/files")
        assert http.post("/v1/quotes", json=body).status_code == 200
    with served.http(served.operator) as operator:
        text = operator.get("/metrics").text
    used = {
        (sample.labels.get("of") or sample.labels["direction"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if family.name.startswith("auctune_used") and sample.labels["user"] == "user"
    }
    assert used["in"] > 2000
    assert used["out"] > 100
    assert used["loop"] > 0
    assert used["threads"] > 0
    # For an examination of the file, truncated to another length.
    assert used["processes"] > 0
    assert "Use of the service" in ada.get("/page/money").text


def test_tasks_that_a_request_starts_are_its_work_too(served: Served) -> None:
    request, seconds = RequestScope(ReadThreads()), 0.02

    async def work() -> None:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        await asyncio.sleep(0)

    async def start() -> None:
        with request_scope(request):
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(work())
            # One that never begins is closed without a warning.
            task = asyncio.create_task(work())
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
        await asyncio.create_task(work())

    served.run(start)
    assert 3 * seconds <= request.use.loop_seconds < 4 * seconds
    assert seconds <= request.longest_step < 2 * seconds


def test_users_with_twice_the_weight_get_twice_as_much() -> None:
    async def play() -> None:
        gate, order = Gate(1, 1000, lambda user: 2.0 if user == "a" else 1.0), ""

        async def work(user: str) -> None:
            nonlocal order
            request = RequestScope(ReadThreads())
            who = Principal(f"key of {user}", user, None, Role.USER)
            with request_scope(request):
                async with gate.enter(request, who, lambda: asyncio.sleep(0)):
                    order += user
                    request.use.loop_seconds = 1.0
                    await asyncio.sleep(0)

        await asyncio.gather(*(work(user) for user in "ab" * 60))
        assert 36 <= order[:60].count("a") <= 44

    asyncio.run(play())


def test_who_waits_for_anything_for_long_holds_no_place() -> None:
    async def play() -> None:
        gate, is_back = Gate(1, 1000, patience=0.01), asyncio.Event()

        async def work(user: str, until: asyncio.Event) -> None:
            request, who = RequestScope(ReadThreads()), Principal(user, user, None, Role.USER)
            with request_scope(request):
                async with gate.enter(request, who, lambda: asyncio.sleep(0)):
                    await until.wait()

        now = asyncio.Event()
        now.set()
        writes = [asyncio.create_task(work("writes", is_back)) for _ in range(5)]
        await asyncio.gather(*(work("reads", now) for _ in range(5)))
        assert not any(one.done() for one in writes)
        is_back.set()
        await asyncio.gather(*writes)

    asyncio.run(play())


def test_users_have_the_weight_of_their_team(tmp_path: Path) -> None:
    with serving(tmp_path, make_file(team_weights={"research": 2.0})) as served:
        for team in ("research", "sales"):
            served.run(partial(served.service.put_team, team, None))
            served.key(f"user of {team}", team=team)
        served.key("of none")
        weight = served.service.gate._weight
        users = ("user of research", "user of sales", "of none", "unknown")
        assert [weight(user) for user in users] == [2.0, 1.0, 1.0, 1.0]


def test_whoever_waits_for_examinations_holds_no_place_of_the_gate(served: Served) -> None:
    files = {user: served.upload(served.key(user)) for user in ("asks", "too")}
    process = served.opened._data.pid
    assert process is not None

    def ask(user: str, max_length: int) -> str:
        market = {"lora": {"max_length": max_length}}
        body = {"model": "tiny", "training_file": files[user], "market": market}
        with served.http(served.users[user]) as http:
            answer = http.post("/v1/quotes", json=body)
            return "" if answer.is_success else answer.text

    with ThreadPoolExecutor(2 * _REQUESTS_AT_WORK) as pool:
        os.kill(process, signal.SIGSTOP)
        try:
            # The last free place is for who holds none.
            asked = [
                pool.submit(ask, user, 50 + number)
                for user in files
                for number in range(_REQUESTS_AT_WORK)
            ]
            with served.http(served.key("other")) as other:
                for _ in range(20):
                    assert other.get("/v1/ledger", timeout=60).status_code == 200
            assert not any(one.done() for one in asked)
        finally:
            os.kill(process, signal.SIGCONT)
        # Once all files are examined, more of a user may wait to be priced than is allowed.
        refusals = {text for one in asked if (text := one.result(60))}
        assert all("quotes of yours are waiting, the maximum" in text for text in refusals)
