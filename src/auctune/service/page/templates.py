"""Jinja2 templates of the page and their filters, with the components of `auctune.pages`."""

import re
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from auctune.domain.job_words import is_overdue, loss_text, reason_words, state_word
from auctune.pages import NOTHING, make_environment, percent
from auctune.service.accounts.registry import Principal
from auctune.service.config.models import CREDITS
from auctune.service.zones.core.sections import Cell, Column

ROOT = "/page"
# Labels of the form for a new job, by field of the request.
_LABELS = {
    "market.target_loss": "Loss to reach",
    "market.deadline": "Deadline",
    "market.max_cost": "Cap",
    "market.bid": "Bid",
    "market.value": "Value of the job if on time",
    "market.risk": "Accepted risk of being late",
    "market.sites": "Data at sites",
    "market.share": "Maximum share of a node",
    "market.repair": "Have the data repaired",
    "market.lora.rank": "LoRA rank",
    "market.lora.alpha": "LoRA alpha",
    "market.lora.dropout": "Dropout",
    "market.lora.max_length": "Maximum row length, in tokens",
    "market.zone": "Where",
    "hyperparameters.n_epochs": "Epochs",
    "hyperparameters.batch_size": "Batch size",
    "training_file": "Data",
    "validation_file": "Validation data",
}
_FIELD = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in _LABELS))
_SIZES = ("bytes", "kB", "MB", "GB", "TB")
_SPANS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def short_id(name: str) -> str:
    """Return the prefix and first characters of an id, for headings and axes."""
    kind, _, rest = name.partition("-")
    return f"{kind}-{rest[:6]}" if rest else name[:12]


def name_of(job: Mapping[str, Any]) -> str:
    """Return the name of a job or of an operator's view of it, or else its short id."""
    name = str(job.get("name") or (job.get("metadata") or {}).get("name") or "")
    return name[:64] or short_id(job["job"] if "job" in job else job["id"])


def status_of(job: Mapping[str, Any]) -> str:
    """Return the state of a job in words."""
    return state_word(job["market"]["state"])


def plain(name: str) -> str:
    """Return a field name of the API as words."""
    return name.replace("_", " ")


def in_form(text: str) -> str:
    """Replace field names in an error message by the labels of the form."""
    return _FIELD.sub(lambda match: f'"{_LABELS[match[0]]}"', text)


def sentence(text: str) -> str:
    """Return a message with a capital letter and a full stop."""
    ended = text if text.endswith((".", "!", "?")) else f"{text}."
    return ended[:1].upper() + ended[1:]


def size_text(count: int) -> str:
    """Return a size in bytes as text, such as 1.5 MB."""
    value, power = float(count), 0
    while value >= 1000 and power < len(_SIZES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.3g} {_SIZES[power]}"


def span_text(seconds: float) -> str:
    """Return a duration in its two largest units, such as 2 h 5 min."""
    remaining = round(seconds)
    parts: list[str] = []
    for length, unit in _SPANS:
        if remaining >= length and len(parts) < 2:
            parts.append(f"{remaining // length} {unit}")
            remaining %= length
    return " ".join(parts) or "0 s"


def moment(time: float | None) -> Markup:
    """Return unix time as a `time` element, which a script converts to local time."""
    if time is None:
        return Markup(NOTHING)
    at = datetime.fromtimestamp(int(time), UTC)
    text = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(), text)


def cell_text(value: Cell, column: Column) -> str | Markup:
    """Return a value of a section's table as text."""
    match column.format, value:
        case _, None:
            return NOTHING
        case "time", int() | float():
            return moment(value)
        case "share", int() | float():
            return percent(value)
        case "number", float():
            return f"{value:.4g}"
    return str(value)


def unit_of(currency: str) -> str:
    """Return the unit of amounts by the code of their currency; XXX is that of credits."""
    return "credits" if currency == CREDITS else currency


def paid(market: Mapping[str, Any]) -> str | None:
    """Return the payment of a job, its cost so far if it is metered, or 0 if it was refunded."""
    if market.get("refunded"):
        return "0"
    metered = market.get("metered")
    if metered is not None and market.get("decision") == "admitted":
        return str(metered["cost"])
    amount: str | None = market.get("payment")
    return amount


def most(market: Mapping[str, Any]) -> str | None:
    """Return the most that a job can cost: its bid, or the cap of a metered job."""
    metered = market.get("metered")
    amount: str | None = market.get("bid") if metered is None else metered["max_cost"]
    return amount


_FILTERS: dict[str, Callable[..., Any]] = {
    "short": short_id,
    "called": name_of,
    "status": status_of,
    "state": state_word,
    "loss": loss_text,
    "in_form": in_form,
    "sentence": sentence,
    "plain": plain,
    "reason": reason_words,
    "size": size_text,
    "span": span_text,
    "moment": moment,
    "cell": cell_text,
    "paid": paid,
    "most": most,
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
