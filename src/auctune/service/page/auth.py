"""Sessions of the page, and the checks that every request for a page passes.

A session is opened with an API key, which is then forgotten; it ends with the key, with the
service, when its owner signs out, and some hours after it began.
"""

import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from auctune.domain import InputError
from auctune.service.accounts.keys import Principal, Role, hash_key
from auctune.service.accounts.limits import TokenBuckets
from auctune.service.http.auth import check_rate
from auctune.service.http.errors import CLOSE_CONNECTION, ApiError
from auctune.service.page.chart_renderer import ChartRenderer
from auctune.service.service import Service


@dataclass(frozen=True, slots=True)
class SessionsParams:
    """How long sessions last, and how many there are.

    Attributes:
        seconds: from sign-in to the end.
        of_a_key: open at once by one key; the oldest makes room.
    """

    seconds: float = 12 * 3600.0
    of_a_key: int = 20

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise InputError("seconds", f"{self.seconds!r}", "a number > 0")
        if self.of_a_key < 1:
            raise InputError("of_a_key", f"{self.of_a_key}", "a whole number >= 1")


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that is signed in.

    Attributes:
        key: id of the API key that opened it.
        token: that each form of its pages carries.
        until: unix time of its end.
    """

    key: str
    token: str
    until: float

    def verify_csrf(self, token: str) -> bool:
        """Whether a form came from a page of this session."""
        return hmac.compare_digest(token.encode(), self.token.encode())


class KeyHolders(Protocol):
    """Knows keys."""

    def principal_of_key(self, key: str) -> Principal | None:
        """Whose key this is, by its id; none: nobody's, or it was revoked."""
        ...


class Sessions:
    """Open sessions; on one loop.

    Args:
        directory: knows keys.
        now: tells unix time.
        params: how long, and how many.
    """

    def __init__(
        self, directory: KeyHolders, now: Callable[[], float], params: SessionsParams | None = None
    ) -> None:
        self._directory = directory
        self._now = now
        self._params = params or SessionsParams()
        # The oldest first.
        self._open: dict[str, Session] = {}

    def create(self, who: Principal) -> str:
        """Open a session; its id, which only the browser keeps."""
        now = self._now()
        self._open = {name: one for name, one in self._open.items() if one.until > now}
        held = [name for name, one in self._open.items() if one.key == who.key]
        for name in held[: max(0, len(held) + 1 - self._params.of_a_key)]:
            del self._open[name]
        secret = secrets.token_urlsafe(32)
        session = Session(who.key, secrets.token_urlsafe(32), now + self._params.seconds)
        self._open[hash_key(secret)] = session
        return secret

    def get(self, secret: str) -> tuple[Session, Principal] | None:
        """The session with this id, and who it is; none: it is over, or there never was one."""
        name = hash_key(secret)
        session = self._open.get(name)
        if session is None:
            return None
        who = self._directory.principal_of_key(session.key)
        if who is None or session.until <= self._now():
            del self._open[name]
            return None
        return session, who

    def delete(self, secret: str) -> None:
        """Close a session, if it is open."""
        self._open.pop(hash_key(secret), None)


# Checks of a request: session, rate, form, CSRF token and origin.

COOKIE = "auctune_session"
ROOT = "/page"
SIGN_IN = f"{ROOT}/sign-in"
TOKEN = "csrf"
FORM = "application/x-www-form-urlencoded"
_IN_UTF8 = frozenset(("", "charset=utf-8", 'charset="utf-8"'))
FORM_BYTES = 256 * 1024
"""A form of somebody who is signed in: one for a job may name a thousand sites."""
_FIELDS = 200
_IDS = {
    "job": r"ftjob-[A-Za-z0-9]{1,64}",
    "file": r"file-[A-Za-z0-9]{1,64}",
    "entry": r"entry-\d{1,18}",
}


@dataclass(frozen=True, slots=True)
class PageContext:
    """What all pages share.

    Attributes:
        service: the service.
        sessions: who is signed in.
        sign_ins: failed attempts, by address.
        charts: draws.
    """

    service: Service
    sessions: Sessions
    sign_ins: TokenBuckets
    charts: ChartRenderer


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request of somebody who is signed in.

    Attributes:
        request: as it came.
        house: what all pages share.
        session: of the browser.
        who: is signed in.
    """

    request: Request
    context: PageContext
    session: Session
    who: Principal

    @property
    def service(self) -> Service:
        """That is shown."""
        return self.context.service

    def param(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def query(self, name: str) -> str | None:
        """A part of the query; none: it is not there, or empty."""
        return self.request.query_params.get(name) or None

    def after(self, kind: str) -> str | None:
        """The last row of the page of a list before this one; none: it is the first.

        Raises:
            InputError: if it is no id of this kind.
        """
        name = self.query("after")
        if name is not None and not re.fullmatch(_IDS[kind], name):
            raise InputError("after", f"is no id of a {kind}", "an id from the list")
        return name


Page = Callable[[PageRequest], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


def login_required(page: Page) -> Endpoint:
    """A page for everybody who brings jobs."""

    async def answer(request: Request) -> Response:
        visit = _visit(request)
        if visit is None:
            return to_sign_in(request)
        with visit.service.requests.acquire(visit.who.key):
            return await page(visit)

    return answer


def for_operators(page: Page) -> Endpoint:
    """A page for operators alone."""

    async def checked(visit: PageRequest) -> Response:
        if not visit.who.is_operator:
            raise ApiError(403, "needs an operator's key", "forbidden")
        return await page(visit)

    return login_required(checked)


def csrf_protected(page: Page) -> Page:
    """What changes something: asked for from a page of ours, by the session that got it."""

    async def checked(visit: PageRequest) -> Response:
        check_origin(visit.request)
        fields = await read_form(visit.request, FORM_BYTES)
        _check_token(visit, fields.get(TOKEN, ""))
        return await page(visit)

    return checked


def uploaded(page: Page) -> Page:
    """The same for an upload: it is read as it streams, so its token stands in its query."""

    async def checked(visit: PageRequest) -> Response:
        check_origin(visit.request)
        _check_token(visit, visit.query(TOKEN) or "")
        return await page(visit)

    return checked


def _check_token(visit: PageRequest, token: str) -> None:
    if not visit.session.verify_csrf(token):
        message = "the form is of another session; load the page again"
        # The rest of an upload is not waited for.
        raise ApiError(403, message, "forbidden", None, CLOSE_CONNECTION)


async def read_form(request: Request, limit: int) -> Mapping[str, str]:
    """Return the fields of a form that is not an upload; the last one of each name.

    The client cannot choose the codec: some of Python's take minutes for a body of a megabyte.

    Args:
        request: whose body may have been read by an earlier call.
        limit: bytes that the body has at most.

    Raises:
        ApiError: 415 for any other content type or charset, 413 for a longer body.
        InputError: if it is not UTF-8, or has too many fields.
    """
    kind, _, options = request.headers.get("content-type", FORM).lower().partition(";")
    if kind.strip() != FORM or options.strip() not in _IN_UTF8:
        message = f"the form's content type is not supported; expected {FORM} in UTF-8"
        raise ApiError(415, message, "unsupported_type", "Content-Type", CLOSE_CONNECTION)
    body = await _read_body(request, limit)
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
        )
    except ValueError:
        raise InputError("body", "cannot be read", f"at most {_FIELDS} fields in UTF-8") from None
    return dict(pairs)


async def _read_body(request: Request, limit: int) -> bytes:
    if hasattr(request.state, "form"):
        return bytes(request.state.form)
    too_long = ApiError(
        413, f"the form has more than {limit} bytes", "too_large", None, CLOSE_CONNECTION
    )
    read = bytearray()
    async for chunk in request.stream():
        read += chunk
        if len(read) > limit:
            raise too_long
    request.state.form = bytes(read)
    return bytes(read)


def check_origin(request: Request) -> None:
    """That a form was sent from a page of this service.

    Browsers say so themselves: by Sec-Fetch-Site, or where they do not, by Origin.

    Raises:
        ApiError: 403 if it came from elsewhere, or does not say.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin", "")
    host = request.headers.get("host")
    is_ours = site == "same-origin" if site else bool(host) and _host_of(origin) == host
    if not is_ours:
        raise ApiError(403, "the form was sent from another site", "forbidden")


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def to_sign_in(request: Request) -> Response:
    """Where somebody goes who is not signed in; and then back."""
    place = SIGN_IN
    if request.method == "GET":
        query = f"?{request.url.query}" if request.url.query else ""
        place += "?next=" + quote(request.url.path + query, safe="")
    if request.headers.get("hx-request"):
        return Response(status_code=401, headers={"HX-Redirect": place})
    if "text/event-stream" in request.headers.get("accept", ""):
        return Response(status_code=401)
    return RedirectResponse(place, 303)


def cookie_of(request: Request) -> str:
    """Return the session's id that a browser sent, or "".

    Ours has no quotes. Python's own parser of cookies takes seconds for a quoted one of 60 kB.
    """
    for header in request.headers.getlist("cookie"):
        for pair in header.split(";"):
            name, _, value = pair.partition("=")
            if name.strip() == COOKIE:
                return value.strip()
    return ""


def _visit(request: Request) -> PageRequest | None:
    house: PageContext = request.app.state.house
    found = house.sessions.get(cookie_of(request))
    if found is None:
        return None
    session, who = found
    request.scope["auctune.who"] = who.key
    check_rate(house.service, who)
    assert who.role is not Role.VENDOR
    return PageRequest(request, house, session, who)


async def form_values(visit: PageRequest) -> dict[str, str]:
    """Return the fields of a form that have something in them."""
    fields = await read_form(visit.request, FORM_BYTES)
    return {name: text.strip() for name, text in fields.items() if text.strip() and name != TOKEN}
