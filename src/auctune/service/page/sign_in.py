"""Sign-in with an API key, and sign-out."""

import math
import re
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from auctune.service.accounts.registry import Role
from auctune.service.http.auth import count_request
from auctune.service.http.errors import retry_after
from auctune.service.page.auth import (
    COOKIE,
    PageContext,
    PageRequest,
    check_origin,
    cookie_of,
    read_form,
)
from auctune.service.page.templates import ROOT, render_page

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
    if who.role is Role.VENDOR:
        wrong = "This key is a vendor's; the page is for users and operators."
        return render_page("sign_in.html", 403, next=place, wrong=wrong)
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
