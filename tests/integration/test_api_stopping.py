"""What is asked of a service that stops: what it cannot complete is unavailable, not a fault."""

import asyncio
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from auctune.service.http.middleware import RequestMiddleware
from support.serving import Served

pytest_plugins = ["support.served_market"]

SCOPE: Scope = {"type": "http", "method": "GET", "path": "/health", "headers": []}


def test_a_request_that_is_cancelled_by_the_end_of_the_service_is_answered_503(
    served: Served,
) -> None:
    assert cancelled(served, begins=False)[0]["status"] == 503


def test_a_response_that_has_begun_is_not_begun_again(served: Served) -> None:
    assert [message["type"] for message in cancelled(served, begins=True)] == [
        "http.response.start"
    ]


def cancelled(served: Served, *, begins: bool) -> list[Message]:
    """Return what is sent for a request that is cancelled while it waits."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def wait(_scope: Scope, _receive: Receive, send: Send) -> None:
        if begins:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    async def ask() -> Any:
        asked = asyncio.create_task(
            RequestMiddleware(wait, served.service)(dict(SCOPE), receive, send)
        )
        await asyncio.sleep(0.05)
        asked.cancel()
        return await asyncio.gather(asked, return_exceptions=True)

    served.run(ask)
    return sent
