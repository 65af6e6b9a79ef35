"""Zones of kind `auction`, as the service knows a kind."""

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

from auctune.device_profile import read_profile
from auctune.domain import InputError
from auctune.registry import check_settings
from auctune.run.base_facts import Alone, BaseFacts, Elsewhere, Report, learn_base
from auctune.service.config.auction import AuctionConfig
from auctune.service.config.zone import ZoneConfig
from auctune.service.zones.auction.executors import executor_factory
from auctune.service.zones.auction.loader import AuctionLoader, node_settings
from auctune.service.zones.auction.projection import AuctionProjection
from auctune.service.zones.auction.startup import KernelCompilation
from auctune.service.zones.auction.state import AuctionState
from auctune.service.zones.auction.supply import zone_energy
from auctune.service.zones.core.dependencies import DataDirs, ZoneDependencies
from auctune.service.zones.core.kind import BaseProfiles, LoadedZone


class AuctionKind:
    """All that the service must know of auctions' zones."""

    @property
    def views(self) -> AuctionProjection:
        """What readers see of their jobs."""
        return AuctionState.projection

    def check(self, entry: ZoneConfig, place: str, now: float) -> None:
        """Refuse settings that a start would refuse in the middle."""
        entry = _own(entry)
        try:
            check_settings(*entry.mechanism)
        except InputError as error:
            path = f"{place}.auction.{error.place}"
            raise InputError(path, error.found, error.expected) from None
        executor_factory(entry).check(f"{place}.executor")
        for index, vendor in enumerate(entry.vendors):
            vendor.params(f"{place}.vendors[{index}]")
        for kind in entry.node_types.values():
            if kind.profile is not None:
                read_profile(Path(kind.profile))
        zone_energy(entry, now)

    def prepare(self, entries: Iterable[ZoneConfig]) -> KernelCompilation:
        """Have what they decide with compiled."""
        return KernelCompilation([_own(entry) for entry in entries])

    def profile(
        self, entry: ZoneConfig, dirs: DataDirs, report: Report, alone: Alone
    ) -> dict[str, BaseFacts]:
        """What must be known of a zone's base, by node type; measured once where its nodes are."""
        entry, kept = _own(entry), dirs.profiles
        given = {
            name: None if kind.profile is None else read_profile(Path(kind.profile))
            for name, kind in entry.node_types.items()
        }
        facts = {}
        for name in entry.node_types:
            settings = node_settings(entry, name, dirs)
            # A type without nodes is asked here.
            nodes = [node.id for node in entry.nodes if node.type == name]
            work = dirs.work(entry.name)
            factory = executor_factory(entry)
            probe = factory.probe(nodes[0], settings, work) if nodes else nullcontext()
            with probe as start:
                there = None if start is None else Elsewhere(f"{entry.name} {name}", start)
                facts[name] = learn_base(settings, kept, report, given[name], alone, there)
        return facts

    async def open(
        self, entry: ZoneConfig, facts: BaseProfiles, dependencies: ZoneDependencies
    ) -> LoadedZone:
        """A zone as it stood."""
        return await AuctionLoader(dependencies).open(_own(entry), facts)


def _own(entry: ZoneConfig) -> AuctionConfig:
    assert isinstance(entry, AuctionConfig)
    return entry
