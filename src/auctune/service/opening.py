"""Opening a market: its database, its bases and devices, its zones; and closing it again."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from auctune.device_profile import read_profile
from auctune.run.base_facts import BaseFacts, Report, learn_base
from auctune.run.data.client import DataClient
from auctune.service.access.directory import Directory
from auctune.service.access.rate import RateLimit
from auctune.service.access.spending import Spending
from auctune.service.files.library import Library
from auctune.service.jobs.replies import Replies
from auctune.service.jobs.submissions import Submissions
from auctune.service.market import Market
from auctune.service.open_zone import OpenZone
from auctune.service.quotes import Quotes
from auctune.service.recorder import LogRecorder, past_payments
from auctune.service.settings.service_file import ServiceFile, ZoneEntry
from auctune.service.store import Committer, EventLog, Pages, Store
from auctune.service.training.workshop import Workshop
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
        InputError: for an unknown base or device, or a profile that cannot be used.
    """
    kept = place.data / "profiles"
    given = {
        name: None if kind.profile is None else read_profile(Path(kind.profile))
        for name, kind in entry.node_types.items()
    }
    return {
        name: learn_base(node_settings(entry, name, place), kept, report, given[name])
        for name in entry.node_types
    }


async def open_market(
    file: ServiceFile,
    facts: Mapping[str, Mapping[str, BaseFacts]],
    store: Store,
    place: Place,
    report: Report,
    alarm: Callable[[Exception], None],
    lock: int | None = None,
    now: Callable[[], float] = time.time,
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

    Raises:
        InputError: if the settings are not those with which a zone was opened.
    """
    committer = Committer(store)
    pages, log = Pages(store.reader), EventLog(store.reader)
    directory = Directory(store.reader, committer, now)
    spending = Spending(directory, now, past_payments(store.reader))
    recorder = LogRecorder(committer, spending)
    library = Library(place.data / "files", pages, committer, file.limits.upload_bytes, now)
    data = DataClient(place.cache, log=place.data / "logs" / "data.log")
    opening = ZoneOpening(
        store, place, recorder, committer, library, data, report, alarm, lock, now
    )
    zones: dict[str, OpenZone] = {}
    workshops: list[Workshop] = []
    for entry in file.zones:
        zone, workshop = await opening.open(entry, facts[entry.name])
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
