"""Settings of a zone of kind `auction`: its nodes, their cost, and how they are sold."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from auctune.domain import InputError
from auctune.engine.runtime.ray.params import RayParams, Resource
from auctune.engine.vendors import BUILTIN_VENDOR
from auctune.files.device_profile import physical_devices
from auctune.files.schema import STRICT, NumDevices
from auctune.service.config.fields import (
    Name,
    NonNegative,
    Positive,
    RelativePath,
    Share,
    check_unique,
    slots_per_day,
)
from auctune.service.config.vendors import BuiltinVendorConfig, VendorConfig
from auctune.service.config.zone import DeviceRequirement, LanguageZoneConfig, ZoneRequirements


class NodeTypeConfig(BaseModel):
    """[zones.node_types.NAME]."""

    model_config = STRICT

    device: str = Field(
        default="cpu",
        description="`cpu`, `cuda` or `cuda:N`. A GPU of this machine takes one node, of one zone; "
        "on a cluster with an address Ray gives each node GPUs of its own. Nodes on a CPU share "
        "its memory: all nodes of this machine, and on a cluster those that name the same "
        "`resource`",
    )
    devices: NumDevices = Field(
        default=1,
        description="how many devices each node computes on [together]"
        "(../explanation/training.md#several-devices): GPUs from `device` on, or processes of "
        'a CPU, each with `threads`; more than 1 only with `mode = "fused"`',
    )
    profile: RelativePath | None = Field(
        default=None,
        description="a file of [`auctune profile`](command-line.md#auctune-profile). Default: the "
        "device is measured at the first start",
    )
    headroom: Share = Field(
        default=0.0,
        description="share of the measured capacity that is not sold, from 0 to less than 1: for "
        "devices that other programs use too. A change does not affect a zone that is open already",
    )
    energy_cost: NonNegative = Field(
        default=0.0,
        description="money for a slot at full load, always the same. A bid that pays less than the "
        "energy costs is rejected",
    )
    power_kw: Positive | None = Field(
        default=None,
        description="kilowatts at full load, instead of `energy_cost`: a slot costs this times its "
        "hours times the zone's `energy_price` / 1000",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.energy_cost and self.power_kw is not None:
            raise InputError("power_kw", "is given with energy_cost", "one of them")
        return self


class NodeConfig(BaseModel):
    """[[zones.nodes]]."""

    model_config = STRICT

    id: Name = Field(description="name of the node")
    type: Name = Field(description="one of the zone's node types")
    resource: Resource | None = Field(
        default=None,
        description="custom resource of the Ray nodes that it may run on; only with the `address` "
        "of a cluster. Default: `auctune:` and its id",
    )


class AuctionConfig(LanguageZoneConfig):
    """[[zones]] of kind `auction`."""

    kind: Literal["auction"] = Field(
        default="auction",
        description="how the zone sells, which determines its other keys: `auction` (nodes of this "
        "machine or of a cluster), `spot` (rented instances), `timeshare` (jobs with loss targets "
        "on one pool) or `edge` (jobs with data at sites). Fixed once the zone has been opened",
    )
    slots: Annotated[int, Field(ge=2, le=100_000)] | None = Field(
        default=None,
        description="how many slots ahead jobs are planned, whatever their deadlines. Default: a "
        "day, at most 1440 slots",
    )
    mode: Literal["fused", "exact"] = Field(
        default="fused",
        description="`fused`: several adapters in one pass, faster; `exact`: an adapter is "
        "bit-identical whatever shares its node. See [The trainer](../explanation/training.md)",
    )
    executor: Literal["local", "ray"] = Field(
        default="local",
        description="where nodes run: `local`, processes of this machine, or `ray`, on a "
        "[Ray cluster](../how-to/run-on-a-cluster.md)",
    )
    ray: RayParams | None = Field(
        default=None,
        description="the [Ray cluster](#nodes-on-a-ray-cluster), "
        '`{ address = "HOST:PORT" }` of its head; only with `executor = "ray"`. Default: a cluster '
        "on this machine, one Ray node for each node, which is started and stopped with the market",
    )
    share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.25,
        description="share of a node's slot that a job takes at most, where a request does not set "
        "it",
    )
    energy_price: float | RelativePath | None = Field(
        default=None,
        description="price of energy in USD per MWh, for node types with `power_kw`: a number, or "
        "the path of [a file](#energy)",
    )
    auction: dict[str, str | int | float] = Field(
        default_factory=dict,
        description="`mechanism`, and its parameters as in "
        "[the market file](market-file.md#auction)",
    )
    node_types: Annotated[dict[Name, NodeTypeConfig], Field(min_length=1)] = Field(
        default_factory=lambda: {"local": NodeTypeConfig()},
        description="types of nodes. Default: `local`, with the defaults below",
    )
    nodes: Annotated[list[NodeConfig], Field(min_length=1)] = Field(
        default_factory=lambda: [NodeConfig(id="local-0", type="local")],
        description="nodes, each a process. Default: `local-0` of type `local`",
    )
    builtin_vendor: BuiltinVendorConfig = Field(
        default=BuiltinVendorConfig(),
        description="the vendor in a process of the service",
    )
    vendors: list[VendorConfig] = Field(default_factory=list, description="external vendors")

    @property
    def num_slots(self) -> int:
        """Horizon in slots; a day by default, limited for the search."""
        return self.slots or slots_per_day(self.slot_seconds, 2, 1440)

    @property
    def mechanism(self) -> tuple[str, dict[str, str]]:
        """Name of the mechanism, and its parameters as text."""
        name = str(self.auction.get("mechanism", "pdftsp"))
        return name, {k: str(v) for k, v in self.auction.items() if k != "mechanism"}

    @property
    def uses_external_cluster(self) -> bool:
        """Return whether nodes run on a cluster that the service does not start itself."""
        return self.ray is not None and self.ray.address is not None

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_nodes()
        self._check_mode()
        self._check_executor()
        builtin = [BUILTIN_VENDOR] if self.builtin_vendor.enabled else []
        check_unique("vendors", "name", [vendor.name for vendor in self.vendors], builtin)
        for name, node_type in self.node_types.items():
            if node_type.power_kw is not None and self.energy_price is None:
                place = f"node_types.{name}.power_kw"
                raise InputError(place, "has no price", "energy_price of its zone")
        return self

    def _check_nodes(self) -> None:
        for index, node in enumerate(self.nodes):
            if node.type not in self.node_types:
                known = ", ".join(self.node_types)
                place = f"nodes[{index}].type"
                raise InputError(place, f"{node.type!r} is unknown", f"one of {known}")
        check_unique("nodes", "id", [node.id for node in self.nodes])
        self._check_gpus()

    def _check_gpus(self) -> None:
        """Refuse two nodes on one GPU: each is measured alone, so its time would be sold twice."""
        first: dict[str, str] = {}
        for index, node in enumerate(self.nodes):
            for device in self._devices_of(node):
                if device.startswith("cuda") and first.setdefault(device, node.id) != node.id:
                    found = f"{node.id!r} is on {device}, as is node {first[device]!r}"
                    raise InputError(f"nodes[{index}]", found, "one node per GPU")

    def _check_mode(self) -> None:
        for name, node_type in self.node_types.items():
            if node_type.devices > 1 and self.mode == "exact":
                found = f'{node_type.devices} with mode = "exact"'
                raise InputError(f"node_types.{name}.devices", found, '1, or mode = "fused"')

    def nodes_per_device(self, node_type: str) -> int:
        """Return the number of nodes, at most, that share the memory of a device of this type."""
        devices = Counter(device for node in self.nodes for device in self._devices_of(node))
        shared = (
            devices[device]
            for node in self.nodes
            if node.type == node_type
            for device in self._devices_of(node)
        )
        return max(shared, default=1)

    def _devices_of(self, node: NodeConfig) -> tuple[str, ...]:
        """Return names for a node's devices; equal names may be one physical device.

        On an external cluster Ray gives each node a GPU of its own, and nodes on CPUs that ask for
        one resource may be placed on one machine.
        """
        node_type = self.node_types[node.type]
        devices = physical_devices(node_type.device, node_type.devices)
        if not self.uses_external_cluster:
            return devices
        owner = (node.resource or node.id) if node_type.device == "cpu" else node.id
        return tuple(f"{device} of {owner}" for device in devices)

    def _check_executor(self) -> None:
        if self.executor == "local" and self.ray is not None:
            raise InputError("ray", "is given with executor 'local'", 'executor = "ray"')
        for i, node in enumerate(() if self.uses_external_cluster else self.nodes):
            if node.resource:
                place, found = f"nodes[{i}].resource", "is given without the address of a cluster"
                raise InputError(place, found, 'executor = "ray", and ray.address')
        for name, node_type in self.node_types.items():
            if self.uses_external_cluster and node_type.device.startswith("cuda:"):
                found = f"{node_type.device!r}, where Ray gives each node a GPU of its own"
                raise InputError(f"node_types.{name}.device", found, "cuda")

    def requirements(self) -> ZoneRequirements:
        types = [node.type for node in self.nodes]
        devices = tuple(
            DeviceRequirement(
                f"node_types.{name}",
                node_type.device,
                node_type.profile,
                types.count(name),
                node_type.devices,
                self.gradient_checkpointing,
            )
            for name, node_type in self.node_types.items()
            if name in types and not self.uses_external_cluster
        )
        return ZoneRequirements(devices, {vendor.name: vendor.url for vendor in self.vendors})

    def files(self) -> Mapping[str, str]:
        files = {
            f"node_types.{name}.profile": node_type.profile
            for name, node_type in self.node_types.items()
            if node_type.profile is not None
        }
        if isinstance(self.energy_price, str):
            files["energy_price"] = self.energy_price
        return files
