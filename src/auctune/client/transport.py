"""Requests to the service over HTTP; its errors, in OpenAI's shape, become exceptions.

An idempotent request, one that changes nothing or carries an idempotency key, is retried if the
connection fails. Every request is retried if the service is busy (429, 503).

The service may examine and repair data before it answers a post. As long as it answers others, it
is waited for.
"""

import json
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx2

from auctune.client.endpoint import Endpoint
from auctune.client.errors import ServiceError, UnreachableError
from auctune.domain.errors import InputError

_TIMEOUT = httpx2.Timeout(60.0, connect=5.0)
# A stream sends a comment every 15 s.
_STREAM_TIMEOUT = httpx2.Timeout(45.0, connect=5.0)
# Of a post, whose answer is waited for as long as the service answers other requests.
_POST_TIMEOUT = httpx2.Timeout(60.0, connect=5.0, read=None)
_POLL_SECONDS = 1.0
_POLLS_PER_CHECK = 15
_MAX_ATTEMPTS = 4
_MAX_RETRY_SECONDS = 10.0
_RETRYABLE = (429, 503)
_INPUT_ERRORS = (400, 422)
# Any answer shows that the service runs.
_ALIVE = "/v1/zones"

# What terminals obey instead of showing it: control codes but line breaks and tabs, and marks that
# change the direction of text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """An event of a stream.

    Attributes:
        id: number of the event; a stream can be reopened after it.
        type: the event's type.
        data: the event's content.
    """

    id: int
    type: str
    data: dict[str, Any]


class Transport:
    """HTTP connection to one service; a context manager.

    Args:
        endpoint: the service and the key.
        sleep: waits a number of seconds before a retry.
        on_wait: called about once a second while the service works on a post, with the seconds.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        sleep: Callable[[float], None] = time.sleep,
        on_wait: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.endpoint = endpoint
        self._sleep = sleep
        self._on_wait = on_wait
        self._client = httpx2.Client(
            base_url=endpoint.url,
            headers={"Authorization": f"Bearer {endpoint.key}"},
            timeout=_TIMEOUT,
            trust_env=not endpoint.is_local,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, **query: str | int | None) -> Record:
        """Get a record.

        Raises:
            InputError: if the service refused a field of the request.
            ServiceError: if the service answered with any other error.
            UnreachableError: if the service did not answer.
        """
        params = {name: value for name, value in query.items() if value is not None}
        return self._record("GET", path, idempotent=True, params=params)

    def post(self, path: str, body: Record, idempotency_key: str | None = None) -> Record:
        """Post a record; retried only with an idempotency key; errors as in `get`."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        return self._record(
            "POST", path, idempotent=idempotency_key is not None, json=body, headers=headers
        )

    def delete(self, path: str) -> Record:
        """Delete a record; errors as in `get`."""
        return self._record("DELETE", path, idempotent=True)

    def upload(self, path: str, file: Path, fields: Mapping[str, str]) -> Record:
        """Upload a file with form fields; errors as in `get`.

        Raises:
            OSError: if the file cannot be read.
        """
        with file.open("rb") as content:
            parts = {"file": (file.name, content, "application/octet-stream")}
            return self._record("POST", path, idempotent=False, data=dict(fields), files=parts)

    def download(self, path: str, target: Path, **query: str | None) -> None:
        """Write a response body to a file, whole or not at all; errors as in `get`.

        Raises:
            OSError: if the file cannot be written.
        """
        part = target.with_name(f"{target.name}.part")
        params = {name: value for name, value in query.items() if value is not None}
        try:
            with (
                self._client.stream("GET", path, params=params) as response,
                part.open("wb") as file,
            ):
                if response.is_error:
                    response.read()
                    raise _to_error(response)
                for chunk in response.iter_bytes():
                    file.write(chunk)
            part.replace(target)
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from None
        finally:
            part.unlink(missing_ok=True)

    def events(self, path: str, after: int) -> Iterator[ServerSentEvent]:
        """Yield the events of a stream after a number until it ends; errors as in `get`."""
        headers = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}
        try:
            with self._client.stream(
                "GET", path, headers=headers, timeout=_STREAM_TIMEOUT
            ) as response:
                if response.is_error:
                    response.read()
                    raise _to_error(response)
                yield from parse_events(response.iter_lines())
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from None
        except (ValueError, KeyError, RecursionError):
            raise self._not_auctune(200) from None

    def _record(self, method: str, path: str, *, idempotent: bool, **request: Any) -> Record:
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            is_last = attempt == _MAX_ATTEMPTS
            try:
                response = self._send(method, path, request)
            except httpx2.HTTPError as error:
                if is_last or not idempotent:
                    raise self._unreachable(error) from None
                self._sleep(0.25 * 2**attempt)
                continue
            if response.status_code in _RETRYABLE and not is_last and "files" not in request:
                self._sleep(_retry_after(response))
                continue
            return self._read(response)
        raise AssertionError("the last attempt returns or raises")

    def _send(self, method: str, path: str, request: dict[str, Any]) -> httpx2.Response:
        if method != "POST" or "files" in request:
            return self._client.request(method, path, **request)
        answers: queue.SimpleQueue[httpx2.Response | httpx2.HTTPError] = queue.SimpleQueue()

        def send() -> None:
            try:
                answers.put(self._client.request(method, path, timeout=_POST_TIMEOUT, **request))
            except httpx2.HTTPError as error:
                answers.put(error)

        # Ends with the process: an interrupt does not wait for the answer.
        threading.Thread(target=send, daemon=True).start()
        started, num_polls = time.monotonic(), 0
        while True:
            try:
                answer = answers.get(timeout=_POLL_SECONDS)
            except queue.Empty:
                num_polls += 1
                self._on_wait(time.monotonic() - started)
                if num_polls % _POLLS_PER_CHECK == 0:
                    self._client.get(_ALIVE)
                continue
            if isinstance(answer, httpx2.HTTPError):
                raise answer
            return answer

    def _read(self, response: httpx2.Response) -> Record:
        if response.is_error:
            raise _to_error(response)
        try:
            record = printable(response.json())
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise self._not_auctune(response.status_code)
        return record

    def _not_auctune(self, status: int) -> ServiceError:
        return ServiceError(f"{self.endpoint.url} is not an auctune service", status, None)

    def _unreachable(self, error: httpx2.HTTPError) -> UnreachableError:
        if isinstance(error, httpx2.RemoteProtocolError):
            return UnreachableError(f"{self.endpoint.url} does not answer: connection closed")
        reason = str(error) or type(error).__name__
        return UnreachableError(f"{self.endpoint.url} does not answer ({reason})")


def printable(value: Any) -> Any:
    """Return JSON of a server without the characters that terminals obey, in any of its texts."""
    if isinstance(value, str):
        return _CONTROL.sub("\ufffd", value)
    if isinstance(value, list):
        return [printable(one) for one in value]
    if isinstance(value, dict):
        return {printable(name): printable(one) for name, one in value.items()}
    return value


def _record_of(data: str) -> Record:
    record = printable(json.loads(data))
    if not isinstance(record, dict):
        raise ValueError("not an object")
    return record


def parse_events(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """Parse server-sent events (https://html.spec.whatwg.org/#server-sent-events).

    Only complete events are yielded; comments are skipped.

    Raises:
        ValueError, KeyError: if the lines are not events of this service.
    """
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if name:
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name == "data" in fields else value
        elif not line and "data" in fields:
            yield ServerSentEvent(
                int(fields["id"]),
                printable(fields.get("event", "message")),
                _record_of(fields["data"]),
            )
            fields = {}


def _retry_after(response: httpx2.Response) -> float:
    try:
        seconds = float(response.headers.get("Retry-After", "1"))
    except ValueError:
        return 1.0
    return min(_MAX_RETRY_SECONDS, max(0.1, seconds))


def _to_error(response: httpx2.Response) -> Exception:
    status = response.status_code
    try:
        body = printable(response.json())
        detail = body["error"]
        message, place, code = str(detail["message"]), detail.get("param"), detail.get("code")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ServiceError(f"the service answered with status {status}", status, None)
    # The message for an invalid value begins with its field, which InputError adds again.
    message = message.removeprefix(f"{place}: ")
    found, separator, expected = message.partition("; expected ")
    if status in _INPUT_ERRORS and place and separator:
        return InputError(str(place), found, expected)
    extra = {name: value for name, value in body.items() if name != "error"}
    # What is not found is named by its message.
    named = place and code != "not_found"
    return ServiceError(f"{place}: {message}" if named else message, status, code, extra)
