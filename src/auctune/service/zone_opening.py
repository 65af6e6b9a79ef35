"""Opening one zone as it stood: its supply, its log, its desk and its workshop."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from auctune.device_profile import Profile
from auctune.domain import Admission, Cluster, EnergyForecast, InputError, Node, NodeType
from auctune.numerics.jit import COMPILING, kernels_are_compiled
from auctune.registry import build
from auctune.run.base_facts import BaseFacts, Report
from auctune.run.data.client import DataClient
from auctune.run.executor import NodeSettings
from auctune.service.data_desk import DataDesk
from auctune.service.executors import nodes_of
from auctune.service.files.library import Library
from auctune.service.jobs.asked import Defaults
from auctune.service.open_zone import OpenZone
from auctune.service.repair.door import VendorDoor
from auctune.service.repair.house import house_vendor
from auctune.service.repair.mending import Mending
from auctune.service.repair.outside import OutsideVendor
from auctune.service.settings.zone_entry import ZoneEntry
from auctune.service.store import Committer, EventLog, Snapshots, Store
from auctune.service.training.workshop import Workshop
from auctune.service.zone.clock import SlotClock
from auctune.service.zone.desk import Desk
from auctune.service.zone.energy import zone_energy
from auctune.service.zone.event import VERSION, Kind
from auctune.service.zone.recorder import Recorder
from auctune.service.zone.records import cluster_record, read_cluster
from auctune.service.zone.restart import fresh_zone, opening_of, restart
from auctune.service.zone.supply import Supply
from auctune.service.zone.warm_up import warm_up
from auctune.service.zone.zone import Zone

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a service keeps what it has.

    Attributes:
        data: its folder.
        cache: folder of bases that are built on this machine.
    """

    data: Path
    cache: Path


@dataclass(frozen=True, slots=True)
class ZoneOpening:
    """What all zones are opened with."""

    store: Store
    place: Place
    recorder: Recorder
    committer: Committer
    library: Library
    data: DataClient
    report: Report
    alarm: Callable[[Exception], None]
    lock: int | None
    now: Callable[[], float]
    door: VendorDoor

    async def open(
        self, entry: ZoneEntry, facts: Mapping[str, BaseFacts]
    ) -> tuple[OpenZone, Workshop]:
        """One zone, as it stood."""
        log, snapshots = EventLog(self.store.reader), Snapshots(self.store.reader)
        opened = opening_of(entry.name, log)
        record = opening_record(entry, facts, self.now())
        if opened is not None:
            _check_same(entry, record, opened.body)
            record = opened.body
        supply = supply_of(entry, facts, record)
        await asyncio.to_thread(_warm_up, record, supply.cluster, self.report)
        energy = zone_energy(entry, record["epoch"])
        self.report(f"reading the log of zone {entry.name}", 0.0)
        state, mechanism = await asyncio.to_thread(
            restart, entry.name, lambda: fresh_zone(record, energy), log, snapshots
        )
        clock = SlotClock(record["epoch"], record["slot_seconds"], self.now)
        zone = Zone(entry.name, supply, mechanism, state, clock, self.recorder)
        if opened is None:
            zone.happen(Kind.ZONE_OPENED, None, record)
        zone.begin_slots()
        desk = Desk(zone, self.recorder, self.alarm)
        house, outside = house_vendor(entry.house, self.data), self._outside(entry)
        looks = DataDesk(
            entry.base, self.data, self.library, house, outside, entry.quote_seconds, self.now
        )
        context = supply.context_tokens
        open_zone = OpenZone(
            entry.name,
            desk,
            supply,
            clock,
            Defaults(max_length=entry.max_length, share=entry.share, context_tokens=context),
            looks,
            lambda: fresh_zone(record),
        )
        place = self.place
        work = place.data / "work" / entry.name
        vendors = {one.name: one for one in (house, *outside) if one is not None}
        settings = {n.id: _tuned_settings(entry, n.type, place, facts) for n in entry.nodes}
        # The lock keeps other markets from meeting what is still alive of this one.
        logs, lock = place.data / "logs", self.lock
        workshop = Workshop(
            nodes_of(entry).executor(settings, work, logs, lock),
            work,
            self.library,
            self.data,
            Mending(open_zone, vendors, looks, self.library, work),
            snapshots,
            self.committer,
            self.alarm,
        )
        return open_zone, workshop

    def _outside(self, entry: ZoneEntry) -> tuple[OutsideVendor, ...]:
        place = f"zone {entry.name}: vendors"
        return self.door.vendors(
            vendor.params(f"{place}[{index}]") for index, vendor in enumerate(entry.vendors)
        )


def opening_record(entry: ZoneEntry, facts: Mapping[str, BaseFacts], now: float) -> dict[str, Any]:
    """The body of the event with which a zone opens: all that its decisions follow from."""
    mechanism, settings = entry.mechanism
    epoch = now // entry.slot_seconds * entry.slot_seconds
    cluster = _cluster(entry, facts, zone_energy(entry, epoch))
    return {
        "version": VERSION,
        "base": entry.base,
        "cluster": cluster_record(cluster),
        "profiles": {name: _sold(entry, facts, name).to_json() for name in facts},
        "mechanism": mechanism,
        "settings": settings,
        "sample_tokens": entry.sample_tokens,
        "epoch": epoch,
        "slot_seconds": entry.slot_seconds,
    }


def supply_of(
    entry: ZoneEntry, facts: Mapping[str, BaseFacts], record: Mapping[str, Any]
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


def _check_same(entry: ZoneEntry, wanted: Mapping[str, Any], opened: Mapping[str, Any]) -> None:
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
            raise InputError(
                f"zone {entry.name}: {what}",
                f"{_said(new)} where the zone was opened with {_said(old)}",
                "the same, or another zone",
            )


def _settings(
    wanted: Mapping[str, Any], opened: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Settings of the auction, each as it is now and as it was."""
    for key in sorted(wanted.keys() | opened.keys()):
        yield f"auction.{key}", wanted.get(key), opened.get(key)


def _said(value: Any) -> Any:
    return "nothing" if value is None else value


def _cluster(entry: ZoneEntry, facts: Mapping[str, BaseFacts], energy: EnergyForecast) -> Cluster:
    kinds = {}
    for name, kind in entry.node_types.items():
        profile = _sold(entry, facts, name)
        sharing = sum(entry.node_types[node.type].device == kind.device for node in entry.nodes)
        kinds[name] = NodeType(
            compute=profile.compute(entry.slot_seconds, entry.sample_tokens),
            memory_gb=profile.memory_gb / max(1, sharing),
            energy_cost=tuple(energy(name, slot) for slot in range(entry.num_slots)),
        )
    return Cluster(
        slots=entry.num_slots,
        slot_seconds=entry.slot_seconds,
        base_memory_gb=max(one.profile.base_memory_gb for one in facts.values()),
        node_types=kinds,
        nodes=tuple(Node(node.id, node.type) for node in entry.nodes),
    )


def _sold(entry: ZoneEntry, facts: Mapping[str, BaseFacts], name: str) -> Profile:
    """What a node type was measured to do, less what is kept back of it."""
    profile = facts[name].profile
    kept = 1 - (1 - profile.margin) * (1 - entry.node_types[name].spare)
    return replace(profile, margin=kept)


def node_settings(entry: ZoneEntry, node_type: str, place: Place) -> NodeSettings:
    """What a node's process is started with, before anything was measured."""
    on_cpu = sum(entry.node_types[node.type].device == "cpu" for node in entry.nodes)
    # How many cores other machines have is not known here.
    share = 1 if entry.adopts else len(os.sched_getaffinity(0)) // max(1, on_cpu)
    threads = entry.threads or max(1, share)
    return NodeSettings(
        base=entry.base,
        cache=str(place.cache),
        device=entry.node_types[node_type].device,
        dtype=entry.dtype,
        mode=entry.mode,
        threads=threads,
    )


def _tuned_settings(
    entry: ZoneEntry, node_type: str, place: Place, facts: Mapping[str, BaseFacts]
) -> NodeSettings:
    profile = facts[node_type].profile
    return replace(
        node_settings(entry, node_type, place),
        token_budget=profile.micro_batch_tokens,
        overhead_tokens=round(profile.step_seconds / profile.token_seconds),
    )
