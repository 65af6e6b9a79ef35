"""Opening a market: its database, its bases and devices, its zones; and closing it again."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog

from auctune.device_profile import Profile
from auctune.domain import Admission, Cluster, InputError, Node, NodeType, RepeatedEnergy
from auctune.registry import build
from auctune.run.base_facts import BaseFacts, Report, learn_base
from auctune.run.data.client import DataClient
from auctune.run.executor import NodeSettings
from auctune.service.access.directory import Directory
from auctune.service.access.rate import RateLimit
from auctune.service.access.spending import Spending
from auctune.service.data_desk import DataDesk, house_vendor
from auctune.service.files.library import Library
from auctune.service.jobs.asked import Defaults
from auctune.service.jobs.replies import Replies
from auctune.service.jobs.submissions import Submissions
from auctune.service.market import Market
from auctune.service.open_zone import OpenZone
from auctune.service.quotes import Quotes
from auctune.service.recorder import LogRecorder, past_payments
from auctune.service.settings.service_file import ServiceFile, ZoneEntry
from auctune.service.store import Committer, EventLog, Pages, Snapshots, Store
from auctune.service.training.workshop import Workshop
from auctune.service.zone.clock import SlotClock
from auctune.service.zone.desk import Desk
from auctune.service.zone.event import VERSION, Kind
from auctune.service.zone.records import cluster_record, read_cluster
from auctune.service.zone.restart import opening_of, restart
from auctune.service.zone.state import ZoneState
from auctune.service.zone.supply import Supply
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


class OpenMarket:
    """A market that is open, until it is closed.

    Attributes:
        market: what the API speaks to.
        workshops: of the zones: they train.
    """

    def __init__(
        self,
        market: Market,
        workshops: list[Workshop],
        data: DataClient,
        committer: Committer,
    ) -> None:
        self.market = market
        self.workshops = workshops
        self._data = data
        self._committer = committer

    async def start(self) -> None:
        """Begin to train, and take up what was under way."""
        for workshop in self.workshops:
            await workshop.start()

    async def close(self) -> None:
        """Stop training, and write what is to be written."""
        await self.market.submissions.close()
        for workshop in self.workshops:
            await workshop.stop()
        for zone in self.market.zones.values():
            await asyncio.to_thread(zone.desk.close)
        await asyncio.to_thread(self._data.close)
        await asyncio.to_thread(self._committer.close)


def learn_zone(entry: ZoneEntry, place: Place, report: Report) -> dict[str, BaseFacts]:
    """What must be known of a zone's base, by node type; measured once on this machine.

    Raises:
        InputError: for an unknown base or device.
    """
    return {
        name: learn_base(_settings(entry, name, place), place.data / "profiles", report)
        for name in entry.node_types
    }


async def open_market(
    file: ServiceFile,
    facts: Mapping[str, Mapping[str, BaseFacts]],
    store: Store,
    place: Place,
    now: Callable[[], float] = time.time,
) -> OpenMarket:
    """Open all zones as they stood.

    Args:
        file: the settings.
        facts: of each zone's base, by zone and node type.
        store: owned, and closed by its owner afterwards.
        place: of everything else.
        now: tells unix time.
    """
    committer = Committer(store)
    pages, log = Pages(store.reader), EventLog(store.reader)
    directory = Directory(store.reader, committer, now)
    spending = Spending(directory, now, past_payments(store.reader))
    recorder = LogRecorder(committer, spending)
    library = Library(place.data / "files", pages, committer, file.limits.upload_bytes, now)
    data = DataClient(place.cache, log=place.data / "logs" / "data.log")
    zones: dict[str, OpenZone] = {}
    workshops: list[Workshop] = []
    for entry in file.zones:
        zone, workshop = await _open_zone(
            entry, facts[entry.name], store, place, recorder, committer, library, data, now
        )
        zones[entry.name] = zone
        workshops.append(workshop)
    quotes = Quotes(now)
    submissions = Submissions(zones, library, spending, quotes, now)
    for zone, workshop in zip(zones.values(), workshops, strict=True):
        workshop.attach(zone, submissions)
    market = Market(
        zones=zones,
        directory=directory,
        rate=RateLimit(file.limits.requests_per_second, file.limits.burst, time.monotonic),
        spending=spending,
        library=library,
        pages=pages,
        log=log,
        replies=Replies(store.reader, now),
        quotes=quotes,
        submissions=submissions,
        now=now,
    )
    return OpenMarket(market, workshops, data, committer)


async def _open_zone(
    entry: ZoneEntry,
    facts: Mapping[str, BaseFacts],
    store: Store,
    place: Place,
    recorder: LogRecorder,
    committer: Committer,
    library: Library,
    data: DataClient,
    now: Callable[[], float],
) -> tuple[OpenZone, Workshop]:
    log, snapshots = EventLog(store.reader), Snapshots(store.reader)
    opened = opening_of(entry.name, log)
    fresh_cluster = _cluster(entry, facts)
    record: dict[str, Any] = {
        "version": VERSION,
        "cluster": cluster_record(fresh_cluster),
        "profiles": {name: one.profile.to_json() for name, one in facts.items()},
        "mechanism": str(entry.auction.get("mechanism", "pdftsp")),
        "settings": {k: str(v) for k, v in entry.auction.items() if k != "mechanism"},
        "sample_tokens": entry.sample_tokens,
        "epoch": now() // entry.slot_seconds * entry.slot_seconds,
        "slot_seconds": entry.slot_seconds,
    }
    if opened is not None:
        record = opened.body
        _check_same(entry, fresh_cluster, read_cluster(record["cluster"]))
    cluster = read_cluster(record["cluster"])
    base = next(iter(facts.values()))
    supply = Supply(
        base=entry.base,
        base_digest=base.digest,
        context_tokens=base.context_tokens,
        cluster=cluster,
        profiles={
            name: Profile.from_json(text, f"profile of {name}")
            for name, text in record["profiles"].items()
        },
        sample_tokens=record["sample_tokens"],
    )

    def fresh() -> tuple[ZoneState, Admission]:
        energy = RepeatedEnergy(cluster)
        mechanism = build(record["mechanism"], cluster, record["settings"], energy=energy)
        return ZoneState(cluster), mechanism

    state, mechanism = await asyncio.to_thread(restart, entry.name, fresh, log, snapshots)
    clock = SlotClock(record["epoch"], record["slot_seconds"], now)
    zone = Zone(entry.name, supply, mechanism, state, clock, recorder)
    if opened is None:
        zone.happen(Kind.ZONE_OPENED, None, record)
    zone.begin_slots()
    desk = Desk(zone, recorder)
    vendors = [house_vendor(vendor) for vendor in entry.vendors]
    appraiser = DataDesk(entry.base, data, library, vendors)
    defaults = Defaults(
        max_length=entry.max_length, share=entry.share, context_tokens=base.context_tokens
    )
    found = OpenZone(entry.name, desk, supply, clock, defaults, appraiser)
    settings = {node.id: _node_settings(entry, node.type, place, facts) for node in entry.nodes}
    workshop = Workshop(
        settings,
        place.data / "work" / entry.name,
        place.data / "logs",
        library,
        data,
        {vendor.params.name: vendor for vendor in vendors},
        snapshots,
        committer,
    )
    return found, workshop


def _check_same(entry: ZoneEntry, wanted: Cluster, opened: Cluster) -> None:
    """What is sold cannot change while plans stand on it."""
    for what, now, before in (
        ("slots", wanted.slots, opened.slots),
        ("slot_seconds", wanted.slot_seconds, opened.slot_seconds),
        ("nodes", wanted.nodes, opened.nodes),
    ):
        if now != before:
            raise InputError(
                f"zone {entry.name}: {what}",
                f"{now} where the zone was opened with {before}",
                "the same, or another zone",
            )


def _cluster(entry: ZoneEntry, facts: Mapping[str, BaseFacts]) -> Cluster:
    kinds = {}
    for name, kind in entry.node_types.items():
        profile = facts[name].profile
        sharing = sum(entry.node_types[node.type].device == kind.device for node in entry.nodes)
        kinds[name] = NodeType(
            compute=profile.compute(entry.slot_seconds, entry.sample_tokens),
            memory_gb=profile.memory_gb / max(1, sharing),
            energy_cost=(kind.energy_cost,) * entry.num_slots,
        )
    return Cluster(
        slots=entry.num_slots,
        slot_seconds=entry.slot_seconds,
        base_memory_gb=max(one.profile.base_memory_gb for one in facts.values()),
        node_types=kinds,
        nodes=tuple(Node(node.id, node.type) for node in entry.nodes),
    )


def _settings(entry: ZoneEntry, node_type: str, place: Place) -> NodeSettings:
    import os

    on_cpu = sum(entry.node_types[node.type].device == "cpu" for node in entry.nodes)
    threads = entry.threads or max(1, len(os.sched_getaffinity(0)) // max(1, on_cpu))
    return NodeSettings(
        base=entry.base,
        cache=str(place.cache),
        device=entry.node_types[node_type].device,
        dtype=entry.dtype,
        mode=entry.mode,
        threads=threads,
    )


def _node_settings(
    entry: ZoneEntry, node_type: str, place: Place, facts: Mapping[str, BaseFacts]
) -> NodeSettings:
    profile = facts[node_type].profile
    return replace(
        _settings(entry, node_type, place),
        token_budget=profile.micro_batch_tokens,
        overhead_tokens=round(profile.step_seconds / profile.token_seconds),
    )
