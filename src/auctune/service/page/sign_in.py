"""Signing in with an API key, and out again."""

import re

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from auctune.service.access.key import Role
from auctune.service.page.guard import COOKIE, ROOT, House, Visit, check_origin, cookie_of
from auctune.service.page.look import show_stranger

# A place on this page, and no other site's: two slashes would begin a host's name.
_NEXT = re.compile(rf"{ROOT}/[A-Za-z0-9._~/%?=&+-]{{0,500}}")


async def sign_in_form(request: Request) -> Response:
    """Ask for a key."""
    house: House = request.app.state.house
    if house.sessions.find(cookie_of(request)) is not None:
        return RedirectResponse(ROOT, 303)
    return show_stranger("sign_in.html", next=_next(request.query_params.get("next")), wrong=None)


async def sign_in(request: Request) -> Response:
    """Open a session for whoever has a key."""
    house: House = request.app.state.house
    check_origin(request)
    form = await request.form()
    place, secret = _next(form.get("next")), form.get("key")
    address = request.client.host if request.client is not None else ""
    wait = house.sign_ins.take(address)
    if wait > 0:
        wrong = f"Too many tries; wait {wait:.0f} s."
        return show_stranger("sign_in.html", 429, next=place, wrong=wrong)
    who = house.market.directory.principal(secret.strip()) if isinstance(secret, str) else None
    if who is None:
        return show_stranger("sign_in.html", 401, next=place, wrong="This is no valid key.")
    if who.role is Role.VENDOR:
        wrong = "This key is a vendor's; the page is for users and operators."
        return show_stranger("sign_in.html", 403, next=place, wrong=wrong)
    request.scope["auctune.who"] = who.key
    house.sessions.end(cookie_of(request))
    answer = RedirectResponse(place, 303)
    answer.set_cookie(
        COOKIE,
        house.sessions.begin(who),
        path=ROOT,
        # A proxy may speak TLS for the service; the browser knows.
        secure=request.headers.get("origin", "").startswith("https://"),
        httponly=True,
        samesite="strict",
    )
    return answer


async def sign_out(visit: Visit) -> Response:
    """Close the session."""
    visit.house.sessions.end(cookie_of(visit.request))
    answer = RedirectResponse(f"{ROOT}/sign-in", 303)
    answer.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
    return answer


def _next(place: object) -> str:
    if isinstance(place, str) and _NEXT.fullmatch(place) and "//" not in place:
        return place
    return ROOT
