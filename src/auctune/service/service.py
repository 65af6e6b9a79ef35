"""Build the service from its settings, start it, and close it again."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import Engine
from starlette.types import ASGIApp

from auctune.domain import InputError
from auctune.engine.base_facts import Alone, BaseFacts, Report, at_once
from auctune.engine.data.client import DataClient
from auctune.engine.unix_time import SlotClock
from auctune.service.accounts.budgets import BudgetLocks, BudgetTracker
from auctune.service.accounts.limits import (
    LateResponses,
    OpenJobs,
    OpenLimiter,
    StoredOpenJob,
    TokenBuckets,
    load_open_jobs,
    stored_bids,
)
from auctune.service.accounts.registry import (
    NO_TERMS,
    Account,
    AccountRegistry,
    Budget,
    DefaultTerms,
    KeyRecord,
)
from auctune.service.charts.renderer import ChartRenderer
from auctune.service.config.models import BillingConfig, ServiceConfig
from auctune.service.config.zone import LanguageZoneConfig, ZoneConfig
from auctune.service.datasets.repairer import VendorGateway
from auctune.service.datasets.training_data import StartModels
from auctune.service.event_writer import LogWriter, read_job
from auctune.service.fair_queue import Gate, ReadThreads, in_thread, make_task
from auctune.service.file_lifecycle import FileLifecycle
from auctune.service.files.blobs import Disk, Trash
from auctune.service.files.repository import FileRepository
from auctune.service.identifiers import JOB_ID
from auctune.service.inference.catalog import ModelCatalog
from auctune.service.inference.evaluation import EvaluationService
from auctune.service.inference.generation import GenerationService
from auctune.service.integrations.wandb_logger import WandbLogger
from auctune.service.jobs.quotes import QuoteStore
from auctune.service.jobs.request import IdempotencyStore
from auctune.service.metrics import Metrics
from auctune.service.storage import Committer, EventLog, Queries, Store, WriteBatch, tables
from auctune.service.storage.committer import durable
from auctune.service.storage.engine import StoreError
from auctune.service.storage.queries import JobReadModel, read_values
from auctune.service.storage_billing import StorageBilling
from auctune.service.submissions import ClockError, FutureLogs, SubmissionService, clock_fault
from auctune.service.tasks import Notifier, TaskSet
from auctune.service.webhooks.dispatcher import WebhookDispatcher
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.gateway import AnyGateway
from auctune.service.zones.core.kind import ZoneKind
from auctune.service.zones.core.projection import JobProjection
from auctune.service.zones.core.snapshots import ExplanationService, created_event
from auctune.service.zones.core.worker import BaseProfiles, DataDirs, ZoneDependencies, ZoneWorker
from auctune.service.zones.kinds import find_kind

_log = structlog.get_logger(__name__)

DAY = 86_400.0
_PAUSED = "paused:"
_CHECK_SECONDS = 1.0
_REQUESTS_AT_WORK = 16
_PURGE_SECONDS = 3600.0
_EXPIRY_SECONDS = 10.0
_BILLING_SECONDS = 10.0

BURST_SECONDS = 2.0
"""A key that was idle may send the requests of so many seconds at once."""
MAX_REQUESTS = 500
"""Requests of a user that are not answered yet, event streams included."""
MAX_STREAMS = 20
"""Event streams of a key that are open at once."""
BID_BYTES_PER_DAY = 100_000_000
"""Bytes of a user's bids in a day: each is kept forever, as about twice its request and 3 kB."""
RESERVED_BYTES = 1024**3
"""Kept free on the disk of the data folder: with less, uploads and bids are refused."""


async def keep_up(
    now: Callable[[], float], trash: Trash, idempotency: IdempotencyStore, committer: Committer
) -> None:
    """Log clock jumps and their end, and remove what has expired every hour, until cancelled."""
    before, purge_in = None, 0.0
    while True:
        fault = clock_fault(now)
        if fault is not None and before is None:
            _log.critical("not ready", reason=fault)
        elif fault is None and before is not None:
            _log.warning("ready again: the machine's clock is back")
        before = fault
        if fault is None and purge_in <= 0.0:
            await asyncio.to_thread(trash.purge)
            with suppress(StoreError):
                await idempotency.prune(committer)
            purge_in = _PURGE_SECONDS
        purge_in -= _CHECK_SECONDS
        await asyncio.sleep(_CHECK_SECONDS)


class PausedZones:
    """Zones that are paused, also after a restart: they take no bids; admitted jobs continue.

    `paused` is shared with the router; this object fills and updates it.
    """

    def __init__(self, reader: Engine, committer: Committer, paused: set[str]) -> None:
        self._committer = committer
        self.paused = paused
        paused.update(read_values(reader, _PAUSED))

    async def pause(self, zone: str) -> None:
        self.paused.add(zone)
        row = {"name": _PAUSED + zone, "value": "yes"}
        await durable(self._committer, WriteBatch().upsert(tables.meta, row))

    async def resume(self, zone: str) -> None:
        await durable(self._committer, WriteBatch().remove(tables.meta, {"name": _PAUSED + zone}))
        self.paused.discard(zone)


@dataclass(frozen=True)
class Service:
    """Everything that the API and the page use.

    Attributes:
        zones: by name; the first is the default.
        lifecycle: deletes files.
        storage: charges for files.
        rate: rate limit of requests, by key.
        late: rate limit of responses to those without a key, or beyond its rate.
        idempotency: jobs of recent requests, for retries.
        open_jobs: limits the open jobs of each user.
        streams: number of open event streams, by key.
        gate: before the routes: which requests work now.
        reads: threads that read the database for requests.
        future_logs: zones that take no bids until the clock has reached their logs.
        bids: rate limit of stored bids, by user; `bid_bytes` limits their bytes.
        models: that answer requests.
        generation: of the answers.
        vendor_app: where vendors fetch shared data sets; None if there are no external vendors.
        work: folder of checkpoints and adapters, one a zone.
    """

    zones: dict[str, AnyGateway]
    accounts: AccountRegistry
    rate: TokenBuckets
    late: LateResponses
    spending: BudgetTracker
    files: FileRepository
    lifecycle: FileLifecycle
    storage: StorageBilling
    queries: Queries
    log: EventLog
    idempotency: IdempotencyStore
    quotes: QuoteStore
    submissions: SubmissionService
    open_jobs: OpenJobs
    explanations: ExplanationService
    webhooks: WebhookDispatcher
    wandb: WandbLogger
    committer: Committer
    store: Store
    metrics: Metrics
    notifier: Notifier
    streams: OpenLimiter
    gate: Gate
    reads: ReadThreads
    bids: TokenBuckets
    bid_bytes: TokenBuckets
    future_logs: FutureLogs
    pauses: PausedZones
    charts: ChartRenderer
    models: ModelCatalog
    generation: GenerationService
    evaluations: EvaluationService
    vendor_app: ASGIApp | None
    billing: BillingConfig
    work: Path
    now: Callable[[], float]
    _closed: dict[str, tuple[ZoneKind[Any], SlotClock]] = field(default_factory=dict)

    def unready_reason(self) -> str | None:
        """Return why the service takes no bids now, or None."""
        if self.committer.outage is not None:
            return "the database cannot be written"
        if any(zone.actor.failure is not None for zone in self.zones.values()):
            return "the log cannot be written"
        return clock_fault(self.now) or self.future_logs.any_fault()

    def clock(self, zone: str) -> SlotClock:
        """Return the slot clock of a zone, also of one that is no longer in the settings."""
        found = self.zones.get(zone)
        if found is not None:
            return found.clock
        return self._closed_zone(zone)[1]

    def projection(self, zone: str) -> JobProjection[Any]:
        """Return the projection of a zone's jobs, also of one that is no longer in the settings."""
        found = self.zones.get(zone)
        kind = find_kind(found.kind) if found is not None else self._closed_zone(zone)[0]
        return kind.projection

    async def job(self, name: str, owner: str | None) -> JobReadModel | None:
        """Return a job; None if it does not exist, or belongs to another user than `owner`."""
        if not re.fullmatch(JOB_ID, name):
            return None
        row = await in_thread(self.queries.job, name)
        if row is None or (owner is not None and row.owner != owner):
            return None
        return read_job(row)

    def _closed_zone(self, zone: str) -> tuple[ZoneKind[Any], SlotClock]:
        if zone not in self._closed:
            opened = created_event(zone, self.log)
            assert opened is not None
            body = opened.body
            clock = SlotClock(body["epoch"], body["slot_seconds"], self.now)
            self._closed[zone] = find_kind(body["kind"]), clock
        return self._closed[zone]

    async def put_team(
        self, name: str, budget: Budget | None, terms: DefaultTerms = NO_TERMS
    ) -> Account:
        """Add a team, or change its budget and default terms; payments within its period count."""
        team = await self.accounts.put_team(name, budget, terms)
        await self.spending.reload(team, self.committer)
        return team

    async def change_key(
        self, record: KeyRecord, budget: Budget | None, terms: DefaultTerms
    ) -> KeyRecord:
        """Change a key's budget and default terms; payments within the budget's period count."""
        changed = await self.accounts.change_key(record, budget, terms)
        await self.spending.reload(changed.account, self.committer)
        return changed

    async def put_user(
        self, name: str, team: str | None, budget: Budget | None, terms: DefaultTerms = NO_TERMS
    ) -> Account:
        """Add a user, or change its team, budget and default terms; payments within it count."""
        before = self.spending.accounts(name)
        user = await self.accounts.put_user(name, team, budget, terms)
        # The budget of the team that the user left is reloaded too.
        changed = {one.key: one for one in (*before, *self.spending.accounts(name))}
        for account in changed.values():
            await self.spending.reload(account, self.committer)
        return user


def _ignore(_what: str, _share: float) -> None: ...


class ServiceRuntime:
    """Background parts of a service, until it is closed."""

    def __init__(
        self,
        service: Service,
        workers: dict[str, ZoneWorker[Any]],
        data: DataClient,
        bases: Collection[str],
        committer: Committer,
        vendor_gateway: VendorGateway,
        on_fatal_error: Callable[[Exception], None],
    ) -> None:
        self.service = service
        self._on_fatal_error = on_fatal_error
        self.workers = workers
        self._data = data
        self._bases = bases
        self._committer = committer
        self._vendor_gateway = vendor_gateway
        self._tasks = TaskSet()

    async def start(self, report: Report = _ignore) -> None:
        """Start training, and resume what was under way.

        `report` is called with the zone that is waited for: some nodes take a minute to start.
        """
        self.service.webhooks.start()
        self.service.wandb.start()
        trash, idempotency = self.service.files.trash, self.service.idempotency
        self._tasks.spawn(keep_up(self.service.now, trash, idempotency, self._committer))
        self._tasks.spawn(self.service.lifecycle.run(_EXPIRY_SECONDS, self.service.unready_reason))
        billing = self.service.storage.run(_BILLING_SECONDS, self.service.unready_reason)
        self._tasks.spawn(billing)
        for zone in self.workers:
            if self.service.future_logs.fault(zone) is not None:
                self._tasks.spawn(self._start_when_reached(zone))
                continue
            report(f"starting zone {zone}", 0.0)
            await self._start_zone(zone)
        await self.service.submissions.resume()
        # Else the first small file would wait for imports and its tokenizer, seconds of a core.
        # Nothing waits for them, and only now, so that the service is ready no later.
        for base in self._bases:
            self._data.prepare(base)

    async def _start_zone(self, zone: str) -> None:
        await self.service.zones[zone].decide_pending()
        await self.workers[zone].start()

    async def _start_when_reached(self, zone: str) -> None:
        """Start a zone whose log ends in the future once the clock has reached it."""
        _log.critical("not ready", reason=self.service.future_logs.fault(zone))
        while self.service.future_logs.fault(zone) is not None:
            await asyncio.sleep(_CHECK_SECONDS)
        _log.warning("the clock has reached the log of a zone", zone=zone)
        try:
            await self._start_zone(zone)
        except Exception as error:
            self._on_fatal_error(error)

    async def close(self) -> None:
        """Stop training, and commit what is pending."""
        await self._tasks.close()
        await self.service.webhooks.close()
        await self.service.wandb.close()
        await self.service.charts.close()
        await self.service.submissions.close()
        await self.service.generation.close()
        for worker in self.workers.values():
            await worker.stop()
        await self._vendor_gateway.close()
        self.service.reads.close()
        for zone in self.service.zones.values():
            await asyncio.to_thread(zone.actor.close)
        await asyncio.to_thread(self._data.close)
        await asyncio.to_thread(self._committer.close)


def profile_zone(
    zone: ZoneConfig, place: DataDirs, report: Report, alone: Alone = at_once
) -> BaseProfiles:
    """Load or measure the profiles of a zone's base, by node type.

    `alone` waits until nothing else runs, before anything is measured. A profile says what a worker
    does with its share of the machine.
    """
    try:
        found = find_kind(zone.kind).profile(zone, place, report, alone)
    except InputError as error:
        raise error.within(f"zone {zone.name}") from None
    return {name: _share_device(facts, zone) for name, facts in found.items()}


def _share_device(facts: BaseFacts, zone: ZoneConfig) -> BaseFacts:
    if not isinstance(zone, LanguageZoneConfig) or facts.profile.origin.device != "cpu":
        return facts
    return replace(facts, profile=facts.profile.at_share(zone.worker_share))


async def build_service(
    config: ServiceConfig,
    facts: Mapping[str, BaseProfiles],
    store: Store,
    place: DataDirs,
    report: Report,
    on_fatal_error: Callable[[Exception], None],
    lock: int | None = None,
    now: Callable[[], float] = time.time,
    data: DataClient | None = None,
    url: str = "http://127.0.0.1",
) -> ServiceRuntime:
    """Build the service, with all zones as they were when it was closed.

    Args:
        facts: of each zone's base, by zone and node type.
        store: the database, which the caller owns and closes.
        place: of everything else.
        on_fatal_error: called if the state of a zone is no longer what is on disk.
        lock: descriptor of a lock that nodes hold too; None: there is none.
        data: the data process, closed with the service; None: one for the bases of `place`.
        url: URL of the service, if the settings have none.

    Raises:
        InputError: if the settings are not those with which a zone was opened.
    """
    asyncio.get_running_loop().set_task_factory(make_task)
    limits = config.limits
    committer = Committer(store)
    queries, log = Queries(store.reader), EventLog(store.reader)
    accounts = AccountRegistry(store.reader, committer, now, config.default_terms)
    spending = BudgetTracker(accounts, now, store.reader)
    stored_jobs = load_open_jobs(store.reader)
    _warn_of_closed_zones(stored_jobs, {zone.name for zone in config.zones})
    open_jobs = OpenJobs(limits.open_jobs, ((job.owner, job.id) for job in stored_jobs))
    bids, bid_bytes = _daily(limits.bids_per_day), _daily(BID_BYTES_PER_DAY)
    for bid in stored_bids(store.reader, now() - DAY):
        bids.count_earlier(bid.owner, now() - bid.at)
        bid_bytes.count_earlier(bid.owner, now() - bid.at, bid.size)

    def weight(user: str) -> float:
        account = accounts.user(user)
        team = None if account is None else account.team
        return 1.0 if team is None else limits.team_weights.get(team, 1.0)

    gate = Gate(_REQUESTS_AT_WORK, MAX_REQUESTS, weight)
    metrics, notifier = Metrics(open_jobs, gate.used), Notifier()
    recorder = LogWriter(committer, spending, open_jobs, metrics, notifier)
    disk = Disk(place.data, RESERVED_BYTES)
    files = FileRepository(
        place.data / "files", queries, committer, limits, now, disk, config.files
    )
    if data is None:
        data = DataClient(
            place.cache,
            log=place.data / "logs" / "data.log",
            max_row_characters=limits.row_characters,
            reserve_bytes=2 * RESERVED_BYTES,
            weight=weight,
        )
    vendor_gateway = VendorGateway(config.public_url or url, now)
    budgets = BudgetLocks(spending, is_single=len(config.zones) == 1)
    quotes = QuoteStore(now)
    dependencies = ZoneDependencies(
        store=store,
        dirs=place,
        recorder=recorder,
        committer=committer,
        files=files,
        data=data,
        budgets=budgets,
        quotes=quotes,
        report=report,
        on_fatal_error=on_fatal_error,
        lock=lock,
        now=now,
        vendor_gateway=vendor_gateway,
    )
    # Before zones are loaded, which may record events.
    future_logs = FutureLogs({zone.name: log.newest_time(zone.name) for zone in config.zones}, now)
    zones: dict[str, AnyGateway] = {}
    workers: dict[str, ZoneWorker[Any]] = {}
    for zone in config.zones:
        loader = find_kind(zone.kind).loader(zone, facts[zone.name], dependencies)
        loaded = await loader.load()
        zones[zone.name] = loaded.zone
        workers[zone.name] = loaded.worker

    def check_bids() -> None:
        if (fault := clock_fault(now)) is not None:
            raise ClockError(fault)
        if (outage := committer.outage) is not None:
            raise StoreError(str(outage))
        disk.check()

    digests = {zone: base.digest for zone, found in facts.items() for base in found.values()}
    bases = config.inference.bases(config.zones, place.cache, digests)
    vllm_bases = {base for base, settings in bases.items() if settings.vllm is not None}
    opened_at: dict[str, float] = {}
    actors: dict[str, ZoneActor[Any]] = {}
    for one in zones.values():
        if one.base in bases:
            opened_at.setdefault(one.base, one.clock.epoch)
            actors.setdefault(one.base, one.actor)
    submissions = SubmissionService(
        zones,
        open_jobs,
        quotes,
        files,
        StartModels(queries, files, data),
        check_bids,
        accounts.default_terms,
        config.model_aliases,
        config.wandb,
        future_logs,
    )
    generation = GenerationService(
        config.inference, bases, metrics, actors, budgets, place.logs, lock
    )
    service = Service(
        zones=zones,
        accounts=accounts,
        rate=_request_rate(limits.requests_per_second),
        late=LateResponses(),
        spending=spending,
        files=files,
        lifecycle=FileLifecycle(files, zones, open_jobs, queries, now),
        storage=StorageBilling(
            config.files.price_per_gb_month,
            next(iter(zones.values())),
            accounts,
            spending,
            queries,
            committer,
            store.reader,
            now,
        ),
        queries=queries,
        log=log,
        idempotency=IdempotencyStore(store.reader, now),
        quotes=quotes,
        submissions=submissions,
        open_jobs=open_jobs,
        explanations=ExplanationService(
            log, {one.name: one.explainer for one in zones.values() if one.explainer is not None}
        ),
        webhooks=WebhookDispatcher(
            config,
            place.data,
            store.reader,
            committer,
            notifier,
            now,
            metrics.observe_webhook,
            spending.alerts,
            accounts.members,
        ),
        wandb=WandbLogger(
            config.wandb,
            place.data / "wandb",
            place.logs / "wandb.log",
            store.reader,
            committer,
            notifier,
        ),
        committer=committer,
        store=store,
        metrics=metrics,
        notifier=notifier,
        streams=OpenLimiter(
            MAX_STREAMS,
            f"this key has {MAX_STREAMS} open streams, the maximum",
            is_brief=False,
        ),
        gate=gate,
        reads=ReadThreads(),
        bids=bids,
        bid_bytes=bid_bytes,
        future_logs=future_logs,
        pauses=PausedZones(store.reader, committer, submissions.paused),
        charts=ChartRenderer(place.data / "logs" / "charts.log"),
        models=ModelCatalog(opened_at, config.model_aliases, vllm_bases, queries, files),
        generation=generation,
        evaluations=EvaluationService(generation),
        vendor_app=vendor_gateway.app,
        billing=config.billing,
        work=place.data / "work",
        now=now,
    )
    sources = {zone.base_source for zone in config.zones if isinstance(zone, LanguageZoneConfig)}
    return ServiceRuntime(
        service, workers, data, sources, committer, vendor_gateway, on_fatal_error
    )


def _warn_of_closed_zones(jobs: Iterable[StoredOpenJob], zones: Container[str]) -> None:
    """Log the zones that left the settings before their jobs had ended."""
    for zone, count in sorted(Counter(job.zone for job in jobs if job.zone not in zones).items()):
        _log.warning(
            "a zone with open jobs is not in the settings",
            zone=zone,
            open_jobs=count,
            remedy="add the zone again, so that they can end",
        )


def _request_rate(per_second: float) -> TokenBuckets:
    # A bucket of less than one request would never let one through.
    return TokenBuckets(per_second, max(1.0, BURST_SECONDS * per_second), time.monotonic)


def _daily(count: int) -> TokenBuckets:
    return TokenBuckets(count / DAY, count, time.monotonic)
