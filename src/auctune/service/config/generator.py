"""Generate the commented auctune.toml of `auctune init`, and the tables of its reference page.

Both come from the fields of the models: their descriptions, defaults and examples.
Descriptions are Markdown, with links from the reference page. A field whose default is None needs
`examples`: TOML has no None.

    python -m auctune.service.config.generator docs/reference/auctune-toml.md

rewrites the tables of the page in place.
"""

import json
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from auctune.engine.runtime.ray.params import RayParams
from auctune.service.accounts.registry import DefaultTerms
from auctune.service.config.auction import AuctionConfig, NodeConfig, NodeTypeConfig
from auctune.service.config.edge import EdgeConfig, PricingConfig, SiteConfig
from auctune.service.config.inference import InferenceConfig, VllmConfig
from auctune.service.config.models import (
    FIRST_TERMS,
    BillingConfig,
    KeyConfig,
    LimitsConfig,
    ServiceConfig,
    UserConfig,
    WebhooksConfig,
)
from auctune.service.config.spot import SpotConfig, SpotRayConfig
from auctune.service.config.timeshare import TimeshareConfig
from auctune.service.config.vendors import BuiltinVendorConfig, VendorConfig
from auctune.service.config.wandb import WandbConfig
from auctune.service.config.zone import LanguageZoneConfig

_WIDTH = 100

TABLES: dict[str, type[BaseModel]] = {
    "The file": ServiceConfig,
    "[limits]": LimitsConfig,
    "[webhooks]": WebhooksConfig,
    "[default_terms]": DefaultTerms,
    "[inference]": InferenceConfig,
    "[inference.vllm]": VllmConfig,
    "[wandb]": WandbConfig,
    "[billing]": BillingConfig,
    "[[zones]]": AuctionConfig,
    "[[zones]] of kind spot": SpotConfig,
    "[[zones]] of kind timeshare": TimeshareConfig,
    "[[zones]] of kind edge": EdgeConfig,
    "[[zones.sites]]": SiteConfig,
    "[zones.pricing]": PricingConfig,
    "[zones.node_types.NAME]": NodeTypeConfig,
    "[[zones.nodes]]": NodeConfig,
    "[zones.ray] of kind spot": SpotRayConfig,
    "[zones.ray]": RayParams,
    "[zones.builtin_vendor]": BuiltinVendorConfig,
    "[[zones.vendors]]": VendorConfig,
    "[[users]]": UserConfig,
    "[[keys]]": KeyConfig,
}
"""Headings of the reference page, each with the model of its table."""


@dataclass(frozen=True, slots=True)
class _Section:
    """A table of the template.

    Attributes:
        header: line that opens the table; empty for the top level.
        model: its fields are the keys.
        text: comment above the header.
        values: keys that are set, and to what; all others are commented out.
        names: keys to show; None: all keys that are not tables.
        is_left_out: whether the whole table is commented out.
    """

    header: str
    model: type[BaseModel]
    text: str
    values: dict[str, object]
    names: tuple[str, ...] | None = None
    is_left_out: bool = False


def _own_keys(model: type[BaseModel], *shown: str) -> tuple[str, ...]:
    shared = LanguageZoneConfig.model_fields.keys() - {"kind", *shown}
    return tuple(name for name in model.model_fields if name not in shared)


_SECTIONS = (
    _Section(
        "",
        ServiceConfig,
        "Settings of an auctune service. Start it with: auctune serve --config auctune.toml\n\n"
        "A line such as this one is a comment. A line that begins with '#' and a key is a setting "
        "that is left out, with its default, or with an example where the comment says so.\n\n"
        "The first zone below is an auction. Zones of other kinds follow it, left out: remove the "
        "'#' from a table and its keys. docs/reference/auctune-toml.md lists all keys.",
        {"host": "127.0.0.1", "port": 8420},
    ),
    _Section("[limits]", LimitsConfig, "Limits of API keys, of users and of the machine.", {}),
    _Section(
        "[webhooks]",
        WebhooksConfig,
        "Webhooks: requests to URLs that users register, sent when a job ends.",
        {},
    ),
    _Section(
        "[default_terms]",
        DefaultTerms,
        "Terms of requests that do not state them, such as those of scripts for OpenAI's "
        "fine-tuning; users, teams and keys may have others. A job pays its price, never more than "
        "its bid.",
        {"bid": f"{FIRST_TERMS.bid:.2f}", "deadline": FIRST_TERMS.deadline},
    ),
    _Section(
        "[inference]",
        InferenceConfig,
        "Answers of the zones' bases and of users' fine-tuned models.",
        {},
    ),
    _Section(
        "[wandb]",
        WandbConfig,
        "Weights & Biases: jobs are logged there as the integrations of their requests say. With "
        "one of the first three keys; it needs the package wandb.",
        {},
    ),
    _Section(
        "[billing]",
        BillingConfig,
        "Files with the costs of users and teams: auctune ledger export --focus.",
        {},
    ),
    _Section(
        "[[zones]]",
        AuctionConfig,
        "A zone sells the nodes of one base model. A request names its zone, or its model; among "
        "several zones with that model the cheapest one is chosen. More zones are more [[zones]] "
        "tables.",
        {"name": "default", "base": "tiny", "slot_seconds": 60.0},
    ),
    _Section(
        "[zones.node_types.local]",
        NodeTypeConfig,
        "A type of nodes, named local; more types are more tables.",
        {},
    ),
    _Section(
        "[[zones.nodes]]",
        NodeConfig,
        "Nodes: each is a process, on this machine or on a cluster.",
        {"id": "local-0", "type": "local"},
    ),
    _Section(
        "[zones.builtin_vendor]",
        BuiltinVendorConfig,
        "The vendor in a process of the service, which repairs data for bids that ask for it.",
        {},
    ),
    _Section(
        "[[zones.vendors]]",
        VendorConfig,
        "External vendors, reached over HTTP; each is one more [[zones.vendors]] table. Users' "
        "data are sent to them if a bid asks for repair. See docs/how-to/run-a-vendor.md.",
        {"name": "mender", "url": "http://127.0.0.1:8900"},
        is_left_out=True,
    ),
    _Section(
        "[[zones]]",
        SpotConfig,
        "A zone that rents: jobs run on instances that come and go with their price. They are "
        "charged what they use, up to a cap. The market is a recording that is replayed. The keys "
        "base, dtype, threads, cores, max_length, measure_seconds and gradient_checkpointing are "
        "those of the auction.",
        {"kind": "spot", "name": "rented"},
        _own_keys(SpotConfig, "name", "slot_seconds"),
        is_left_out=True,
    ),
    _Section(
        "[[zones]]",
        TimeshareConfig,
        "A pool that jobs share, each trained to a target loss by its deadline and charged by the "
        "second. The keys base, dtype, threads, cores, max_length, measure_seconds and "
        "gradient_checkpointing are those of the auction.",
        {"kind": "timeshare", "name": "pool"},
        _own_keys(TimeshareConfig, "name", "slot_seconds"),
        is_left_out=True,
    ),
    _Section(
        "[[zones]]",
        EdgeConfig,
        "Sites whose rows stay there: a job trains an adapter where its rows are, for a price that "
        "is known at once. The keys base, dtype, threads, cores, "
        "max_length, measure_seconds and gradient_checkpointing are those of the auction.",
        {"kind": "edge", "name": "sites"},
        _own_keys(EdgeConfig, "name", "slot_seconds"),
        is_left_out=True,
    ),
    _Section(
        "[[users]]",
        UserConfig,
        "First users and API keys. They are added if they do not exist yet; after that auctune "
        "users, auctune teams and auctune keys change them. With an operator's key here the "
        "service does not create a first key.",
        {"name": "ada"},
        is_left_out=True,
    ),
    _Section(
        "[[keys]]",
        KeyConfig,
        "A key: exactly one of its SHA-256, a variable and a file, with 32 random characters or "
        "more.",
        {"user": "ada"},
        is_left_out=True,
    ),
)

# Parameters of a mechanism are not fields of a model.
_MECHANISM = """\
# The mechanism and its parameters, as of auctune simulate --set. With "learned" prices, the
# default, the first bids of a new zone are cheap; "exponential" rises from the low to the high
# price as a slot fills, in money for a sample of work, and for a GB of memory in a slot.
[zones.auction]
mechanism = "pdftsp"
#pricing = "exponential"
#compute_low = 0.0005
#compute_high = 0.004
#memory_low = 0.01
#memory_high = 1.0
"""


def template() -> str:
    """Return a commented auctune.toml with all settings, as `auctune init` writes it."""
    parts, explained = [], set[str]()
    for section in _SECTIONS:
        parts.append("\n".join(_section_lines(section, explained)) + "\n")
        if section.model is AuctionConfig:
            parts.append(_MECHANISM)
    return "\n".join(parts)


def _section_lines(section: _Section, explained: set[str]) -> Iterator[str]:
    for paragraph in section.text.split("\n\n"):
        yield from _comment(paragraph)
        if not section.header:
            yield ""
    if section.header:
        yield f"{'#' if section.is_left_out else ''}{section.header}"
    for name, info in section.model.model_fields.items():
        # The mechanism has a section of its own.
        if name not in section.names if section.names else _is_table(info) or name == "auction":
            continue
        text = _sentence(info.description or "")
        is_set = name in section.values
        examples = [] if is_set or info.is_required() else info.examples or []
        # Keys that several kinds share are explained once.
        if examples:
            yield from _comment(f"{text} {'Examples' if len(examples) > 1 else 'Example'}:")
        elif text not in explained:
            yield from _comment(text)
        explained.add(text)
        sign = "" if is_set and not section.is_left_out else "#"
        for value in examples or [_shown_value(section, name, info)]:
            yield f"{sign}{name} = {to_toml(value)}"


def _shown_value(section: _Section, name: str, info: FieldInfo) -> object:
    if name in section.values:
        return section.values[name]
    if info.is_required():
        return (info.examples or [""])[0]
    return info.get_default(call_default_factory=True)


def _sentence(description: str) -> str:
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", description).replace("`", "")
    # A description that begins with a value keeps its case.
    is_word = re.match(r"[a-z]+[ ,.;:-]", text) and not description.startswith("`")
    return f"{text[0].upper() if is_word else text[:1]}{text[1:]}."


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(text, _WIDTH - 2, break_long_words=False, break_on_hyphens=False):
        yield f"# {line}"


def reference_table(model: type[BaseModel]) -> str:
    """Return the table of the reference page for a model, in Markdown.

    Keys that all kinds of zones share are in the table of the auction alone.
    """
    rows = ["| key | default | meaning |", "| --- | --- | --- |"]
    is_shared = issubclass(model, LanguageZoneConfig) and model is not AuctionConfig
    for name in _own_keys(model) if is_shared else model.model_fields:
        info = model.model_fields[name]
        rows.append(f"| `{name}` | {_default_cell(info)} | {info.description} |")
    return "\n".join(rows) + "\n"


def update_page(text: str) -> str:
    """Return the reference page with the first table under each heading of `TABLES` generated."""
    for heading, model in TABLES.items():
        # The heading, text without headings and tables, and the table.
        pattern = rf"^#+ {re.escape(heading)}\n(?:(?![|#]).*\n)*((?:\|.*\n)+)"
        found = re.search(pattern, text, re.MULTILINE)
        assert found is not None, f"no table under {heading!r}"
        text = text[: found.start(1)] + reference_table(model) + text[found.end(1) :]
    return text


def _default_cell(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    if _is_table(info):
        return "below"
    default = info.get_default(call_default_factory=True)
    return "none" if default is None else f"`{to_toml(default)}`"


def _is_table(info: FieldInfo) -> bool:
    """Return whether a field is a table, or a list of tables, with a section of its own."""
    default = info.get_default(call_default_factory=True)
    return default is not None and _has_model(info.annotation)


def _has_model(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return True
    return any(_has_model(one) for one in get_args(annotation))


def to_toml(value: object) -> str:
    """Format a value as TOML, on one line."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return f"{value:_}" if value >= 10_000 else str(value)
        case float():
            return repr(value)
        case str() | Decimal():
            return json.dumps(str(value))
        case BaseModel():
            return to_toml(value.model_dump())
        case dict():
            pairs = ", ".join(f"{_to_key(key)} = {to_toml(one)}" for key, one in value.items())
            return f"{{ {pairs} }}" if pairs else "{}"
        case list():
            return f"[{', '.join(map(to_toml, value))}]"
    raise TypeError(f"no TOML for {type(value).__name__}")


def _to_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(update_page(page.read_text()))
