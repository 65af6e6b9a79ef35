"""Loads an auction zone: supply, log, actor and worker."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from auctune.device_profile import Profile
from auctune.domain import Admission, Cluster, EnergyForecast, Explanation, Node, NodeType
from auctune.numerics.jit import COMPILING, kernels_are_compiled
from auctune.registry import build
from auctune.run.base_facts import BaseFacts, Report
from auctune.run.executor import NodeSettings
from auctune.run.records import read_decision
from auctune.service.config.auction import AuctionConfig
from auctune.service.config.zone import AUCTION
from auctune.service.dataset_inspector import DatasetInspector
from auctune.service.jobs.datasets import TrainingData
from auctune.service.jobs.training import Defaults
from auctune.service.vendors.repairer import ExternalVendor, Repairer, builtin_vendor
from auctune.service.zones.auction.executors import executor_factory
from auctune.service.zones.auction.gateway import AuctionGateway
from auctune.service.zones.auction.job import cluster_record, read_cluster, read_task
from auctune.service.zones.auction.repair_coordinator import RepairCoordinator
from auctune.service.zones.auction.state import AuctionModel, empty_model
from auctune.service.zones.auction.supply import Supply, zone_energy
from auctune.service.zones.auction.warm_up import warm_up
from auctune.service.zones.auction.worker import AuctionWorker
from auctune.service.zones.auction.zone import AuctionZone
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.dependencies import DataDirs, ZoneDependencies
from auctune.service.zones.core.events import VERSION, ZoneEvent
from auctune.service.zones.core.explainer import Explainer
from auctune.service.zones.core.gateway import GatewayContext
from auctune.service.zones.core.kind import BaseProfiles, LoadedZone
from auctune.service.zones.core.loader import ZoneLoader, changed_setting_error


class AuctionLoader:
    """Opens zones of this kind.

    Args:
        dependencies: what all zones are opened with.
    """

    def __init__(self, dependencies: ZoneDependencies) -> None:
        self._dependencies = dependencies
        self._past = ZoneLoader(dependencies)

    async def open(self, entry: AuctionConfig, facts: BaseProfiles) -> LoadedZone:
        """One zone, as it stood."""
        here = self._dependencies
        wanted = created_record(entry, facts, here.now())
        record = self._past.recorded_settings(entry.name, wanted, partial(_check_same, entry))
        supply = build_supply(entry, facts, record)
        await asyncio.to_thread(_warm_up, record, supply.cluster, here.report)
        energy = zone_energy(entry, record["epoch"])
        memory = await self._past.restore(entry.name, lambda: empty_model(record, energy))
        clock = SlotClock(record["epoch"], record["slot_seconds"], here.now)
        zone = AuctionZone(entry.name, supply, memory, clock, here.recorder)
        actor = self._past.start_actor(zone, memory, record)
        builtin = builtin_vendor(entry.builtin_vendor, here.data)
        external = self._external_vendors(entry)
        inspector = DatasetInspector(
            entry.base_source,
            here.data,
            here.library,
            builtin,
            external,
            entry.quote_seconds,
            here.now,
        )
        open_zone = self._open_zone(entry, record, zone, actor, inspector)
        vendors = {one.name: one for one in (builtin, *external) if one is not None}
        return LoadedZone(open_zone, self._worker(entry, facts, open_zone, inspector, vendors))

    def _open_zone(
        self,
        entry: AuctionConfig,
        record: Mapping[str, Any],
        zone: AuctionZone,
        actor: ZoneActor[AuctionZone],
        inspector: DatasetInspector,
    ) -> AuctionGateway:
        here, supply, clock = self._dependencies, zone.supply, zone.clock
        context = supply.context_tokens
        defaults = Defaults(max_length=entry.max_length, share=entry.share, context_tokens=context)
        files = TrainingData(here.library, supply.base_digest, inspector, defaults.length)
        gateway_context = GatewayContext(
            actor, clock, supply.cluster.slots, defaults, files, here.budgets, here.quotes
        )
        explainer = Explainer(
            lambda: empty_model(record),
            self._past.log,
            self._past.snapshots,
            _explain,
        )
        return AuctionGateway(gateway_context, supply, explainer, has_vendors=inspector.has_vendors)

    def _worker(
        self,
        entry: AuctionConfig,
        facts: BaseProfiles,
        open_zone: AuctionGateway,
        inspector: DatasetInspector,
        vendors: Mapping[str, Repairer],
    ) -> AuctionWorker:
        here, dirs = self._dependencies, self._dependencies.dirs
        work = dirs.work(entry.name)
        settings = {n.id: _tuned_settings(entry, n.type, dirs, facts) for n in entry.nodes}
        # The lock keeps other markets from meeting what is still alive of this one.
        actor, clock = open_zone.actor, open_zone.clock
        return AuctionWorker(
            actor,
            clock,
            executor_factory(entry).executor(settings, work, dirs.logs, here.lock),
            work,
            inspector,
            RepairCoordinator(actor, clock, vendors, inspector, here.library, work),
            here,
        )

    def _external_vendors(self, entry: AuctionConfig) -> tuple[ExternalVendor, ...]:
        place = f"zone {entry.name}: vendors"
        return self._dependencies.vendor_gateway.vendors(
            vendor.params(f"{place}[{index}]") for index, vendor in enumerate(entry.vendors)
        )


def created_record(
    entry: AuctionConfig, facts: Mapping[str, BaseFacts], now: float
) -> dict[str, Any]:
    """The body of the event with which a zone opens: all that its decisions follow from."""
    mechanism, settings = entry.mechanism
    epoch = now // entry.slot_seconds * entry.slot_seconds
    cluster = _cluster(entry, facts, zone_energy(entry, epoch))
    return {
        "version": VERSION,
        "kind": AUCTION,
        "base": entry.base,
        "cluster": cluster_record(cluster),
        "profiles": {name: _usable_profile(entry, facts, name).to_json() for name in facts},
        "mechanism": mechanism,
        "settings": settings,
        "sample_tokens": entry.sample_tokens,
        "epoch": epoch,
        "slot_seconds": entry.slot_seconds,
    }


def build_supply(
    entry: AuctionConfig, facts: Mapping[str, BaseFacts], record: Mapping[str, Any]
) -> Supply:
    """What a zone offers, as the event with which it opened says."""
    base = next(iter(facts.values()))
    return Supply(
        base=entry.base,
        base_digest=base.digest,
        context_tokens=base.context_tokens,
        cluster=read_cluster(record["cluster"]),
        profiles={
            name: Profile.from_json(text, f"profile of {name}")
            for name, text in record["profiles"].items()
        },
        sample_tokens=record["sample_tokens"],
    )


def _warm_up(record: Mapping[str, Any], cluster: Cluster, report: Report) -> None:
    what = "getting the auction ready" if kernels_are_compiled() else COMPILING

    def make(small: Cluster, energy: EnergyForecast) -> Admission:
        return build(record["mechanism"], small, record["settings"], energy=energy)

    warm_up(cluster, make, lambda share: report(what, share))


def _check_same(entry: AuctionConfig, wanted: Mapping[str, Any], opened: Mapping[str, Any]) -> None:
    """What is sold, and how, cannot change while plans stand on it."""
    now, before = wanted["cluster"], opened["cluster"]
    for what, new, old in (
        ("base", wanted["base"], opened["base"]),
        ("slots", now["slots"], before["slots"]),
        ("slot_seconds", now["slot_seconds"], before["slot_seconds"]),
        ("nodes", now["nodes"], before["nodes"]),
        ("sample_tokens", wanted["sample_tokens"], opened["sample_tokens"]),
        ("auction.mechanism", wanted["mechanism"], opened["mechanism"]),
        *_settings(wanted["settings"], opened["settings"]),
    ):
        if new != old:
            raise changed_setting_error(entry.name, what, _or_none(new), _or_none(old))


def _settings(
    wanted: Mapping[str, Any], opened: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Settings of the auction, each as it is now and as it was."""
    for key in sorted(wanted.keys() | opened.keys()):
        yield f"auction.{key}", wanted.get(key), opened.get(key)


def _or_none(value: Any) -> Any:
    return "nothing" if value is None else value


def _cluster(
    entry: AuctionConfig, facts: Mapping[str, BaseFacts], energy: EnergyForecast
) -> Cluster:
    kinds = {}
    for name in entry.node_types:
        profile = _usable_profile(entry, facts, name)
        kinds[name] = NodeType(
            compute=profile.compute(entry.slot_seconds, entry.sample_tokens),
            memory_gb=profile.memory_gb / entry.nodes_per_device(name),
            energy_cost=tuple(energy(name, slot) for slot in range(entry.num_slots)),
        )
    return Cluster(
        slots=entry.num_slots,
        slot_seconds=entry.slot_seconds,
        base_memory_gb=max(one.profile.base_memory_gb for one in facts.values()),
        node_types=kinds,
        nodes=tuple(Node(node.id, node.type) for node in entry.nodes),
    )


def _usable_profile(entry: AuctionConfig, facts: Mapping[str, BaseFacts], name: str) -> Profile:
    """What a node type was measured to do, less what is kept back of it."""
    profile = facts[name].profile
    kept = 1 - (1 - profile.margin) * (1 - entry.node_types[name].headroom)
    return replace(profile, margin=kept)


def node_settings(entry: AuctionConfig, node_type: str, dirs: DataDirs) -> NodeSettings:
    """What a node's process is started with, before anything was measured."""
    on_cpu = sum(entry.node_types[node.type].device == "cpu" for node in entry.nodes)
    # How many cores other machines have is not known here.
    share = 1 if entry.uses_external_cluster else len(os.sched_getaffinity(0)) // max(1, on_cpu)
    threads = entry.threads or max(1, share)
    return NodeSettings(
        base=entry.base_source,
        cache=str(dirs.cache),
        device=entry.node_types[node_type].device,
        dtype=entry.dtype,
        mode=entry.mode,
        threads=threads,
        measure_seconds=entry.measure_seconds,
    )


def _explain(model: AuctionModel, decided: ZoneEvent) -> Explanation:
    task, decision = read_task(decided.body["task"]), read_decision(decided.body["decision"])
    return model.mechanism.explain(task, decision, model.state.slot)


def _tuned_settings(
    entry: AuctionConfig, node_type: str, dirs: DataDirs, facts: Mapping[str, BaseFacts]
) -> NodeSettings:
    profile = facts[node_type].profile
    return replace(
        node_settings(entry, node_type, dirs),
        token_budget=profile.micro_batch_tokens,
        overhead_tokens=round(profile.step_seconds / profile.token_seconds),
    )
