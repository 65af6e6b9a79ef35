"""Opening a market: its database, its bases and devices, its zones; and closing it again."""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path

import structlog

from auctune.device_profile import read_profile
from auctune.run.base_facts import Alone, BaseFacts, Report, at_once, learn_base
from auctune.run.data.client import DataClient
from auctune.service.access.directory import Directory
from auctune.service.access.open_jobs import OpenJobs, stored_open_jobs
from auctune.service.access.rate import RateLimit
from auctune.service.access.spending import Spending
from auctune.service.access.streams import Streams
from auctune.service.audible_recorder import AudibleRecorder
from auctune.service.executors import nodes_of
from auctune.service.explanations import Explanations
from auctune.service.files.library import Library
from auctune.service.files.room import FileLimits
from auctune.service.jobs.replies import Replies
from auctune.service.jobs.submissions import Submissions
from auctune.service.market import Market
from auctune.service.metrics import Metrics
from auctune.service.news import News
from auctune.service.open_zone import OpenZone
from auctune.service.pauses import Pauses
from auctune.service.quotes import Quotes
from auctune.service.recorder import LogRecorder
from auctune.service.repair.door import VendorDoor
from auctune.service.settings.service_file import ServiceFile
from auctune.service.settings.zone_entry import ZoneEntry
from auctune.service.store import Committer, EventLog, Pages, Snapshots, Store
from auctune.service.training.workshop import Workshop
from auctune.service.webhooks.opening import open_messenger
from auctune.service.zone_opening import Place, ZoneOpening, node_settings

_log = structlog.get_logger(__name__)


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
        door: VendorDoor,
    ) -> None:
        self.market = market
        self.workshops = workshops
        self._data = data
        self._committer = committer
        self._door = door

    async def start(self) -> None:
        """Begin to train, and take up what was under way."""
        self.market.messenger.start()
        for workshop in self.workshops:
            await workshop.start()

    async def close(self) -> None:
        """Stop training, and write what is to be written."""
        await self.market.messenger.close()
        await self.market.submissions.close()
        for workshop in self.workshops:
            await workshop.stop()
        await self._door.close()
        for zone in self.market.zones.values():
            await asyncio.to_thread(zone.desk.close)
        await asyncio.to_thread(self._data.close)
        await asyncio.to_thread(self._committer.close)


def learn_zone(
    entry: ZoneEntry, place: Place, report: Report, alone: Alone = at_once
) -> dict[str, BaseFacts]:
    """What must be known of a zone's base, by node type; measured once where its nodes are.

    Args:
        entry: the zone.
        place: of data and cache.
        report: told how far it is.
        alone: waits until nothing else is at work, before anything is measured.

    Raises:
        InputError: for an unknown base or device, or a profile that cannot be used.
    """
    kept = place.data / "profiles"
    given = {
        name: None if kind.profile is None else read_profile(Path(kind.profile))
        for name, kind in entry.node_types.items()
    }
    facts = {}
    for name in entry.node_types:
        settings = node_settings(entry, name, place)
        # A type without nodes is asked here.
        nodes = [node.id for node in entry.nodes if node.type == name]
        work = place.data / "work" / entry.name
        asking = nodes_of(entry).asking(nodes[0], settings, work) if nodes else nullcontext()
        with asking as elsewhere:
            facts[name] = learn_base(settings, kept, report, given[name], alone, elsewhere)
    return facts


async def open_market(
    file: ServiceFile,
    facts: Mapping[str, Mapping[str, BaseFacts]],
    store: Store,
    place: Place,
    report: Report,
    alarm: Callable[[Exception], None],
    lock: int | None = None,
    now: Callable[[], float] = time.time,
    data: DataClient | None = None,
    url: str = "http://127.0.0.1",
) -> OpenMarket:
    """Open all zones as they stood.

    Args:
        file: the settings.
        facts: of each zone's base, by zone and node type.
        store: owned, and closed by its owner afterwards.
        place: of everything else.
        report: told how far opening is.
        alarm: told if a zone cannot go on: its memory is no longer what is on disk.
        lock: descriptor of a lock that nodes hold too; none: there is none.
        now: tells unix time.
        data: the data process, closed with the market; none: one for the bases of `place`.
        url: where the market is reached, if the settings do not say.

    Raises:
        InputError: if the settings are not those with which a zone was opened.
    """
    committer = Committer(store)
    pages, log = Pages(store.reader), EventLog(store.reader)
    directory = Directory(store.reader, committer, now)
    spending = Spending(directory, now, store.reader)
    open_jobs = OpenJobs(file.limits.open_jobs, stored_open_jobs(store.reader))
    metrics, news = Metrics(open_jobs), News()
    recorder = AudibleRecorder(LogRecorder(committer, spending), open_jobs, metrics, news)
    of = file.limits
    limits = FileLimits(of.upload_bytes, of.uploads, of.files, of.stored_bytes)
    library = Library(place.data / "files", pages, committer, limits, now)
    if data is None:
        data = DataClient(place.cache, log=place.data / "logs" / "data.log")
    door = VendorDoor(file.public_url or url, now)
    opening = ZoneOpening(
        store, place, recorder, committer, library, data, report, alarm, lock, now, door
    )
    zones: dict[str, OpenZone] = {}
    workshops: list[Workshop] = []
    for entry in file.zones:
        zone, workshop = await opening.open(entry, facts[entry.name])
        zones[entry.name] = zone
        workshops.append(workshop)
    quotes = Quotes(now)
    submissions = Submissions(zones, library, spending, open_jobs, quotes, now)
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
        open_jobs=open_jobs,
        explanations=Explanations(
            log, Snapshots(store.reader), {name: zone.fresh for name, zone in zones.items()}
        ),
        messenger=open_messenger(file, place.data, store.reader, committer, news, now),
        committer=committer,
        metrics=metrics,
        news=news,
        streams=Streams(file.limits.streams),
        pauses=Pauses(store.reader, committer, submissions.paused),
        vendor_data=door.app,
        work=place.data / "work",
        now=now,
    )
    return OpenMarket(market, workshops, data, committer, door)
