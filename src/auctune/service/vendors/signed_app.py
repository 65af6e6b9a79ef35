"""The other end: an ASGI application behind signatures.

A request that is not known to come from the other party does not reach the application; every
answer is signed. An answer whose digest the application names itself (in the header
auctune-digest) is signed at once and streams; others are held back until their digest is known.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from hashlib import sha256

from starlette.datastructures import Headers, QueryParams
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from auctune.service.vendors.links import Clock
from auctune.service.vendors.nonces import SeenNonces
from auctune.service.vendors.secret import Secret
from auctune.service.vendors.signature import (
    DIGEST,
    SIGNATURE,
    WINDOW_SECONDS,
    SignatureError,
    check_request,
    sign_answer,
)

MAX_REQUEST_BYTES = 1 << 16

SecretOf = Callable[[QueryParams], Secret | None]
"""Whose request it is, by the request's query; none: a stranger's."""


class SignedApp:
    """Lets signed requests pass, and signs what comes back.

    Args:
        app: what is behind it.
        secret_of: finds the secret that a request must be signed with, the same object each time.
        clock: unix time.
    """

    def __init__(self, app: ASGIApp, secret_of: SecretOf, clock: Clock = time.time) -> None:
        self._app = app
        self._secret_of = secret_of
        self._clock = clock
        # A timestamp may lie ahead by a window, and is taken until it lies behind by another. Each
        # party has its own: one that sends many requests leaves the others their room.
        self._seen: defaultdict[Secret, SeenNonces] = defaultdict(
            lambda: SeenNonces(2 * WINDOW_SECONDS + 1)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        secret = self._secret_of(QueryParams(scope["query_string"]))
        if secret is None:
            await _refuse(401, "an unknown sender")(scope, receive, send)
            return
        headers = Headers(scope=scope)
        signing = _SigningSend(send, secret, headers.get(SIGNATURE, ""), self._clock)
        body = await _read_body(receive)
        if body is None:
            refusal = _refuse(413, f"a body of more than {MAX_REQUEST_BYTES} bytes")
            await refusal(scope, receive, signing)
            return
        try:
            path, now = _signed_path(scope), self._clock()
            check_request(secret, scope["method"], path, body, headers, now, self._seen[secret])
        except SignatureError as error:
            await _refuse(401, str(error))(scope, receive, signing)
            return
        await self._app(scope, _replay(body, receive), signing)


class _SigningSend:
    """Passes an answer on with a signature in its head."""

    def __init__(self, send: Send, secret: Secret, request_signature: str, clock: Clock) -> None:
        self._send = send
        self._secret = secret
        self._request_signature = request_signature
        self._clock = clock
        self._start: Message | None = None
        self._held = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            digest = Headers(raw=message["headers"]).get(DIGEST)
            if digest is None:
                self._start = message
            else:
                await self._send(self._sign(message, digest))
        elif self._start is None:
            await self._send(message)
        else:
            self._held += message.get("body", b"")
            if not message.get("more_body", False):
                await self._send(self._sign(self._start, sha256(self._held).hexdigest()))
                await self._send({"type": "http.response.body", "body": bytes(self._held)})

    def _sign(self, start: Message, digest: str) -> Message:
        signed = sign_answer(
            self._secret, start["status"], digest, self._request_signature, self._clock()
        )
        kept = [(name, value) for name, value in start["headers"] if name.decode() not in signed]
        added = [(name.encode(), value.encode()) for name, value in signed.items()]
        return {**start, "headers": [*kept, *added]}


def _signed_path(scope: Scope) -> str:
    """The path as it stood in the request line."""
    path: bytes = scope["raw_path"]
    query: bytes = scope["query_string"]
    return (path + (b"?" + query if query else b"")).decode("latin-1")


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body; none if it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_REQUEST_BYTES:
            return None
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Gives the application the body that was read already, then what comes after it."""
    waiting = [body]

    async def read() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return read


def _refuse(status: int, reason: str) -> JSONResponse:
    return JSONResponse({"reason": reason}, status)
