"""Zones of kind `auction`: slots of nodes are sold to bids, each decided on at once."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from auctune.domain import Cluster, EnergyForecast, Explanation, InputError, Node, NodeType
from auctune.engine.base_facts import (
    Alone,
    BaseFacts,
    Elsewhere,
    Report,
    StartNode,
    StartupTask,
    learn_base,
)
from auctune.engine.market.market_file import MarketFile
from auctune.engine.runtime.local import LocalLauncher
from auctune.engine.runtime.nodes import NodeSettings, node_workers
from auctune.engine.runtime.ray.launcher import RayLauncher
from auctune.engine.runtime.ray.params import check_ray
from auctune.engine.runtime.supervisor import Executor, SupervisorPolicy
from auctune.engine.runtime.worker import Launcher
from auctune.files.device_profile import Profile
from auctune.numerics.jit import COMPILING
from auctune.registry.mechanisms import check_settings
from auctune.service.config.auction import AuctionConfig
from auctune.service.datasets.repairer import builtin_vendor
from auctune.service.datasets.training_data import DatasetInspector
from auctune.service.storage.event_log import ZoneEvent
from auctune.service.zones.auction.gateway import AuctionGateway
from auctune.service.zones.auction.startup import KernelCompilation, kernels_are_compiled, warm_up
from auctune.service.zones.auction.state import (
    AuctionDecided,
    AuctionModel,
    AuctionState,
    empty_model,
)
from auctune.service.zones.auction.worker import AuctionWorker, RepairCoordinator
from auctune.service.zones.auction.zone import AuctionZone, Supply, zone_energy
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.events import adapter
from auctune.service.zones.core.kind import (
    LanguageZoneLoader,
    ZoneKind,
    created_record,
    node_settings,
    read_optional_profile,
    slot_epoch,
)
from auctune.service.zones.core.scheduler import MakeExecutor
from auctune.service.zones.core.snapshots import Explainer
from auctune.service.zones.core.worker import BaseProfiles, DataDirs, ZoneDependencies

SAMPLE_TOKENS = 64.0
"""Unit in which a new zone prices work, in tokens; a zone keeps the one that its log has."""


class ExecutorFactory(ABC):
    """Makes the executor of a zone, and starts single nodes for measurements before that."""

    @abstractmethod
    def _launcher(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path | None, lock: int | None
    ) -> Launcher: ...

    def executor(
        self,
        settings: Mapping[str, NodeSettings],
        work: Path,
        logs: Path,
        lock: int | None,
        policy: SupervisorPolicy | None = None,
    ) -> MakeExecutor:
        """Return a function that makes the executor, given the callback for its messages.

        `settings` are those of the nodes, by id; all processes of the executor hold the `lock`.
        """
        return lambda on_message: Executor(
            settings, self._launcher(settings, work, logs, lock), on_message, policy
        )

    def probe(
        self, node: str, settings: NodeSettings, work: Path
    ) -> AbstractContextManager[StartNode | None]:
        """Return what starts a node on its machine; None: it is this machine."""
        return nullcontext()


class LocalExecutorFactory(ExecutorFactory):
    """Nodes are child processes."""

    def _launcher(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path | None, lock: int | None
    ) -> Launcher:
        return LocalLauncher(node_workers(settings, logs), lock=lock)


@dataclass(frozen=True, slots=True)
class RayExecutorFactory(ExecutorFactory):
    """Nodes are actors on a Ray cluster; some have a custom resource."""

    address: str | None
    resources: Mapping[str, str]

    def _launcher(
        self, settings: Mapping[str, NodeSettings], work: Path, logs: Path | None, lock: int | None
    ) -> Launcher:
        return RayLauncher(
            settings, work, address=self.address, resources=self.resources, logs=logs, lock=lock
        )

    @contextmanager
    def probe(self, node: str, settings: NodeSettings, work: Path) -> Iterator[StartNode | None]:
        # The nodes of a cluster that the service starts itself are this machine.
        if self.address is None:
            yield None
            return
        launcher = self._launcher({node: settings}, work, None, None)
        try:
            yield lambda _, on_message: launcher.start(node, on_message)
        finally:
            launcher.close()


def executor_factory(entry: AuctionConfig | MarketFile) -> ExecutorFactory:
    """Return the factory that the settings of a zone, or a market file, name."""
    if entry.executor == "local":
        return LocalExecutorFactory()
    resources = {node.id: node.resource for node in entry.nodes if node.resource is not None}
    return RayExecutorFactory(None if entry.ray is None else entry.ray.address, resources)


class AuctionLoader(LanguageZoneLoader[AuctionConfig, AuctionZone, AuctionModel]):
    """Loads an auction zone."""

    def __init__(
        self, entry: AuctionConfig, profiles: BaseProfiles, dependencies: ZoneDependencies
    ) -> None:
        super().__init__(entry, profiles, dependencies)
        shared, place = dependencies, f"zone {entry.name}: vendors"
        builtin = builtin_vendor(entry.builtin_vendor, shared.data)
        external = shared.vendor_gateway.vendors(
            vendor.params(f"{place}[{index}]") for index, vendor in enumerate(entry.vendors)
        )
        self._vendors = {one.name: one for one in (builtin, *external) if one is not None}
        self._inspector = DatasetInspector(
            entry.base_source,
            shared.data,
            shared.files,
            builtin,
            external,
            shared.now,
        )

    def _current_settings(self) -> dict[str, Any]:
        return auction_record(self.entry, self.profiles, self.dependencies.now())

    def _select_fixed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        chosen = dict(settings["settings"])
        if "aggregate" not in self.entry.mechanism[1]:
            # Its default has changed: what a zone began with stands where nothing is said.
            chosen.pop("aggregate", None)
        return {
            "base": settings["base"],
            "slots": settings["cluster"]["slots"],
            "slot_seconds": settings["cluster"]["slot_seconds"],
            "nodes": settings["cluster"]["nodes"],
            "auction.mechanism": settings["mechanism"],
            **{f"auction.{key}": value for key, value in sorted(chosen.items())},
        }

    def _prepare(self) -> None:
        self.supply = build_supply(self.entry, self.recorded)
        self.energy = zone_energy(self.entry, self.recorded["epoch"])
        settings = self.recorded["settings"]
        what = "getting the auction ready" if kernels_are_compiled(settings) else COMPILING
        warm_up(
            self.recorded["mechanism"],
            settings,
            self.supply.cluster,
            lambda share: self.dependencies.report(what, share),
        )

    def _empty_model(self) -> AuctionModel:
        return empty_model(self.recorded, self.energy)

    def _zone(self, model: AuctionModel) -> AuctionZone:
        return AuctionZone(
            self.entry.name,
            self.supply,
            model,
            self.clock,
            self.dependencies.recorder,
        )

    def _gateway(self, actor: ZoneActor[AuctionZone]) -> AuctionGateway:
        supply = self.supply
        context = self._gateway_context(
            actor, supply.cluster.slots, share=self.entry.share, inspector=self._inspector
        )
        # Explanations need no energy forecast: the events hold what a decision saw of it.
        explainer = Explainer(
            lambda: empty_model(self.recorded), self.log, self.snapshots, _explain
        )
        return AuctionGateway(context, supply, explainer, has_vendors=self._inspector.has_vendors)

    def _worker(self, actor: ZoneActor[AuctionZone]) -> AuctionWorker:
        entry, shared, dirs = self.entry, self.dependencies, self.dependencies.dirs
        work = dirs.work(entry.name)
        settings = {
            node.id: _tuned(training_settings(entry, node.type, dirs), self.profiles[node.type])
            for node in entry.nodes
        }
        # Nodes hold the lock too: while one is alive, no other service opens this data folder.
        # Zones may have nodes of the same id.
        logs = dirs.logs / entry.name
        make_executor = executor_factory(entry).executor(settings, work, logs, shared.lock)
        repairs = RepairCoordinator(
            actor, self.clock, self._vendors, self._inspector, shared.files, work
        )
        return AuctionWorker(
            actor, self.clock, make_executor, work, self._inspector, repairs, shared
        )


def _explain(model: AuctionModel, decided: ZoneEvent) -> Explanation:
    data = model.state.decode(decided)
    assert isinstance(data, AuctionDecided)
    return model.mechanism.explain(data.task, data.decision, model.state.slot)


def auction_record(entry: AuctionConfig, profiles: BaseProfiles, now: float) -> dict[str, Any]:
    """Return the body of the first event of an auction zone that is created now."""
    epoch = slot_epoch(entry, now)
    mechanism, mechanism_settings = entry.mechanism
    cluster = _cluster(entry, profiles, zone_energy(entry, epoch))
    settings = {
        "cluster": adapter(Cluster).dump_python(cluster, mode="json"),
        "profiles": {name: _sold_profile(entry, profiles, name).to_json() for name in profiles},
        "mechanism": mechanism,
        "settings": mechanism_settings,
        "sample_tokens": SAMPLE_TOKENS,
    }
    return created_record(entry, settings, epoch)


def build_supply(entry: AuctionConfig, recorded: Mapping[str, Any]) -> Supply:
    """Return what a zone offers, by its recorded settings."""
    return Supply(
        base=entry.base,
        cluster=adapter(Cluster).validate_python(recorded["cluster"]),
        profiles={
            name: Profile.from_json(text, f"profile of {name}")
            for name, text in recorded["profiles"].items()
        },
        sample_tokens=recorded["sample_tokens"],
    )


def _cluster(entry: AuctionConfig, profiles: BaseProfiles, energy: EnergyForecast) -> Cluster:
    node_types = {}
    for name in entry.node_types:
        profile = _sold_profile(entry, profiles, name)
        node_types[name] = NodeType(
            compute=profile.compute(entry.slot_seconds, SAMPLE_TOKENS),
            memory_gb=profile.memory_gb / entry.nodes_per_device(name),
            energy_cost=tuple(energy(name, slot) for slot in range(entry.num_slots)),
        )
    return Cluster(
        slots=entry.num_slots,
        slot_seconds=entry.slot_seconds,
        base_memory_gb=max(one.profile.base_memory_gb for one in profiles.values()),
        node_types=node_types,
        nodes=tuple(Node(node.id, node.type) for node in entry.nodes),
    )


def _sold_profile(entry: AuctionConfig, profiles: BaseProfiles, name: str) -> Profile:
    """Return the profile of a node type, less the headroom that is not sold."""
    profile = profiles[name].profile
    margin = 1 - (1 - profile.margin) * (1 - entry.node_types[name].headroom)
    return replace(profile, margin=margin)


def training_settings(entry: AuctionConfig, node_type: str, dirs: DataDirs) -> NodeSettings:
    """Return the settings of a node's process, apart from those that a measurement tunes."""
    of_type = entry.node_types[node_type]
    settings = node_settings(entry, dirs, of_type.device, entry.mode)
    return replace(settings, num_devices=of_type.devices)


def _tuned(settings: NodeSettings, base: BaseFacts) -> NodeSettings:
    return replace(
        settings,
        token_budget=base.profile.micro_batch_tokens,
    )


class AuctionKind(ZoneKind[AuctionConfig]):
    """Kind of auction zones."""

    config = AuctionConfig
    projection = AuctionState.projection
    loader = AuctionLoader

    def check(self, entry: AuctionConfig, place: str, now: float) -> None:
        try:
            check_settings(*entry.mechanism)
        except InputError as error:
            path = f"{place}.auction.{error.place}"
            raise InputError(path, error.found, error.expected) from None
        if entry.executor == "ray":
            check_ray(f"{place}.executor")
        for index, vendor in enumerate(entry.vendors):
            vendor.params(f"{place}.vendors[{index}]")
        for node_type in entry.node_types.values():
            read_optional_profile(node_type.profile, entry, node_type.devices)
        zone_energy(entry, now)

    def prepare(self, entries: Sequence[AuctionConfig]) -> StartupTask:
        return KernelCompilation(entries)

    def profile(
        self, entry: AuctionConfig, dirs: DataDirs, report: Report, alone: Alone
    ) -> BaseProfiles:
        given = {
            name: read_optional_profile(node_type.profile, entry, node_type.devices)
            for name, node_type in entry.node_types.items()
        }
        facts = {}
        for name in entry.node_types:
            settings = training_settings(entry, name, dirs)
            # A type without nodes is measured on this machine.
            nodes = [node.id for node in entry.nodes if node.type == name]
            factory = executor_factory(entry)
            work = dirs.work(entry.name)
            probe = factory.probe(nodes[0], settings, work) if nodes else nullcontext()
            with probe as start:
                there = None if start is None else Elsewhere(f"{entry.name} {name}", start)
                facts[name] = learn_base(settings, dirs.profiles, report, given[name], alone, there)
        return facts
