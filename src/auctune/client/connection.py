"""Requests and answers over HTTP, errors in OpenAI's shape read back into errors of auctune.

A request that may be made twice is made again where nobody answered: one that changes nothing, and
one with an idempotency key. So is every request that a busy service (429, 503) turned away.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import httpx2

from auctune.client.address import Address
from auctune.client.errors import ServiceError, UnreachableError
from auctune.client.event_stream import StreamedEvent, read_events
from auctune.domain.errors import InputError

_TIMEOUT = httpx2.Timeout(60.0, connect=5.0)
# A stream says every 15 s that it is still there.
_STREAM = httpx2.Timeout(45.0, connect=5.0)
_TRIES = 4
_LONGEST_PAUSE = 10.0
_BUSY = (429, 503)
_REFUSED = (400, 422)

Record = dict[str, Any]


class Connection:
    """Speaks to one service; a context.

    Args:
        address: of it.
        sleep: waits so many seconds.
    """

    def __init__(self, address: Address, sleep: Callable[[float], None] = time.sleep) -> None:
        self.address = address
        self._sleep = sleep
        self._client = httpx2.Client(
            base_url=address.url,
            headers={"Authorization": f"Bearer {address.key}"},
            timeout=_TIMEOUT,
            trust_env=not address.is_local,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, path: str, **query: str | int | None) -> Record:
        """A record.

        Raises:
            InputError: for what the service refused, by field.
            ServiceError: for any other error that it answered.
            UnreachableError: if it did not answer.
        """
        params = {name: value for name, value in query.items() if value is not None}
        return self._record("GET", path, twice=True, params=params)

    def post(self, path: str, body: Record, token: str | None = None) -> Record:
        """A record; errors as of `get`.

        Args:
            path: of the route.
            body: what is sent.
            token: idempotency key; none: it is not sent twice.
        """
        headers = {} if token is None else {"Idempotency-Key": token}
        return self._record("POST", path, twice=token is not None, json=body, headers=headers)

    def delete(self, path: str) -> Record:
        """A record; errors as of `get`."""
        return self._record("DELETE", path, twice=True)

    def upload(self, path: str, file: Path, fields: Mapping[str, str]) -> Record:
        """Send a file with fields of a form; errors as of `get`.

        Raises:
            OSError: if the file cannot be read.
        """
        with file.open("rb") as content:
            parts = {"file": (file.name, content, "application/octet-stream")}
            return self._record("POST", path, twice=False, data=dict(fields), files=parts)

    def download(self, path: str, target: Path) -> None:
        """Write raw bytes to a file, whole or not at all; errors as of `get`.

        Raises:
            OSError: if the file cannot be written.
        """
        part = target.with_name(f"{target.name}.part")
        try:
            with self._client.stream("GET", path) as answer, part.open("wb") as file:
                if answer.is_error:
                    answer.read()
                    raise _error(answer)
                for chunk in answer.iter_bytes():
                    file.write(chunk)
            part.replace(target)
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from None
        finally:
            part.unlink(missing_ok=True)

    def events(self, path: str, after: int) -> Iterator[StreamedEvent]:
        """Events of a stream behind a number, as they come, until it ends; errors as of `get`."""
        headers = {"Last-Event-ID": str(after), "Accept": "text/event-stream"}
        try:
            with self._client.stream("GET", path, headers=headers, timeout=_STREAM) as answer:
                if answer.is_error:
                    answer.read()
                    raise _error(answer)
                yield from read_events(answer.iter_lines())
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from None
        except (ValueError, KeyError):
            raise ServiceError(f"{self.address.url} is no auctune", 200, None) from None

    def _record(self, method: str, path: str, *, twice: bool, **request: Any) -> Record:
        for attempt in range(1, _TRIES + 1):
            is_last = attempt == _TRIES
            try:
                answer = self._client.request(method, path, **request)
            except httpx2.HTTPError as error:
                if is_last or not twice:
                    raise self._unreachable(error) from None
                self._sleep(0.25 * 2**attempt)
                continue
            if answer.status_code in _BUSY and not is_last and "files" not in request:
                self._sleep(_pause(answer))
                continue
            return self._read(answer)
        raise AssertionError("the last attempt returns or raises")

    def _read(self, answer: httpx2.Response) -> Record:
        if answer.is_error:
            raise _error(answer)
        try:
            record = answer.json()
        except ValueError:
            record = None
        if not isinstance(record, dict):
            raise ServiceError(f"{self.address.url} is no auctune", answer.status_code, None)
        return record

    def _unreachable(self, error: httpx2.HTTPError) -> UnreachableError:
        if isinstance(error, httpx2.RemoteProtocolError):
            return UnreachableError(f"{self.address.url} does not answer any more")
        reason = str(error) or type(error).__name__
        return UnreachableError(f"{self.address.url} does not answer ({reason})")


def _pause(answer: httpx2.Response) -> float:
    try:
        return min(_LONGEST_PAUSE, max(0.1, float(answer.headers.get("Retry-After", "1"))))
    except ValueError:
        return 1.0


def _error(answer: httpx2.Response) -> Exception:
    """What an answer says that is an error."""
    status = answer.status_code
    try:
        body = answer.json()
        detail = body["error"]
        message, place, code = str(detail["message"]), detail.get("param"), detail.get("code")
    except (ValueError, LookupError, TypeError, AttributeError):
        return ServiceError(f"the service answered with status {status}", status, None)
    # A wrong value's message begins with its field; both are put together anew here.
    message = message.removeprefix(f"{place}: ")
    found, says, expected = message.partition("; expected ")
    if status in _REFUSED and place and says:
        return InputError(str(place), found, expected)
    beside = {name: value for name, value in body.items() if name != "error"}
    return ServiceError(f"{place}: {message}" if place else message, status, code, beside)
