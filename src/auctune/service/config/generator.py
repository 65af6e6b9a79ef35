"""The auctune.toml of `auctune init`, and the tables of its reference page.

The tables come from the fields of the models, whose descriptions are Markdown with links from the
page.

    python -m auctune.service.config.generator docs/reference/auctune-toml.md

rewrites the tables of the page in place.
"""

import json
import re
import sys
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from auctune.service.accounts.registry import DefaultTerms
from auctune.service.config.auction import AuctionConfig, NodeConfig, NodeTypeConfig
from auctune.service.config.edge import EdgeConfig, PricingConfig, SiteConfig
from auctune.service.config.fixed_values import FIXED_VALUES
from auctune.service.config.inference import InferenceConfig, VllmConfig
from auctune.service.config.models import (
    CREDITS,
    BillingConfig,
    FilesConfig,
    KeyConfig,
    LimitsConfig,
    ServiceConfig,
    UserConfig,
    WebhooksConfig,
)
from auctune.service.config.spot import SpotConfig
from auctune.service.config.timeshare import TimeshareConfig
from auctune.service.config.vendors import BuiltinVendorConfig, VendorConfig
from auctune.service.config.wandb import WandbConfig
from auctune.service.config.zone import LanguageZoneConfig

TABLES: dict[str, type[BaseModel]] = {
    "The file": ServiceConfig,
    "[limits]": LimitsConfig,
    "[files]": FilesConfig,
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
    "[zones.builtin_vendor]": BuiltinVendorConfig,
    "[[zones.vendors]]": VendorConfig,
    "[[users]]": UserConfig,
    "[[keys]]": KeyConfig,
}
"""Headings of the reference page, each with the model of its table."""


@dataclass(frozen=True, slots=True)
class StarterAnswers:
    """What a first operator chooses.

    Attributes:
        devices: "cpu" alone, or GPUs of this machine such as "cuda:0", each with a node.
        base: as auctune.toml names it.
        slot_seconds: length of a slot.
        currency: code of ISO 4217; XXX: credits.
    """

    devices: tuple[str, ...] = ("cpu",)
    base: str = "tiny"
    slot_seconds: float = 60.0
    currency: str = CREDITS


_STARTER_FILE = """\
# Settings of an auctune service. Start it with: auctune serve --config auctune.toml
# docs/reference/auctune-toml.md lists all keys and the other kinds of zones. A line that begins
# with '#' and a key or a table is left out: remove the '#' to set it.

# Beyond this machine a proxy with TLS has to be in front: trusted_proxies = ["127.0.0.1"].
host = "127.0.0.1"
port = 8420

# Currency of all amounts, as its code of ISO 4217; XXX: credits.
[billing]
currency = {currency}

# Terms of requests that state none. A job pays its price, never more than its bid.
[default_terms]
bid = "10.00"
deadline = "+4h"

# A zone sells the nodes of one base model; each further zone is one more [[zones]] table.
[[zones]]
name = "default"
# "tiny" (a toy model that is built on this machine), a folder, or a model on the hub: "ORG/NAME".
base = {base}
# Length of a slot, long compared with the time to load an adapter: minutes for a real base.
slot_seconds = {slot_seconds}
# Number type of the base's weights: "float32", "bfloat16", or "nf4", 4 bits a number.
dtype = {dtype}

# Without a minimum price the first bids of a new zone are cheap: prices are learned from bids.
#[zones.auction]
#pricing = "exponential"
{nodes}
# First users, and what each may spend in 30 days; later `auctune users` and `auctune keys` do it.
#[[users]]
#name = "ada"
#budget = "100.00"
"""

_NODE = """
# A type of nodes, named {name}, and its device: "cpu", "cuda" or "cuda:N".
[zones.node_types.{name}]
device = {device}
# Cost of the energy of a slot at full load; a bid that pays less than its energy is rejected.
energy_cost = 0.0

# Each node is a process; a GPU takes one.
[[zones.nodes]]
id = "{name}-0"
type = "{name}"
"""


def starter_file(answers: StarterAnswers) -> str:
    """Return the auctune.toml that `auctune init` writes."""
    on_gpu = answers.devices != ("cpu",)
    dtype = "bfloat16" if on_gpu and answers.base != "tiny" else "float32"
    nodes = "".join(
        _NODE.format(
            name="local" if device == "cpu" else device.replace("cuda:", "gpu"),
            device=to_toml(device),
        )
        for device in answers.devices
    )
    return _STARTER_FILE.format(
        currency=to_toml(answers.currency),
        base=to_toml(answers.base),
        slot_seconds=to_toml(answers.slot_seconds),
        dtype=to_toml(dtype),
        nodes=nodes,
    )


def reference_table(model: type[BaseModel]) -> str:
    """Return the table of the reference page for a model, in Markdown.

    Keys that all kinds of zones share are in the table of the auction alone.
    """
    rows = ["| key | default | meaning |", "| --- | --- | --- |"]
    is_shared = issubclass(model, LanguageZoneConfig) and model is not AuctionConfig
    for name, info in model.model_fields.items():
        if is_shared and name in LanguageZoneConfig.model_fields:
            continue
        rows.append(f"| `{name}` | {_default_cell(info)} | {info.description} |")
    return "\n".join(rows) + "\n"


def update_page(text: str) -> str:
    """Return the reference page with the first table under each heading generated."""
    tables = {heading: reference_table(model) for heading, model in TABLES.items()}
    for heading, table in {**tables, "Fixed values": _fixed_table()}.items():
        # The heading, text without headings and tables, and the table.
        pattern = rf"^#+ {re.escape(heading)}\n(?:(?![|#]).*\n)*((?:\|.*\n)+)"
        found = re.search(pattern, text, re.MULTILINE)
        assert found is not None, f"no table under {heading!r}"
        text = text[: found.start(1)] + table + text[found.end(1) :]
    return text


def _fixed_table() -> str:
    rows = ["| former key | value | meaning |", "| --- | --- | --- |"]
    rows += [f"| `{key}` | {value} | {text} |" for key, (value, text) in FIXED_VALUES.items()]
    return "\n".join(rows) + "\n"


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
            return json.dumps(str(value), ensure_ascii=False)
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
