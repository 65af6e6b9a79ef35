"""Hooks that take their time hold up nobody else's."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from auctune.service.jobs.training import Training
from auctune.service.settings.service_file import WebhooksEntry
from auctune.service.webhooks.messenger import MessengerParams
from auctune.service.zones.auction.zone import AuctionZone
from support.serving import Served, make_file, serving


class Address:
    """Hears posts, and answers none before it is let go."""

    def __init__(self) -> None:
        self.heard: SimpleQueue[bytes] = SimpleQueue()
        self.let_go = threading.Event()
        self.under_way = self.most = 0
        self._counting = threading.Lock()
        address = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                address._count(1)
                address.heard.put(body)
                address.let_go.wait(30)
                address._count(-1)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def _count(self, step: int) -> None:
        with self._counting:
            self.under_way += step
            self.most = max(self.most, self.under_way)

    @contextmanager
    def open(self) -> Iterator["Address"]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.let_go.set()
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def end_jobs(served: Served, user: str, count: int) -> None:
    """Have so many jobs of a user be over."""

    def end(zone: AuctionZone) -> None:
        for number in range(count):
            job = f"ftjob-{user}{number}"
            zone.receive(job, user, {}, Training("file-a"), None)
            zone.cancel(job)

    served.ask(end)


def test_one_user_s_silent_hooks_hold_up_nobody_else_s(tmp_path: Path) -> None:
    file = make_file().model_copy(update={"webhooks": WebhooksEntry(private_addresses=True)})
    with (
        serving(tmp_path, file) as served,
        Address().open() as silent,
        Address().open() as quick,
    ):
        quick.let_go.set()
        for user, address in (("ada", silent), ("ada", silent), ("bob", quick)):
            with served.http(served.users.get(user) or served.key(user)) as http:
                assert http.post("/v1/webhooks", json={"url": address.url}).status_code == 200
        end_jobs(served, "ada", 40)
        for _ in range(MessengerParams().at_once_of_one):
            silent.heard.get(timeout=20)
        end_jobs(served, "bob", 5)
        for _ in range(5):
            quick.heard.get(timeout=20)
        assert silent.most == MessengerParams().at_once_of_one
        silent.let_go.set()
        for _ in range(2 * 40 - MessengerParams().at_once_of_one):
            silent.heard.get(timeout=20)


async def pause() -> None:
    """Let the loop go on."""
    await asyncio.sleep(0.001)


def test_a_user_has_so_many_deliveries_waiting_and_each_is_a_few_bytes(tmp_path: Path) -> None:
    file = make_file().model_copy(update={"webhooks": WebhooksEntry(private_addresses=True)})
    with serving(tmp_path, file) as served, Address().open() as silent:
        messenger = served.market.messenger
        most = 50
        messenger._params = replace(messenger._params, most_waiting=most)
        with served.http(served.key("ada")) as http:
            assert http.post("/v1/webhooks", json={"url": silent.url}).status_code == 200
        end_jobs(served, "ada", 3 * most)
        for _ in range(MessengerParams().at_once_of_one):
            silent.heard.get(timeout=20)
        # The last of them was cancelled at once: its event is the newest.
        place, newest = messenger._places["default"], served.ask(lambda zone: zone.state.seq)
        assert any(served.run(pause) or place.read_to >= newest for _ in range(5000))
        queue = messenger._queues["ada"]
        assert len(queue.waiting) + queue.under_way == most
        # A task each would be some thousand bytes.
        assert len(asyncio.all_tasks(served.loop)) < most
        silent.let_go.set()
        for _ in range(most - MessengerParams().at_once_of_one):
            silent.heard.get(timeout=20)
        assert any(served.run(pause) or not messenger._queues for _ in range(5000))
        assert not place.open
