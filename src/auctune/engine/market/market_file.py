"""The market file: one TOML file that says what is offered, by whom, and on which nodes.

docs/reference/market-file.md lists all keys. Here they are read and checked, each by itself and
against the others; whatever needs the base model or the data comes later (supply, demand).
"""

import re
import tomllib
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from auctune.domain import InputError, Money, parse_money
from auctune.domain.base_name import BaseDtype
from auctune.domain.dataset import RowKind
from auctune.domain.start_adapter import StartAdapter
from auctune.engine.runtime.ray.params import RayParams, Resource, check_ray
from auctune.engine.vendors import RepairParams
from auctune.files.device_profile import physical_devices
from auctune.files.schema import (
    STRICT,
    CheckpointInterval,
    NumDevices,
    Texts,
    check_schema,
    hyperparameters_of,
    with_hyperparameters,
)
from auctune.train.job import LoraJob

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME_EXPECTED = "1 to 64 letters, digits, '.', '_' or '-', the first a letter or digit"


def _name(value: Any) -> Any:
    # Names become folders.
    if isinstance(value, str) and not _NAME.fullmatch(value):
        raise InputError("", f"{value!r}", _NAME_EXPECTED)
    return value


def _money(value: Any) -> Money:
    return parse_money(value, "")


def _kind(value: Any) -> Any:
    return RowKind(value) if value in set(RowKind) else value


# What users of PEFT may look for here, by the names that it has there.
_NOT_SUPPORTED = {
    "use_dora": "DoRA",
    "modules_to_save": "training of whole modules",
    "load_in_8bit": "a quantized base",
    "load_in_4bit": 'a base of 4 bits but by dtype = "nf4"',
}

Name = Annotated[str, BeforeValidator(_name)]
Amount = Annotated[Decimal, BeforeValidator(_money)]
Kind = Annotated[RowKind, BeforeValidator(_kind)]
Backend = Literal["auto", "triton", "grouped", "bmm", "loop"]
# Far above any real market, and small enough that sums of products stay numbers.
_MOST = 10**9
Whole = Annotated[int, Field(ge=0, le=_MOST)]
Positive = Annotated[float, Field(gt=0, le=_MOST)]
Rate = Annotated[float, Field(ge=0, le=_MOST)]


class NodeTypeEntry(BaseModel):
    """[node_types.NAME]: exactly one of profile and measure."""

    model_config = STRICT

    profile: str | None = None
    measure: bool = False
    device: str = "cpu"
    devices: NumDevices = 1
    energy_cost: Rate | list[Rate] = 0.0


class NodeEntry(BaseModel):
    """[[nodes]]."""

    model_config = STRICT

    id: Name
    type: str
    resource: Resource | None = None


class VendorEntry(BaseModel):
    """[[vendors]]: a vendor that repairs data in this process."""

    model_config = STRICT

    name: Name = "builtin"
    price: Amount = Decimal(0)
    price_per_row: Amount = Decimal(0)
    delay: Whole = 1
    min_characters: Whole = 2
    max_characters: Whole = 100_000
    languages: Texts = ()
    similarity: float = 0.9
    kind: Kind | None = None

    def params(self) -> RepairParams:
        """As the vendor takes them."""
        return RepairParams(**{name: getattr(self, name) for name in type(self).model_fields})


@with_hyperparameters()
class BidEntry(BaseModel):
    """[[bids]]: a task, its bid, and its training."""

    model_config = STRICT

    @model_validator(mode="before")
    @classmethod
    def _refuse_by_name(cls, value: Any) -> Any:
        for key, what in _NOT_SUPPORTED.items():
            if isinstance(value, dict) and key in value:
                raise InputError(key, f"{what} is not supported", "a plain LoRA adapter")
        return value

    id: Name
    data: str
    bid: Amount
    arrival: Whole
    deadline: Whole
    repair: bool = False
    share: Annotated[float, Field(gt=0, le=1)] = 0.25
    truncate: bool = False
    validation: str | None = None
    start_from: str | None = None

    def job(
        self,
        data: Path,
        validation: Path | None,
        start: tuple[Path, StartAdapter] | None = None,
    ) -> LoraJob:
        """Return the training job.

        Args:
            data, validation: files of its rows.
            start: adapter that it goes on from, and its file.

        Raises:
            InputError: for a setting that contradicts another one, or the adapter.
        """
        path, adapter = start or (None, None)
        settings = hyperparameters_of(self, adapter)
        digest = None if adapter is None else adapter.digest
        return LoraJob(self.id, data, validation, path, digest, **settings)


class MarketFile(BaseModel):
    """The whole file."""

    model_config = STRICT

    title: str = "Market"
    base: str
    slots: Annotated[int, Field(ge=1, le=100_000)]
    slot_seconds: Positive
    sample_tokens: Positive = 64.0
    dtype: BaseDtype = "float32"
    mode: Literal["fused", "exact"] = "fused"
    gradient_checkpointing: CheckpointInterval = 0
    backend: Backend = "auto"
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    measure_seconds: Positive = 60.0
    executor: Literal["local", "ray"] = "local"
    ray: RayParams | None = None
    auction: dict[str, str | int | float] = Field(default_factory=dict)
    node_types: dict[Name, NodeTypeEntry]
    nodes: list[NodeEntry]
    vendors: list[VendorEntry] = Field(default_factory=list)
    bids: list[BidEntry]

    @property
    def uses_external_cluster(self) -> bool:
        """Return whether nodes run on a cluster that the run does not start itself."""
        return self.ray is not None and self.ray.address is not None


# Keys that were settings once.
_FIXED = {"ray.lease_seconds": "15 s", "ray.missing_seconds": "15 s"}

Resolve = Callable[[str], Path]
"""From a path as the market file gives it to where the file lies."""


def read_market(path: Path, place: str | None = None) -> MarketFile:
    """The market in a file, checked.

    Raises:
        InputError: naming the file and the field, for the first thing that is wrong.
    """
    place = place or str(path)
    try:
        text = path.read_bytes().decode()
        table = tomllib.loads(text)
    except OSError as error:
        raise InputError(
            place, f"cannot be read ({error.strerror})", "a market file in TOML"
        ) from None
    except ValueError as error:
        raise InputError(place, f"is not TOML ({error})", "a market file in TOML") from None
    market = check_schema(MarketFile, table, place, fixed=_FIXED)
    try:
        _check_market(market)
    except InputError as error:
        raise error.within(place) from None
    return market


def _check_market(market: MarketFile) -> None:
    _check_nodes(market)
    _check_unique([vendor.name for vendor in market.vendors], "vendors", "name")
    for index, vendor in enumerate(market.vendors):
        _within(f"vendors[{index}]", vendor.params)
    if not market.bids:
        raise InputError("bids", "is empty", "one bid at least")
    _check_unique([bid.id for bid in market.bids], "bids", "id")
    for index, bid in enumerate(market.bids):
        _check_bid(market, bid, f"bids[{index}]")


def _check_nodes(market: MarketFile) -> None:
    if not market.nodes:
        raise InputError("nodes", "is empty", "one node at least")
    _check_unique([node.id for node in market.nodes], "nodes", "id")
    for name, entry in market.node_types.items():
        place = f"node_types.{name}"
        if (entry.profile is None) == (not entry.measure):
            found = "has both profile and measure" if entry.profile else "has neither"
            raise InputError(place, found, "either a profile or measure = true")
        if isinstance(entry.energy_cost, list) and len(entry.energy_cost) != market.slots:
            raise InputError(
                f"{place}.energy_cost",
                f"has {len(entry.energy_cost)} entries",
                f"a number, or one a slot: {market.slots}",
            )
        if entry.devices > 1 and market.mode == "exact":
            found = f'{entry.devices} with mode = "exact"'
            raise InputError(f"{place}.devices", found, '1, or mode = "fused"')
    for index, node in enumerate(market.nodes):
        if node.type not in market.node_types:
            known = ", ".join(market.node_types) or "none"
            raise InputError(f"nodes[{index}].type", f"{node.type!r} is unknown", f"one of {known}")
    _check_executor(market)
    if not market.uses_external_cluster:
        _check_gpus(market)


def _check_executor(market: MarketFile) -> None:
    """Refuse settings of Ray without it, and devices that an external cluster does not have."""
    if market.executor == "ray":
        check_ray("executor")
        for name, entry in market.node_types.items() if market.uses_external_cluster else ():
            if entry.measure:
                found = "is set for a node of another machine"
                raise InputError(f"node_types.{name}.measure", found, "a profile, measured there")
            if entry.device.startswith("cuda:"):
                found = f"{entry.device!r}, where Ray gives each node a GPU of its own"
                raise InputError(f"node_types.{name}.device", found, "cuda")
    elif market.ray is not None:
        raise InputError("ray", "is given with executor 'local'", 'executor = "ray"')
    for k, node in enumerate(() if market.uses_external_cluster else market.nodes):
        if node.resource:
            place, found = f"nodes[{k}].resource", "is given without the address of a cluster"
            raise InputError(place, found, 'executor = "ray", and ray.address')


def _check_gpus(market: MarketFile) -> None:
    """Refuse two nodes on one GPU: each is measured alone, so its time would be sold twice."""
    first: dict[str, str] = {}
    for index, node in enumerate(market.nodes):
        entry = market.node_types[node.type]
        for device in physical_devices(entry.device, entry.devices):
            if device.startswith("cuda") and first.setdefault(device, node.id) != node.id:
                found = f"{node.id!r} is on {device}, where node {first[device]!r} is"
                raise InputError(f"nodes[{index}]", found, "one node per GPU")


def _check_bid(market: MarketFile, bid: BidEntry, place: str) -> None:
    if bid.deadline < bid.arrival:
        raise InputError(
            f"{place}.deadline",
            f"{bid.deadline} is before arrival {bid.arrival}",
            "a slot >= arrival",
        )
    if bid.deadline >= market.slots:
        raise InputError(
            f"{place}.deadline",
            f"{bid.deadline} is beyond the last slot {market.slots - 1}",
            "a slot of the market",
        )
    if bid.repair and not market.vendors:
        raise InputError(f"{place}.repair", "is set, but there is no vendor", "[[vendors]]")
    validation = None if bid.validation is None else Path(bid.validation)
    _within(place, lambda: bid.job(Path(bid.data), validation))


def _check_unique(names: list[str], place: str, field: str) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise InputError(
                f"{place}[{index}].{field}", f"{name!r} is there twice", "unique names"
            )


def _within(place: str, make: Callable[[], object]) -> None:
    try:
        make()
    except InputError as error:
        raise InputError(f"{place}.{error.place}", error.found, error.expected) from None
