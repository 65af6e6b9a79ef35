"""A zone of kind `auction` in auctune.toml: its nodes, what they cost, and how they are sold."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from auctune.device_profile import physical_device
from auctune.domain import InputError
from auctune.schema import STRICT
from auctune.service.settings.fields import Name, Positive, Rate
from auctune.service.settings.language_entry import LanguageZoneEntry
from auctune.service.settings.ray_entry import RayEntry, Resource
from auctune.service.settings.vendor_entries import HouseEntry, VendorEntry, check_names
from auctune.service.settings.zone_needs import DeviceNeed, ZoneNeeds

_DAY_SECONDS = 86_400


class NodeTypeEntry(BaseModel):
    """[zones.node_types.NAME]."""

    model_config = STRICT

    device: str = "cpu"
    profile: str | None = None
    spare: Annotated[float, Field(ge=0, lt=1)] = 0.0
    energy_cost: Rate = 0.0
    power_kw: Positive | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.energy_cost and self.power_kw is not None:
            raise InputError("power_kw", "is given with energy_cost", "one of them")
        return self


class NodeEntry(BaseModel):
    """[[zones.nodes]]."""

    model_config = STRICT

    id: Name
    type: Name
    resource: Resource | None = None


class AuctionEntry(LanguageZoneEntry):
    """[[zones]] of kind `auction`."""

    kind: Literal["auction"] = "auction"
    slots: Annotated[int, Field(ge=2, le=100_000)] | None = None
    sample_tokens: Positive = 64.0
    mode: Literal["fused", "exact"] = "fused"
    executor: Literal["local", "ray"] = "local"
    ray: RayEntry | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 0.25
    energy_price: float | str | None = None
    quote_seconds: Positive = 2.0
    auction: dict[str, str | int | float] = Field(default_factory=dict)
    node_types: Annotated[dict[Name, NodeTypeEntry], Field(min_length=1)] = Field(
        default_factory=lambda: {"local": NodeTypeEntry()}
    )
    nodes: Annotated[list[NodeEntry], Field(min_length=1)] = Field(
        default_factory=lambda: [NodeEntry(id="local-0", type="local")]
    )
    house: HouseEntry = HouseEntry()
    vendors: list[VendorEntry] = Field(default_factory=list)

    @property
    def num_slots(self) -> int:
        """Of the window: a day, but not more slots than suit a search."""
        return self.slots or max(2, min(1440, round(_DAY_SECONDS / self.slot_seconds)))

    @property
    def mechanism(self) -> tuple[str, dict[str, str]]:
        """Its name, and its settings as words."""
        name = str(self.auction.get("mechanism", "pdftsp"))
        return name, {k: str(v) for k, v in self.auction.items() if k != "mechanism"}

    @property
    def adopts(self) -> bool:
        """Whether its nodes are on a cluster that others look after."""
        return self.ray is not None and self.ray.address is not None

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_nodes()
        self._check_executor()
        check_names(self.house, self.vendors)
        for name, kind in self.node_types.items():
            if kind.power_kw is not None and self.energy_price is None:
                place = f"node_types.{name}.power_kw"
                raise InputError(place, "has no price", "energy_price of its zone")
        return self

    def _check_nodes(self) -> None:
        seen: set[str] = set()
        for index, node in enumerate(self.nodes):
            if node.type not in self.node_types:
                known = ", ".join(self.node_types)
                place = f"nodes[{index}].type"
                raise InputError(place, f"{node.type!r} is unknown", f"one of {known}")
            if node.id in seen:
                raise InputError(f"nodes[{index}].id", f"{node.id!r} is twice", "unique ids")
            seen.add(node.id)
        self._check_gpus()

    def _check_gpus(self) -> None:
        """Refuse two nodes on one GPU: each is measured alone, so its time would be sold twice."""
        first: dict[str, str] = {}
        for index, node in enumerate(self.nodes):
            device = self._device_of(node)
            if device.startswith("cuda") and first.setdefault(device, node.id) != node.id:
                found = f"{node.id!r} is on {device}, where node {first[device]!r} is"
                raise InputError(f"nodes[{index}]", found, "one node per GPU")

    def nodes_per_device(self, node_type: str) -> int:
        """Return the number of nodes, at most, that share the memory of a device of this type."""
        devices = Counter(map(self._device_of, self.nodes))
        shared = (devices[self._device_of(node)] for node in self.nodes if node.type == node_type)
        return max(shared, default=1)

    def _device_of(self, node: NodeEntry) -> str:
        """Return a name for a node's device; equal names may be one physical device.

        On a cluster of others Ray gives each node a GPU of its own, and nodes on CPUs that ask for
        one resource may be placed on one machine.
        """
        device = physical_device(self.node_types[node.type].device)
        if not self.adopts:
            return device
        if device == "cpu":
            return f"cpu of {node.resource or node.id}"
        return f"{device} of {node.id}"

    def _check_executor(self) -> None:
        if self.executor == "local":
            places = ["ray"] if self.ray is not None else []
            places += [f"nodes[{i}].resource" for i, node in enumerate(self.nodes) if node.resource]
            if places:
                raise InputError(places[0], "is given with executor 'local'", 'executor = "ray"')
        for name, kind in self.node_types.items():
            if self.adopts and kind.device.startswith("cuda:"):
                found = f"{kind.device!r}, where Ray gives each node a GPU of its own"
                raise InputError(f"node_types.{name}.device", found, "cuda")

    def needs(self) -> ZoneNeeds:
        """Devices of its node types, as far as nodes here have them, and its vendors outside."""
        types = [node.type for node in self.nodes]
        devices = tuple(
            DeviceNeed(f"node_types.{name}", kind.device, kind.profile, types.count(name))
            for name, kind in self.node_types.items()
            if name in types and not self.adopts
        )
        return ZoneNeeds(devices, {vendor.name: vendor.url for vendor in self.vendors})

    def files(self) -> Mapping[str, str]:
        """Prices of energy, and profiles of its node types."""
        given = {
            f"node_types.{name}.profile": kind.profile
            for name, kind in self.node_types.items()
            if kind.profile is not None
        }
        if isinstance(self.energy_price, str):
            given["energy_price"] = self.energy_price
        return given

    def beside(self, folder: Path) -> Self:
        """The same with paths that start from a folder."""
        kinds = {
            name: kind.model_copy(update={"profile": _from(folder, kind.profile)})
            for name, kind in self.node_types.items()
        }
        vendors = [
            vendor.model_copy(update={"secret_file": _from(folder, vendor.secret_file)})
            for vendor in self.vendors
        ]
        price = self.energy_price
        if isinstance(price, str):
            price = str(folder / price)
        changes = {"node_types": kinds, "vendors": vendors, "energy_price": price}
        return super().beside(folder).model_copy(update=changes)


def _from(folder: Path, path: str | None) -> str | None:
    return None if path is None else str(folder / path)
