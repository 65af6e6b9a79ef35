"""Opening a market: its database, its bases and devices, its zones; and closing it again."""

import asyncio
import time
from collections.abc import Callable, Mapping

import structlog

from auctune.domain import InputError
from auctune.run.base_facts import Alone, Report, at_once
from auctune.run.data.client import DataClient
from auctune.service.access.directory import Directory
from auctune.service.access.open_jobs import OpenJobs, stored_bids, stored_open_jobs
from auctune.service.access.rate import RateLimit
from auctune.service.access.spending import Spending
from auctune.service.access.streams import Streams
from auctune.service.access.turns import Turns
from auctune.service.audible_recorder import AudibleRecorder
from auctune.service.background import Background
from auctune.service.config.models import ServiceConfig
from auctune.service.config.zone import AUCTION, ZoneConfig
from auctune.service.explanations import Explanations
from auctune.service.files.disk import Disk
from auctune.service.files.library import Library
from auctune.service.files.room import FileLimits
from auctune.service.jobs.budget_turns import BudgetTurns
from auctune.service.jobs.replies import Replies
from auctune.service.jobs.submissions import Submissions
from auctune.service.market import Market
from auctune.service.metrics import Metrics
from auctune.service.notifier import Notifier
from auctune.service.page.chart_client import ChartClient
from auctune.service.pauses import Pauses
from auctune.service.quotes import Quotes
from auctune.service.recorder import LogRecorder
from auctune.service.store import Committer, EventLog, Pages, Store
from auctune.service.upkeep import ClockError, clock_fault, keep_up
from auctune.service.vendors.repairer import VendorGateway
from auctune.service.webhooks.dispatcher import WebhookDispatcher
from auctune.service.zones.kind import Facts
from auctune.service.zones.kinds import KINDS, kind_of_opening
from auctune.service.zones.open_zone import OpenZone
from auctune.service.zones.premises import Place, Premises
from auctune.service.zones.restart import opening_of
from auctune.service.zones.workshop import Workshop

DAY = 86_400.0

_log = structlog.get_logger(__name__)


def _nobody(_what: str, _share: float) -> None:
    """Nobody is told."""


class OpenMarket:
    """A market that is open, until it is closed.

    Attributes:
        market: what the API speaks to.
        workshops: by zone; they train.
    """

    def __init__(
        self,
        market: Market,
        workshops: dict[str, Workshop],
        data: DataClient,
        committer: Committer,
        vendor_gateway: VendorGateway,
    ) -> None:
        self.market = market
        self.workshops = workshops
        self._data = data
        self._committer = committer
        self._vendor_gateway = vendor_gateway
        self._background = Background()

    async def start(self, report: Report = _nobody) -> None:
        """Begin to train, and take up what was under way.

        Args:
            report: told which zone it waits for: nodes of some take a minute to be there.
        """
        self.market.webhooks.start()
        self._background.spawn(keep_up(self.market.now, self.market.library.trash))
        for zone, workshop in self.workshops.items():
            report(f"starting zone {zone}", 0.0)
            await workshop.start()
        await self.market.submissions.resume()

    async def close(self) -> None:
        """Stop training, and write what is to be written."""
        await self._background.close()
        await self.market.webhooks.close()
        await self.market.charts.close()
        await self.market.submissions.close()
        for workshop in self.workshops.values():
            await workshop.stop()
        await self._vendor_gateway.close()
        for zone in self.market.zones.values():
            await asyncio.to_thread(zone.desk.close)
        await asyncio.to_thread(self._data.close)
        await asyncio.to_thread(self._committer.close)


def learn_zone(entry: ZoneConfig, place: Place, report: Report, alone: Alone = at_once) -> Facts:
    """What must be known of a zone's base, by node type; measured once on this machine.

    Args:
        entry: the zone.
        place: of data and cache.
        report: told how far it is.
        alone: waits until nothing else is at work, before anything is measured.

    Raises:
        InputError: for an unknown base or device, or a profile that cannot be used.
    """
    try:
        return KINDS[entry.kind].profile(entry, place, report, alone)
    except InputError as error:
        raise error.within(f"zone {entry.name}") from None


async def open_market(
    file: ServiceConfig,
    facts: Mapping[str, Facts],
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
    bids = RateLimit(file.limits.bids_per_day / DAY, file.limits.bids_per_day, time.monotonic)
    for owner, at in stored_bids(store.reader, now() - DAY):
        bids.count_earlier(owner, now() - at)
    metrics, notifier = Metrics(open_jobs), Notifier()
    recorder = AudibleRecorder(LogRecorder(committer, spending), open_jobs, metrics, notifier)
    of = file.limits
    limits = FileLimits(
        of.upload_bytes,
        of.uploads,
        of.files,
        of.stored_bytes,
        of.uploads_per_day,
        of.upload_bytes_per_day,
    )
    disk = Disk(place.data, of.reserved_bytes)
    library = Library(place.data / "files", pages, committer, limits, now, disk)
    if data is None:
        data = DataClient(
            place.cache,
            log=place.data / "logs" / "data.log",
            max_row_characters=of.row_characters,
            max_file_seconds=of.examination_seconds,
            reserve_bytes=2 * of.reserved_bytes,
        )
    vendor_gateway = VendorGateway(file.public_url or url, now)
    quotes, turns = Quotes(now), BudgetTurns(spending, is_alone=len(file.zones) == 1)
    premises = Premises(
        store=store,
        place=place,
        recorder=recorder,
        committer=committer,
        library=library,
        data=data,
        turns=turns,
        quotes=quotes,
        report=report,
        on_fatal_error=alarm,
        lock=lock,
        now=now,
        vendor_gateway=vendor_gateway,
    )
    zones: dict[str, OpenZone] = {}
    workshops: dict[str, Workshop] = {}
    for entry in file.zones:
        _check_kind(entry, log)
        opened = await KINDS[entry.kind].open(entry, facts[entry.name], premises)
        zones[entry.name] = opened.zone
        workshops[entry.name] = opened.workshop

    def check_bids() -> None:
        if (fault := clock_fault(now)) is not None:
            raise ClockError(fault)
        disk.check()

    submissions = Submissions(zones, open_jobs, quotes, library, check_bids)
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
            log, {one.name: one.explainer for one in zones.values() if one.explainer is not None}
        ),
        webhooks=WebhookDispatcher(file, place.data, store.reader, committer, notifier, now),
        committer=committer,
        store=store,
        metrics=metrics,
        notifier=notifier,
        searches=Turns(),
        streams=Streams(of.streams),
        requests=Streams(of.requests, "requests"),
        bids=bids,
        bid_bytes=RateLimit(of.bid_bytes_per_day / DAY, of.bid_bytes_per_day, time.monotonic),
        pauses=Pauses(store.reader, committer, submissions.paused),
        charts=ChartClient(place.data / "logs" / "charts.log"),
        vendor_app=vendor_gateway.app,
        work=place.data / "work",
        now=now,
    )
    return OpenMarket(market, workshops, data, committer, vendor_gateway)


def _check_kind(entry: ZoneConfig, log: EventLog) -> None:
    """A zone's log is of one kind: of another one, none of its promises would be understood.

    Raises:
        InputError: if the zone was opened as one of another kind.
    """
    before = opening_of(entry.name, log)
    if before is None or KINDS[entry.kind] is kind_of_opening(before.body):
        return
    found = f"{entry.kind!r} where the zone was opened with {before.body.get('kind', AUCTION)!r}"
    raise InputError(f"zone {entry.name}: kind", found, "the same, or another zone")
