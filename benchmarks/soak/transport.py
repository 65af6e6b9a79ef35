"""A request to the service, which may be gone before it has answered."""

import contextlib
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_WAIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: status of HTTP, and the body."""

    status: int
    content: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The body as JSON."""
        found: dict[str, Any] = json.loads(self.content)
        return found

    @property
    def code(self) -> str | None:
        """That of an error."""
        found: str | None = self.body.get("error", {}).get("code")
        return found


def ask(
    address: tuple[str, int],
    key: str,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer | None:
    """Ask once; none: there was no answer, and nobody knows what was done.

    A service that says that it cannot do it now (503) has not answered either.
    """
    known = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    connection = http.client.HTTPConnection(*address, timeout=_WAIT_SECONDS)
    with contextlib.closing(connection):
        try:
            connection.request(method, path, body, known | dict(headers or {}))
            response = connection.getresponse()
            answer = Answer(response.status, response.read())
        except (OSError, http.client.HTTPException):
            return None
    return None if answer.status == 503 else answer
