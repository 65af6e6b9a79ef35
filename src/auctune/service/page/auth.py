"""Sessions of the page, sign-in, and the checks that every request for a page passes.

An API key opens a session and is not stored. The session ends after some hours, when its owner
signs out, when the key is revoked, or when the service ends.
"""

import hmac
import math
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from auctune.domain import InputError
from auctune.service.accounts.limits import TokenBuckets
from auctune.service.accounts.registry import Principal, hash_key
from auctune.service.charts.renderer import ChartSpec
from auctune.service.fair_queue import current_request
from auctune.service.http.errors import CLOSE_CONNECTION, ApiError, retry_after
from auctune.service.http.middleware import SIGN_IN, is_upload
from auctune.service.http.requests import TOKEN, count_request
from auctune.service.http.routes.answers import while_connected
from auctune.service.identifiers import ENTRY_ID, FILE_ID, JOB_ID
from auctune.service.page.templates import ROOT, render_page, unit_of
from auctune.service.service import Service

SESSION_SECONDS = 12 * 3600.0
SESSIONS_PER_KEY = 20


@dataclass(frozen=True, slots=True)
class Session:
    """Session of a browser, opened with an API key; `token` is the CSRF token of its forms."""

    key: str
    token: str
    until: float

    def verify_csrf(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())


class Sessions:
    """Open sessions; for one event loop.

    Args:
        per_key: maximum number of sessions of a key; one more closes the oldest.
    """

    def __init__(
        self,
        principal_of_key: Callable[[str], Principal | None],
        now: Callable[[], float],
        seconds: float = SESSION_SECONDS,
        per_key: int = SESSIONS_PER_KEY,
    ) -> None:
        self._principal_of_key = principal_of_key
        self._now = now
        self._seconds, self._per_key = seconds, per_key
        # By the hash of the id, oldest first.
        self._open: dict[str, Session] = {}

    def create(self, who: Principal) -> str:
        """Open a session; return its id, of which only a hash is stored."""
        now = self._now()
        self._open = {name: one for name, one in self._open.items() if one.until > now}
        of_key = [name for name, one in self._open.items() if one.key == who.key]
        for name in of_key[: max(0, len(of_key) + 1 - self._per_key)]:
            del self._open[name]
        secret = secrets.token_urlsafe(32)
        session = Session(who.key, secrets.token_urlsafe(32), now + self._seconds)
        self._open[hash_key(secret)] = session
        return secret

    def get(self, secret: str) -> tuple[Session, Principal] | None:
        """Return the session with this id and its user, or None if it is not open."""
        name = hash_key(secret)
        session = self._open.get(name)
        if session is None:
            return None
        who = self._principal_of_key(session.key)
        if who is None or session.until <= self._now():
            del self._open[name]
            return None
        return session, who

    def delete(self, secret: str) -> None:
        self._open.pop(hash_key(secret), None)


COOKIE = "auctune_session"
FORM = "application/x-www-form-urlencoded"
_IN_UTF8 = frozenset(("", "charset=utf-8", 'charset="utf-8"'))
_MAX_FIELDS = 200
_IDS = {"job": JOB_ID, "file": FILE_ID, "entry": ENTRY_ID}


@dataclass(frozen=True, slots=True)
class PageContext:
    """State shared by all pages; `sign_ins` limits failed sign-ins by address."""

    service: Service
    sessions: Sessions
    sign_ins: TokenBuckets


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Request of a signed-in user."""

    request: Request
    context: PageContext
    session: Session
    who: Principal

    @property
    def service(self) -> Service:
        return self.context.service

    def param(self, name: str) -> str:
        return str(self.request.path_params[name])

    def query(self, name: str) -> str | None:
        """Return a query parameter, or None if it is missing or empty."""
        return self.request.query_params.get(name) or None

    def after(self, kind: str) -> str | None:
        """Return the id after which this page of a list starts, or None for the first page."""
        name = self.query("after")
        if name is not None and not re.fullmatch(_IDS[kind], name):
            raise InputError("after", f"is not the id of a {kind}", "an id from the list")
        return name

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """Render a page for the user."""
        unit = unit_of(self.service.billing.currency)
        token = self.session.token
        return render_page(template, status, who=self.who, csrf=token, unit=unit, **values)

    async def draw(self, figure: ChartSpec | None) -> Markup | None:
        """Return a chart as HTML, unless the client leaves before that; None for None."""
        if figure is None:
            return None
        return await while_connected(self.request, self.service.charts.draw(figure))


Page = Callable[[PageRequest], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[ASGIApp]]
"""Returns what sends the response."""


def login_required(page: Page) -> Endpoint:
    """Require a session; redirect to the sign-in page without one."""

    async def answer(request: Request) -> ASGIApp:
        visit = visit_of(request)
        if visit is None:
            return to_sign_in(request)
        gate, counted = visit.service.gate, current_request()
        assert counted is not None
        body = None if is_upload(request.scope) else request.body

        async def send_page(scope: Scope, receive: Receive, send: Send) -> None:
            async with gate.enter(counted, visit.who, body):
                response = await page(visit)
                await response(scope, receive, send)

        return send_page

    return answer


def for_operators(page: Page) -> Endpoint:
    """Require the session of an operator."""

    async def checked(visit: PageRequest) -> Response:
        if not visit.who.is_operator:
            raise ApiError(403, "needs an operator's key", "forbidden")
        return await page(visit)

    return login_required(checked)


def csrf_protected(page: Page) -> Page:
    """Require a form that was sent from a page of this session."""

    async def checked(visit: PageRequest) -> Response:
        check_origin(visit.request)
        fields = await read_form(visit.request)
        check_token(visit, fields.get(TOKEN, ""))
        return await page(visit)

    return checked


def check_token(visit: PageRequest, token: str) -> None:
    """Check the CSRF token of a form; raise 403 for another one."""
    if not visit.session.verify_csrf(token):
        message = "the form belongs to another session; reload the page"
        raise ApiError(403, message, "forbidden", None, CLOSE_CONNECTION)


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the fields of a form that is not an upload.

    Only UTF-8 is accepted: some of Python's codecs take minutes for a body of 1 MB.
    """
    kind, _, options = request.headers.get("content-type", FORM).lower().partition(";")
    if kind.strip() != FORM or options.strip() not in _IN_UTF8:
        message = f"the form's content type is not supported; expected {FORM} in UTF-8"
        raise ApiError(415, message, "unsupported_type", "Content-Type", CLOSE_CONNECTION)
    body = await request.body()
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        expected = f"at most {_MAX_FIELDS} fields in UTF-8"
        raise InputError("body", "is not a valid form", expected) from None
    return dict(pairs)


def check_origin(request: Request) -> None:
    """Check that a form was sent from a page of this service; raise 403 otherwise.

    Browsers send the header Sec-Fetch-Site, or older ones Origin.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin", "")
    host = request.headers.get("host")
    is_same = site == "same-origin" if site else bool(host) and _host_of(origin) == host
    if not is_same:
        raise ApiError(403, "the form was sent from another site", "forbidden")


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def to_sign_in(request: Request) -> Response:
    """Redirect to the sign-in page, which leads back to this one."""
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
    """Return the session id from the cookie, or "".

    Python's own parser takes seconds for a quoted cookie of 60 kB.
    """
    for header in request.headers.getlist("cookie"):
        for pair in header.split(";"):
            name, _, value = pair.partition("=")
            if name.strip() == COOKIE:
                return value.strip()
    return ""


def visit_of(request: Request) -> PageRequest | None:
    """Return the request of a signed-in user, which counts for its key; None for a stranger's."""
    context: PageContext = request.app.state.context
    signed_in = context.sessions.get(cookie_of(request))
    if signed_in is None:
        return None
    session, who = signed_in
    count_request(request.scope, context.service, who)
    return PageRequest(request, context, session, who)


async def form_values(visit: PageRequest) -> dict[str, str]:
    """Return the fields of a form that are not empty, without the CSRF token."""
    fields = await read_form(visit.request)
    return {name: text.strip() for name, text in fields.items() if text.strip() and name != TOKEN}


# Without the slash there is one redirect more.
_HOME = f"{ROOT}/"
# A path below the page. Two slashes would start a host name; `_next` rejects them.
_NEXT = re.compile(rf"{ROOT}/[A-Za-z0-9._~/%?=&+-]{{0,500}}")


async def sign_in_form(request: Request) -> Response:
    """Show the sign-in form."""
    context: PageContext = request.app.state.context
    if context.sessions.get(cookie_of(request)) is not None:
        return RedirectResponse(_HOME, 303)
    return render_page("sign_in.html", next=_next(request.query_params.get("next")), wrong=None)


async def sign_in(request: Request) -> Response:
    """Open a session with a key."""
    context: PageContext = request.app.state.context
    check_origin(request)
    form = await read_form(request)
    place, secret = _next(form.get("next")), form.get("key", "").strip()
    who = context.service.accounts.authenticate(secret)
    if who is None:
        return _refuse(request, place)
    count_request(request.scope, context.service, who)
    context.sessions.delete(cookie_of(request))
    answer = RedirectResponse(place, 303)
    answer.set_cookie(
        COOKIE,
        context.sessions.create(who),
        path=ROOT,
        secure=_is_over_tls(request),
        httponly=True,
        samesite="strict",
    )
    return answer


def _refuse(request: Request, place: str) -> Response:
    """Reject an invalid key, and limit the rate of these.

    A valid key is always accepted: keys are 240 random bits, so the limit only saves work, and many
    users can share the address of a proxy.
    """
    context: PageContext = request.app.state.context
    wait = context.sign_ins.acquire(request.client.host if request.client is not None else "")
    if wait > 0:
        wrong = f"Too many attempts; wait {math.ceil(wait)} s."
        answer = render_page("sign_in.html", 429, next=place, wrong=wrong)
        answer.headers.update(retry_after(wait))
        return answer
    return render_page("sign_in.html", 401, next=place, wrong="That key is not valid.")


def _is_over_tls(request: Request) -> bool:
    # The origin was checked; the scheme comes from a trusted proxy.
    return "https" in (request.headers.get("origin", "").partition(":")[0], request.url.scheme)


async def sign_out(visit: PageRequest) -> Response:
    """Close the session."""
    visit.context.sessions.delete(cookie_of(visit.request))
    answer = RedirectResponse(f"{ROOT}/sign-in", 303)
    answer.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
    return answer


def _next(place: str | None) -> str:
    if place is None or not _NEXT.fullmatch(place):
        return _HOME
    steps = unquote(place.partition("?")[0]).split("/")[1:]
    # Browsers resolve dots, also %2e.
    if "//" in place or any(step in (".", "..") for step in steps):
        return _HOME
    return place
