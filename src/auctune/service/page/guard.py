"""What each request for a page passes: its session, its rate, and where its form came from."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from auctune.domain import InputError
from auctune.service.access.key import Principal, Role
from auctune.service.access.rate import RateLimit
from auctune.service.api.access import check_rate
from auctune.service.api.errors import ApiError
from auctune.service.market import Market
from auctune.service.page.chart_client import ChartClient
from auctune.service.page.sessions import Session, Sessions

COOKIE = "auctune_session"
ROOT = "/page"
SIGN_IN = f"{ROOT}/sign-in"
TOKEN = "csrf"
_IDS = {
    "job": r"ftjob-[A-Za-z0-9]{1,64}",
    "file": r"file-[A-Za-z0-9]{1,64}",
    "entry": r"entry-\d{1,18}",
}


@dataclass(frozen=True, slots=True)
class House:
    """What all pages share.

    Attributes:
        market: that is shown.
        sessions: who is signed in.
        sign_ins: how many may be tried, by address.
        charts: draws.
    """

    market: Market
    sessions: Sessions
    sign_ins: RateLimit
    charts: ChartClient


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of somebody who is signed in.

    Attributes:
        request: as it came.
        house: what all pages share.
        session: of the browser.
        who: is signed in.
    """

    request: Request
    house: House
    session: Session
    who: Principal

    @property
    def market(self) -> Market:
        """That is shown."""
        return self.house.market

    def param(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params[name])

    def asked(self, name: str) -> str | None:
        """A part of the query; none: it is not there, or empty."""
        return self.request.query_params.get(name) or None

    def after(self, kind: str) -> str | None:
        """The last row of the page of a list before this one; none: it is the first.

        Raises:
            InputError: if it is no id of this kind.
        """
        name = self.asked("after")
        if name is not None and not re.fullmatch(_IDS[kind], name):
            raise InputError("after", f"is no id of a {kind}", "an id from the list")
        return name


Page = Callable[[Visit], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


def signed_in(page: Page) -> Endpoint:
    """A page for everybody who brings jobs."""

    async def answer(request: Request) -> Response:
        visit = _visit(request)
        if visit is None:
            return to_sign_in(request)
        return await page(visit)

    return answer


def for_operators(page: Page) -> Endpoint:
    """A page for operators alone."""

    async def checked(visit: Visit) -> Response:
        if not visit.who.is_operator:
            raise ApiError(403, "this is for operators", "forbidden")
        return await page(visit)

    return signed_in(checked)


def posted(page: Page) -> Page:
    """What changes something: asked for from a page of ours, by the session that got it."""

    async def checked(visit: Visit) -> Response:
        check_origin(visit.request)
        # An upload is read as it streams, so its token does not stand in its body.
        token = visit.request.query_params.get(TOKEN)
        if token is None:
            token = str((await visit.request.form()).get(TOKEN, ""))
        if not visit.session.holds(token):
            raise ApiError(403, "the form is of another session; load the page again", "forbidden")
        return await page(visit)

    return checked


def check_origin(request: Request) -> None:
    """That a form was sent from a page of this service.

    Browsers say so themselves: by Sec-Fetch-Site, or where they do not, by Origin.

    Raises:
        ApiError: 403 if it came from elsewhere, or does not say.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin", "")
    host = request.headers.get("host")
    is_ours = site == "same-origin" if site else bool(host) and urlsplit(origin).netloc == host
    if not is_ours:
        raise ApiError(403, "the form was sent from another site", "forbidden")


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
    """The session's id that a browser brought; empty: none."""
    return request.cookies.get(COOKIE, "")


def _visit(request: Request) -> Visit | None:
    house: House = request.app.state.house
    found = house.sessions.find(cookie_of(request))
    if found is None:
        return None
    session, who = found
    request.scope["auctune.who"] = who.key
    check_rate(house.market, who)
    assert who.role is not Role.VENDOR
    return Visit(request, house, session, who)


def form_values(form: Any) -> dict[str, str]:
    """The fields of a form that have something in them."""
    return {
        name: value.strip()
        for name, value in form.multi_items()
        if isinstance(value, str) and value.strip() and name != TOKEN
    }
