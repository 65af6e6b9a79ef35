"""Jinja2 templates of the page, with the components of `auctune.pages`."""

import secrets
from collections.abc import Callable
from typing import Any

from starlette.responses import HTMLResponse, Response

from auctune.domain.job_words import is_overdue, loss_text, reason_words, state_word
from auctune.pages import make_environment
from auctune.service.accounts.registry import Principal
from auctune.service.page import filters

ROOT = "/page"
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


def render_page(
    template: str, status: int = 200, *, who: Principal | None = None, **values: Any
) -> Response:
    """Render a page for a user, or for a visitor who is not signed in."""
    return HTMLResponse(render_part(template, who=who, **values), status)


def render_part(template: str, **values: Any) -> str:
    """Render a part of a page."""
    return _TEMPLATES.get_template(template).render(values)


def style_sheet() -> str:
    """Return the style sheet of the page: that of all HTML, and rules of its own."""
    return _TEMPLATES.get_template("page.css").render()
