"""auctune.toml, read and checked; `auctune init` writes a commented one."""

import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints

from auctune.domain import InputError, parse_money
from auctune.schema import STRICT, check_schema

_MOST = 10**9
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Amount = Annotated[Decimal, BeforeValidator(lambda value: parse_money(value, ""))]
Positive = Annotated[float, Field(gt=0, le=_MOST)]
Count = Annotated[int, Field(ge=1, le=_MOST)]
Rate = Annotated[float, Field(ge=0, le=_MOST)]


class LimitsEntry(BaseModel):
    """[limits]: requests and streams of each API key; jobs, files and hooks of each user."""

    model_config = STRICT

    requests_per_second: Positive = 2000.0
    burst: Annotated[float, Field(ge=1, le=_MOST)] = 4000.0
    streams: Count = 20
    open_jobs: Count = 10_000
    upload_bytes: Count = 512 * 1024 * 1024
    files: Count = 10_000
    stored_bytes: Annotated[int, Field(ge=1, le=10**15)] = 50 * 1024**3
    webhooks: Count = 10


class WebhooksEntry(BaseModel):
    """[webhooks]: where the service may send news of jobs."""

    model_config = STRICT

    private_addresses: bool = False
    tries: Annotated[int, Field(ge=1, le=20)] = 8
    first_wait_seconds: Positive = 5.0


class NodeTypeEntry(BaseModel):
    """[zones.node_types.NAME]."""

    model_config = STRICT

    device: str = "cpu"
    profile: str | None = None
    energy_cost: Rate = 0.0


class NodeEntry(BaseModel):
    """[[zones.nodes]]."""

    model_config = STRICT

    id: Name
    type: Name


class VendorEntry(BaseModel):
    """[[zones.vendors]]: the house vendor, who works in a process of ours."""

    model_config = STRICT

    name: Name = "house"
    price: Amount = Decimal(0)
    price_per_row: Amount = Decimal(0)
    seconds: Rate = 0.0
    min_characters: Annotated[int, Field(ge=0)] = 2
    max_characters: Count = 100_000
    languages: list[str] = Field(default_factory=list)
    similarity: float = 0.9


class ZoneEntry(BaseModel):
    """[[zones]]: a base model, its nodes, and how they are sold."""

    model_config = STRICT

    name: Name = "default"
    base: str = "tiny"
    slot_seconds: Positive = 60.0
    slots: Annotated[int, Field(ge=2, le=100_000)] | None = None
    sample_tokens: Positive = 64.0
    dtype: Literal["float32", "bfloat16"] = "float32"
    mode: Literal["fused", "exact"] = "fused"
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    max_length: Count = 512
    share: Annotated[float, Field(gt=0, le=1)] = 0.25
    auction: dict[str, str | int | float] = Field(default_factory=dict)
    node_types: dict[Name, NodeTypeEntry] = Field(
        default_factory=lambda: {"local": NodeTypeEntry()}
    )
    nodes: Annotated[list[NodeEntry], Field(min_length=1)] = Field(
        default_factory=lambda: [NodeEntry(id="local-0", type="local")]
    )
    vendors: list[VendorEntry] = Field(default_factory=lambda: [VendorEntry()])

    @property
    def num_slots(self) -> int:
        """Of the window: a day, but not more slots than suit a search."""
        return self.slots or max(2, min(1440, round(86_400 / self.slot_seconds)))


class ServiceFile(BaseModel):
    """The whole file."""

    model_config = STRICT

    database: str | None = None
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8420
    limits: LimitsEntry = LimitsEntry()
    webhooks: WebhooksEntry = WebhooksEntry()
    zones: Annotated[list[ZoneEntry], Field(min_length=1)] = Field(
        default_factory=lambda: [ZoneEntry()]
    )


def read_service_file(path: Path) -> ServiceFile:
    """The settings in a file.

    Raises:
        InputError: naming the file and the field, for the first thing that is wrong.
    """
    try:
        table: Any = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
        raise InputError(str(path), reason, "a file in TOML, as `auctune init` writes it") from None
    except ValueError as error:
        raise InputError(str(path), f"is not TOML ({error})", "a file in TOML") from None
    found = _beside(check_schema(ServiceFile, table, str(path)), path.parent)
    names = [zone.name for zone in found.zones]
    for index, zone in enumerate(found.zones):
        if zone.name in names[:index]:
            raise InputError(
                f"{path}: zones[{index}].name", f"{zone.name!r} is there twice", "unique names"
            )
        _check_nodes(zone, f"{path}: zones[{index}]")
    return found


def _beside(file: ServiceFile, folder: Path) -> ServiceFile:
    """The same with paths that start where the file lies."""
    zones = []
    for zone in file.zones:
        kinds = {
            name: kind
            if kind.profile is None
            else kind.model_copy(update={"profile": str(folder / kind.profile)})
            for name, kind in zone.node_types.items()
        }
        zones.append(zone.model_copy(update={"node_types": kinds}))
    return file.model_copy(update={"zones": zones})


def _check_nodes(zone: ZoneEntry, place: str) -> None:
    seen: set[str] = set()
    for index, node in enumerate(zone.nodes):
        if node.type not in zone.node_types:
            known = ", ".join(zone.node_types)
            raise InputError(
                f"{place}.nodes[{index}].type", f"{node.type!r} is unknown", f"one of {known}"
            )
        if node.id in seen:
            raise InputError(f"{place}.nodes[{index}].id", f"{node.id!r} is twice", "unique ids")
        seen.add(node.id)
