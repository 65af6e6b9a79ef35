"""One signed request over HTTP and its answer, of which nothing is believed unchecked.

Redirects are not followed, nothing is decompressed, no more is read than was allowed for, and
what is read counts only once its digest is the signed one.
"""

import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256

import httpx2
from pydantic import ValidationError

from auctune.service.vendors.fault import Fault, VendorError
from auctune.service.vendors.links import Clock
from auctune.service.vendors.messages import ReasonAnswer
from auctune.service.vendors.secret import Secret
from auctune.service.vendors.signature import (
    SIGNATURE,
    SignatureError,
    check_answer,
    sign_request,
)

# What servers and proxies say that are overloaded, starting or stopping.
BUSY_STATUSES = frozenset({429, 502, 503, 504})
SMALL_BODY = 1 << 16
CHUNK_BYTES = 1 << 18

Sink = Callable[[bytes], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A genuine answer: its status, and its body, empty if that went elsewhere."""

    status: int
    body: bytes = b""

    @property
    def reason(self) -> str:
        """Why it is no success, in its sender's words."""
        try:
            return ReasonAnswer.model_validate_json(self.body).reason
        except ValidationError:
            return "no reason given"


class Exchange:
    """Talks to one party.

    Args:
        name: of the other party, for errors.
        secret: shared with it.
        client: from `make_client`.
        clock: unix time.
    """

    def __init__(
        self, name: str, secret: Secret, client: httpx2.AsyncClient, clock: Clock = time.time
    ) -> None:
        self._name = name
        self._secret = secret
        self._client = client
        self._clock = clock

    async def ask(
        self, method: str, url: str, body: bytes = b"", limit: int = SMALL_BODY
    ) -> Answer:
        """Send a request; its answer's body has at most `limit` bytes.

        Raises:
            VendorError: if there is no genuine answer to have.
        """
        received = bytearray()

        async def keep(chunk: bytes) -> None:
            received.extend(chunk)

        async with self._open(method, url, body) as (response, digest):
            await self._read(response, digest, limit, keep)
            return Answer(response.status_code, bytes(received))

    async def download(self, url: str, limit: int, digest: str, sink: Sink) -> Answer:
        """Pass the bytes of a file on to `sink` as they come; other answers come as a body.

        Args:
            url: where it is.
            limit: bytes that it has at most.
            digest: SHA-256 that it must have.
            sink: gets the bytes; they count once this returns with status 200.

        Raises:
            VendorError: if there is no genuine answer to have, or it is another file.
        """
        received = bytearray()

        async def keep(chunk: bytes) -> None:
            received.extend(chunk)

        async with self._open("GET", url, b"") as (response, signed):
            if response.status_code != 200:
                await self._read(response, signed, SMALL_BODY, keep)
                return Answer(response.status_code, bytes(received))
            if signed != digest:
                raise self._error(Fault.RESULT, "another file than the one that was announced")
            await self._read(response, signed, limit, sink)
            return Answer(200)

    @asynccontextmanager
    async def _open(
        self, method: str, url: str, body: bytes
    ) -> AsyncIterator[tuple[httpx2.Response, str]]:
        """The head of an answer, checked, and the digest that its body must have."""
        try:
            request = self._client.build_request(method, url, content=body)
            path = request.url.raw_path.decode("ascii")
            digest = sha256(body).hexdigest()
            nonce = secrets.token_hex(16)
            signed = sign_request(self._secret, method, path, digest, self._clock(), nonce)
            request.headers.update(signed)
            if body:
                request.headers["content-type"] = "application/json"
            response = await self._client.send(request, stream=True)
            try:
                yield response, self._check_head(response, signed[SIGNATURE])
            finally:
                await response.aclose()
        except httpx2.TimeoutException as error:
            raise self._error(Fault.LATE, type(error).__name__) from None
        except httpx2.InvalidURL:
            raise self._error(Fault.NONSENSE, "no URL that can be asked") from None
        except httpx2.HTTPError as error:
            raise self._error(Fault.UNREACHABLE, f"{type(error).__name__}: {error}") from None

    def _check_head(self, response: httpx2.Response, request_signature: str) -> str:
        status = response.status_code
        if status in BUSY_STATUSES:
            raise self._error(Fault.BUSY, f"status {status}")
        if 300 <= status < 400:
            raise self._error(Fault.REDIRECT, f"status {status}")
        if "content-encoding" in response.headers:
            raise self._error(Fault.NONSENSE, "a compressed body, which was not asked for")
        try:
            return check_answer(
                self._secret, status, response.headers, request_signature, self._clock()
            )
        except SignatureError as error:
            raise self._error(Fault.SIGNATURE, f"status {status}: {error}") from None

    async def _read(self, response: httpx2.Response, digest: str, limit: int, sink: Sink) -> None:
        hasher, size = sha256(), 0
        async for chunk in response.aiter_raw(CHUNK_BYTES):
            size += len(chunk)
            if size > limit:
                raise self._error(Fault.SIZE, f"a body of more than {limit} bytes")
            hasher.update(chunk)
            await sink(chunk)
        if hasher.hexdigest() != digest:
            raise self._error(Fault.SIGNATURE, "the body is not the one that was signed")

    def _error(self, fault: Fault, detail: str) -> VendorError:
        return VendorError(self._name, fault, detail)


def make_client(connect_seconds: float = 5.0, idle_seconds: float = 30.0) -> httpx2.AsyncClient:
    """A client for an `Exchange`, which has to be closed.

    It takes no proxies and no passwords from the environment: data sets go where the
    configuration says, and nowhere else.

    Args:
        connect_seconds: to wait for a connection.
        idle_seconds: to wait while nothing comes, or can be sent.
    """
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(idle_seconds, connect=connect_seconds),
        headers={"accept-encoding": "identity", "user-agent": "auctune"},
        follow_redirects=False,
        trust_env=False,
    )
