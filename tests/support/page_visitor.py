"""A browser without scripts: it keeps its cookie, and sends forms as they stand on pages."""

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

import httpx2

from support.service_process import ServiceProcess
from support.serving import Served
from support.waits import WAIT_SECONDS

POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
)


class PageVisitor:
    """Somebody at the page.

    Args:
        served: the service.
        key: with which to sign in; none: a stranger.
        address: of this machine, from which to come; none: any.
    """

    def __init__(
        self, served: Served | ServiceProcess, key: str | None = None, address: str | None = None
    ) -> None:
        # Nothing stays open that a test would have to close.
        limits = httpx2.Limits(max_keepalive_connections=0)
        self.http = httpx2.Client(
            base_url=served.url,
            headers={"Origin": served.url},
            timeout=WAIT_SECONDS,
            follow_redirects=True,
            transport=httpx2.HTTPTransport(verify=False, local_address=address, limits=limits),
        )
        if key is not None:
            answer = self.http.post("/page/sign-in", data={"key": key})
            assert answer.status_code == 200, answer.text

    def get(self, path: str) -> httpx2.Response:
        return self.http.get(path)

    def token(self) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.get("/page/files").text)
        assert found is not None
        return unescape(found[1])

    def post(self, path: str, **fields: str) -> httpx2.Response:
        return self.http.post(path, data={"csrf": self.token(), **fields})

    def upload(self, name: str, content: bytes) -> str:
        answer = self.http.post(
            "/page/files",
            data={"csrf": self.token(), "purpose": "fine-tune"},
            files={"file": (name, content)},
        )
        assert answer.status_code == 200, answer.text
        return str(answer.url.params["file"])


class Faults(HTMLParser):
    """What a page has that its policy forbids, or that is not closed."""

    _VOID = frozenset(("area", "br", "hr", "img", "input", "link", "meta"))

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[str] = []
        self._in_script = False
        self.feed(text)
        self.found += [f"{tag} is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        self.found += [f"{tag} {name}" for name in names if name == "style" or name[:2] == "on"]
        if tag in ("style", "iframe", "object") or (tag == "script" and "src" not in names):
            self.found.append(tag)
        for name in ("src", "href", "action"):
            address = names.get(name) or ""
            if re.match(r"(?i)(https?:)?//|javascript:|data:", address):
                self.found.append(f"{tag} {name}={address}")
        if tag not in self._VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self._VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.found.append(f"/{tag}")


def faults(answer: httpx2.Response) -> list[str]:
    """What is wrong with a page, whatever it says."""
    headers: Any = answer.headers
    policy = headers.get("content-security-policy", "").split("; ")
    found = [rule for rule in POLICY if rule not in policy]
    if headers.get("x-content-type-options") != "nosniff":
        found.append("nosniff")
    if headers["content-type"].startswith("text/html"):
        found += Faults(answer.text).found
    return found
