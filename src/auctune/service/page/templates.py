"""Jinja2 templates of the page, with the components of `auctune.pages`."""

import secrets
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from auctune.domain.job_words import is_overdue, loss_text, reason_words, state_word
from auctune.pages import make_environment
from auctune.service.page import filters
from auctune.service.page.auth import ROOT, PageContext, PageRequest, cookie_of

_FILTERS: dict[str, Callable[..., Any]] = {
    "short": filters.short_id,
    "called": filters.name_of,
    "status": filters.status_of,
    "state": state_word,
    "loss": loss_text,
    "in_form": filters.in_form,
    "sentence": filters.sentence,
    "plain": filters.plain,
    "reason": reason_words,
    "size": filters.size_text,
    "span": filters.span_text,
    "moment": filters.moment,
    "cell": filters.cell_text,
    "paid": filters.paid,
    "most": filters.most,
}

_TEMPLATES = make_environment("auctune.service.page", _FILTERS)
_TEMPLATES.globals.update(root=ROOT, is_overdue=is_overdue, once=lambda: secrets.token_urlsafe(16))


def render(visit: PageRequest, template: str, status: int = 200, **values: Any) -> Response:
    """Render a page for a signed-in user."""
    unit = filters.unit_of(visit.service.billing.currency)
    return _page(template, status, who=visit.who, csrf=visit.session.token, unit=unit, **values)


def render_anonymous(template: str, status: int = 200, **values: Any) -> Response:
    """Render a page for a visitor who is not signed in."""
    return _page(template, status, who=None, csrf="", **values)


def render_error(request: Request, status: int, message: str) -> Response:
    """Render an error page."""
    context: PageContext = request.app.state.context
    signed_in = context.sessions.get(cookie_of(request))
    title = {403: "Not allowed", 404: "Not found", 429: "Too many requests"}.get(
        status, "That did not work" if status < 500 else "Not now"
    )
    values = {"title": title, "message": message}
    if signed_in is None:
        return render_anonymous("error.html", status, **values)
    return render(PageRequest(request, context, *signed_in), "error.html", status, **values)


def _page(template: str, status: int, **values: Any) -> Response:
    return HTMLResponse(_TEMPLATES.get_template(template).render(values), status)


def render_part(template: str, **values: Any) -> str:
    """Render a part of a page."""
    return _TEMPLATES.get_template(template).render(values)


def style_sheet() -> str:
    """Return the style sheet of the page: that of all HTML, and rules of its own."""
    return _TEMPLATES.get_template("page.css").render()
