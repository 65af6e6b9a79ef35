"""Slow receivers delay no other user's webhooks."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from auctune.service.config.models import WebhooksConfig
from auctune.service.jobs.training import Training
from auctune.service.webhooks import dispatcher
from auctune.service.webhooks.dispatcher import MAX_CONCURRENCY_PER_USER
from auctune.service.zones.auction.zone import AuctionZone
from support.serving import Served, make_file, make_zone, serving
from support.waits import poll


class Receiver:
    """Records requests, and answers none before it is released."""

    def __init__(self) -> None:
        self.received: SimpleQueue[bytes] = SimpleQueue()
        self.released = threading.Event()
        self.active = self.most = 0
        self._counting = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver._count(1)
                receiver.received.put(body)
                receiver.released.wait(30)
                receiver._count(-1)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def _count(self, step: int) -> None:
        with self._counting:
            self.active += step
            self.most = max(self.most, self.active)

    @contextmanager
    def open(self) -> Iterator["Receiver"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def end_jobs(served: Served, user: str, count: int, zone: str = "default") -> None:
    """End so many jobs of a user."""

    def end(zone: AuctionZone) -> None:
        for number in range(count):
            job = f"ftjob-{user}{number}{zone.name}"
            zone.receive(job, user, {}, Training("file-a"), None)
            zone.cancel(job)

    served.ask(end, zone)


@pytest.mark.slow
def test_one_users_slow_receivers_delay_no_other_users_webhooks(tmp_path: Path) -> None:
    file = make_file().model_copy(update={"webhooks": WebhooksConfig(private_addresses=True)})
    with serving(tmp_path, file) as served, Receiver().open() as silent, Receiver().open() as quick:
        quick.released.set()
        for user, receiver in (("ada", silent), ("ada", silent), ("bob", quick)):
            with served.http(served.users.get(user) or served.key(user)) as http:
                assert http.post("/v1/webhooks", json={"url": receiver.url}).status_code == 200
        end_jobs(served, "ada", 40)
        for _ in range(MAX_CONCURRENCY_PER_USER):
            silent.received.get(timeout=20)
        end_jobs(served, "bob", 5)
        for _ in range(5):
            quick.received.get(timeout=20)
        assert silent.most == MAX_CONCURRENCY_PER_USER
        silent.released.set()
        for _ in range(2 * 40 - MAX_CONCURRENCY_PER_USER):
            silent.received.get(timeout=20)


def test_a_database_error_delays_webhooks_and_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make_file().model_copy(update={"webhooks": WebhooksConfig(private_addresses=True)})
    monkeypatch.setattr(dispatcher, "_RETRY_SECONDS", 0.01)
    read_ended, errors = dispatcher._read_ended, [OSError("disk"), ValueError("damaged")]

    def fail_twice(*given: Any) -> list[dispatcher.JobEnded]:
        if errors:
            raise errors.pop()
        return read_ended(*given)

    with serving(tmp_path, file) as served, Receiver().open() as receiver:
        receiver.released.set()
        with served.http(served.key("ada")) as http:
            assert http.post("/v1/webhooks", json={"url": receiver.url}).status_code == 200
        monkeypatch.setattr(dispatcher, "_read_ended", fail_twice)
        end_jobs(served, "ada", 1)
        receiver.received.get(timeout=20)
        delivered = 'auctune_webhook_attempts_total{outcome="delivered"} 1.0'
        # It is counted once the receiver's response has arrived.
        with served.http(served.operator) as http:
            poll(lambda: delivered in http.get("/metrics").text.splitlines())
    assert not errors


def test_an_error_of_one_zone_delays_no_webhooks_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zones = [make_zone("first"), make_zone("second")]
    file = make_file(zones).model_copy(update={"webhooks": WebhooksConfig(private_addresses=True)})
    monkeypatch.setattr(dispatcher, "_RETRY_SECONDS", 0.01)
    read_ended, is_damaged = dispatcher._read_ended, threading.Event()

    def read(reader: Any, zone: str, after: int, limit: int) -> list[dispatcher.JobEnded]:
        if zone == "first" and is_damaged.is_set():
            raise OSError("disk")
        return read_ended(reader, zone, after, limit)

    monkeypatch.setattr(dispatcher, "_read_ended", read)
    with serving(tmp_path, file) as served, Receiver().open() as receiver:
        receiver.released.set()
        with served.http(served.key("ada")) as http:
            assert http.post("/v1/webhooks", json={"url": receiver.url}).status_code == 200
        is_damaged.set()
        end_jobs(served, "ada", 1, "first")
        end_jobs(served, "ada", 1, "second")
        assert b"ftjob-ada0second" in receiver.received.get(timeout=20)
        is_damaged.clear()
        assert b"ftjob-ada0first" in receiver.received.get(timeout=20)


async def pause() -> None:
    """Let the loop go on."""
    await asyncio.sleep(0.001)


def test_a_user_has_so_many_deliveries_pending_and_each_is_a_few_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 50
    monkeypatch.setattr(dispatcher, "MAX_PENDING_PER_USER", most)
    file = make_file().model_copy(update={"webhooks": WebhooksConfig(private_addresses=True)})
    with serving(tmp_path, file) as served, Receiver().open() as silent:
        webhooks = served.service.webhooks
        with served.http(served.key("ada")) as http:
            assert http.post("/v1/webhooks", json={"url": silent.url}).status_code == 200
        end_jobs(served, "ada", 3 * most)
        for _ in range(MAX_CONCURRENCY_PER_USER):
            silent.received.get(timeout=20)
        # The last of them was cancelled at once: its event is the newest.
        cursor, newest = webhooks._cursors["default"], served.ask(lambda zone: zone.state.seq)
        assert any(served.run(pause) or cursor.read_to >= newest for _ in range(5000))
        queue = webhooks._queues["ada"]
        assert len(queue.pending) + queue.num_active == most
        # A task each would be some thousand bytes.
        assert len(asyncio.all_tasks(served.loop)) < most
        silent.released.set()
        for _ in range(most - MAX_CONCURRENCY_PER_USER):
            silent.received.get(timeout=20)
        assert any(served.run(pause) or not webhooks._queues for _ in range(5000))
        assert not cursor.open
