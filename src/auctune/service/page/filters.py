"""Template filters: states, spans, sizes and times in words."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from markupsafe import Markup

from auctune.domain.job_words import state_word

# Fields of a request, as the form for a new job calls them.
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
NOTHING = "\N{EN DASH}"
"""Stands where there is no value."""
_SIZES = ("bytes", "kB", "MB", "GB", "TB")
_SPANS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def short_id(name: str) -> str:
    """An id for a heading or an axis: its kind and its beginning."""
    kind, _, rest = name.partition("-")
    return f"{kind}-{rest[:6]}" if rest else name[:12]


def name_of(job: Mapping[str, Any]) -> str:
    """What its owner calls a job, by `name` in its metadata; else the beginning of its id."""
    name = str((job.get("metadata") or {}).get("name") or "")
    return name[:64] or short_id(job["id"])


def status_of(job: Mapping[str, Any]) -> str:
    """Where a job stands, in a word or two."""
    return state_word(job["market"]["state"])


def plain(name: str) -> str:
    """A name of the API as words."""
    return name.replace("_", " ")


def in_form(text: str) -> str:
    """What the API says of a request, with its fields as the form calls them."""
    return _FIELD.sub(lambda found: f'"{_LABELS[found[0]]}"', text)


def sentence(text: str) -> str:
    """What the API says in passing, with a capital and a full stop."""
    ended = text if text.endswith((".", "!", "?")) else f"{text}."
    return ended[:1].upper() + ended[1:]


def size_text(count: int) -> str:
    """Bytes, in thousands."""
    value, power = float(count), 0
    while value >= 1000 and power < len(_SIZES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.3g} {_SIZES[power]}"


def span_text(seconds: float) -> str:
    """A span in its two largest units."""
    left = round(seconds)
    parts: list[str] = []
    for length, unit in _SPANS:
        if left >= length and len(parts) < 2:
            parts.append(f"{left // length} {unit}")
            left %= length
    return " ".join(parts) or "0 s"


def moment(time: float | None) -> Markup:
    """A moment of unix time; browsers put it into their own zone's."""
    if time is None:
        return Markup(NOTHING)
    at = datetime.fromtimestamp(int(time), UTC)
    text = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}">{}</time>').format(at.isoformat(), text)


def money(amount: str | None) -> str:
    """An amount with two decimals, or with the four that it has."""
    if amount is None:
        return NOTHING
    text = f"{Decimal(amount):.4f}"
    return text.removesuffix("00")


def percent(share: float) -> str:
    """A share of 0 to 1."""
    return f"{share:.0%}"


def paid(market: Mapping[str, Any]) -> str | None:
    """What a job pays: its price, or what it has cost so far; 0 once that was refunded."""
    if market.get("refunded"):
        return "0"
    metered = market.get("metered")
    if metered is not None and market.get("decision") == "admitted":
        return str(metered["cost"])
    amount: str | None = market.get("payment")
    return amount


def most(market: Mapping[str, Any]) -> str | None:
    """What its owner would pay at most: the bid, or the cap of what is metered."""
    metered = market.get("metered")
    amount: str | None = market.get("bid") if metered is None else metered["max_cost"]
    return amount
