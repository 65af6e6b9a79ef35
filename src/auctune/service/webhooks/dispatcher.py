"""Sends webhooks for jobs that have ended, and for budgets: at least once, with retries.

Ended jobs are sent in the order of the log. How far all webhooks of a zone were served is stored in
the database: the cursor. After a restart all deliveries of a zone from its oldest open one on are
sent again, under the same ids, also those that have succeeded since. Alerts of budgets are marked
one by one.
"""

import asyncio
import heapq
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import orjson
import structlog
from sqlalchemy import Engine, and_, or_, select

from auctune.service.accounts.budgets import BudgetAlert, BudgetAlerts
from auctune.service.accounts.limits import TokenBuckets
from auctune.service.config.models import ServiceConfig
from auctune.service.private_files import load_key
from auctune.service.storage import Committer, WriteBatch, tables
from auctune.service.storage.event_log import EventType
from auctune.service.storage.queries import read_values
from auctune.service.tasks import Notifier, TaskSet
from auctune.service.webhooks.delivery import DeliveryError, WebhookSender
from auctune.service.webhooks.registry import Webhook, WebhookRegistry, WebhookSigner

_log = structlog.get_logger(__name__)

KEY_FILE = "webhook-key"
WEBHOOK_EVENTS = "events that webhooks are sent for"
"""Topic of notifications of the log; no zone and no job has a name with spaces."""

TERMINAL_STATUS: dict[str, str] = {
    EventType.FINISHED: "succeeded",
    EventType.FAILED: "failed",
    EventType.CANCELLED: "cancelled",
}

MAX_CONCURRENCY = 32
"""Deliveries in progress."""
MAX_CONCURRENCY_PER_USER = 4
"""Concurrent deliveries of one user, whose slow receivers must not delay others."""
MAX_PENDING_PER_USER = 10_000
"""Deliveries of one user, waiting or in progress; further ones are dropped."""
PER_SECOND, BURST = 5.0, 100.0
"""Deliveries of one user, in the long run and at once: each holds the event loop for some ms."""
MAX_ATTEMPTS = 8
"""Attempts of one delivery, over 7.6 hours."""
INITIAL_BACKOFF_SECONDS = 5.0
"""After the first attempt; each further wait is `BACKOFF_FACTOR` times as long."""
BACKOFF_FACTOR = 4

_CURSOR_PREFIX = "webhooks.told:"
_BATCH = 200
_RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The end of a job, as the log has it."""

    seq: int
    at: float
    status: str
    job: str
    owner: str

    @property
    def id(self) -> str:
        """Id of the notification, the same at every attempt."""
        return f"evt-{self.seq}"

    @property
    def subject(self) -> str:
        return self.job

    def body(self) -> bytes:
        """Return the notification: which job ended how. The API answers everything else."""
        return _event(self.id, self.at, f"fine_tuning.job.{self.status}", {"id": self.job})


@dataclass(frozen=True, slots=True)
class BudgetReached:
    """A share of a budget that was reached."""

    alert: BudgetAlert

    @property
    def id(self) -> str:
        return self.alert.id

    @property
    def subject(self) -> str:
        return f"budget of {self.alert.owner}"

    def body(self) -> bytes:
        """Return the notification: which share of whose budget was reached, with the amounts."""
        alert = self.alert
        data = {**alert.view(), "id": alert.owner}
        return _event(alert.id, alert.at, "budget.reached", data)


def _event(id_: str, at: float, kind: str, data: dict[str, object]) -> bytes:
    body = {"id": id_, "object": "event", "created_at": int(at), "type": kind, "data": data}
    return orjson.dumps(body)


@dataclass
class DeliveryCursor:
    """Delivery cursor of one zone. Sequence numbers are ordered within a zone only.

    Attributes:
        stored: the cursor in the database.
        read_to: number of the last event read from the log.
        open: deliveries in progress or pending, by sequence number; a user may have several hooks.
        numbers: a heap of the same sequence numbers, and of some that are done.
    """

    stored: int
    read_to: int = field(init=False)
    open: Counter[int] = field(default_factory=Counter)
    numbers: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.read_to = self.stored

    @property
    def delivered(self) -> int:
        """Number up to which no delivery is open."""
        while self.numbers and self.numbers[0] not in self.open:
            heapq.heappop(self.numbers)
        return self.numbers[0] - 1 if self.numbers else self.read_to

    def begin(self, seq: int) -> None:
        if seq not in self.open:
            heapq.heappush(self.numbers, seq)
        self.open[seq] += 1

    def end(self, seq: int) -> None:
        self.open[seq] -= 1
        if not self.open[seq]:
            del self.open[seq]


@dataclass(order=True, slots=True)
class _Delivery:
    """A notification to one webhook, ordered by when it is due, in the loop's time, then by age.

    `end` is called once it was delivered or dropped.
    """

    due: float
    number: int
    webhook: Webhook = field(compare=False)
    event: JobEnded | BudgetReached = field(compare=False)
    end: Callable[[], None] = field(compare=False)
    attempts: int = field(default=0, compare=False)


@dataclass
class _Queue:
    """Deliveries of one user: a heap of pending ones, and the number of attempts in progress."""

    pending: list[_Delivery] = field(default_factory=list)
    num_active: int = 0
    timer: asyncio.TimerHandle | None = None


class WebhookDispatcher:
    """Reads the log and delivers webhooks.

    `observe` is called with the outcome of each attempt: delivered, failed or dropped. `members`
    returns the users of an account.
    """

    def __init__(
        self,
        config: ServiceConfig,
        data: Path,
        reader: Engine,
        committer: Committer,
        notifier: Notifier,
        now: Callable[[], float],
        observe: Callable[[str], None],
        alerts: BudgetAlerts,
        members: Callable[[str], list[str]],
    ) -> None:
        private_addresses = config.webhooks.private_addresses
        self.registry = WebhookRegistry(reader, committer, now, private_addresses=private_addresses)
        self.signer = WebhookSigner(load_key(data / KEY_FILE))
        self._reader = reader
        self._committer = committer
        self._notifier = notifier
        self._now = now
        self._observe = observe
        self._alerts = alerts
        self._members = members
        # Deliveries in progress or pending, by alert.
        self._open_alerts: Counter[str] = Counter()
        self._sender = WebhookSender(private_addresses=private_addresses)
        self._background = TaskSet()
        self._free = asyncio.Semaphore(MAX_CONCURRENCY)
        self._rate = TokenBuckets(PER_SECOND, BURST, time.monotonic)
        # Only users with deliveries have a queue.
        self._queues: dict[str, _Queue] = {}
        self._numbers = count()
        cursors = read_values(reader, _CURSOR_PREFIX)
        self._cursors = {
            zone.name: DeliveryCursor(int(cursors.get(zone.name, 0))) for zone in config.zones
        }

    def start(self) -> None:
        self._background.spawn(self._run())

    async def close(self) -> None:
        """Stop; what was not delivered is sent after the next start."""
        for queue in self._queues.values():
            if queue.timer is not None:
                queue.timer.cancel()
        self._queues.clear()
        await self._background.close()
        await self._sender.close()

    async def _run(self) -> None:
        with self._notifier.subscribe(WEBHOOK_EVENTS) as changed:
            while True:
                changed.clear()
                self._enqueue_alerts()
                # A list: all zones are read, also after one that failed.
                if all([await self._read_zone(zone) for zone in self._cursors]):
                    await changed.wait()
                else:
                    await asyncio.sleep(_RETRY_SECONDS)

    async def _read_zone(self, zone: str) -> bool:
        """Enqueue deliveries for all new events of a zone; return False if that failed."""
        try:
            while len(self.registry) and await self._enqueue_new(zone):
                pass
        except Exception:
            _log.exception("reading ended jobs failed", zone=zone, retry_seconds=_RETRY_SECONDS)
            return False
        return True

    async def _enqueue_new(self, zone: str) -> bool:
        """Enqueue deliveries for new events of a zone; return whether there may be more events."""
        cursor = self._cursors[zone]
        after = max(cursor.read_to, self.registry.earliest_seq - 1)
        batch = await asyncio.to_thread(_read_ended, self._reader, zone, after, _BATCH)
        for ended in batch:
            for webhook in self.registry.for_user(ended.owner):
                if webhook.since <= ended.seq:
                    cursor.begin(ended.seq)
                    self._enqueue(webhook, ended, partial(self._end, zone, ended.seq))
            cursor.read_to = ended.seq
        self._store_cursor(zone)
        return len(batch) == _BATCH

    def _enqueue_alerts(self) -> None:
        """Enqueue deliveries for new alerts of budgets, to the webhooks of the budgets' users."""
        for alert in self._alerts.undelivered():
            if alert.id in self._open_alerts:
                continue
            webhooks = [
                webhook
                for user in self._members(alert.owner)
                for webhook in self.registry.for_user(user)
                if webhook.since <= alert.seq
            ]
            # One more than there are, so that the alert is not over before all are enqueued.
            self._open_alerts[alert.id] = len(webhooks) + 1
            for webhook in webhooks:
                self._enqueue(webhook, BudgetReached(alert), partial(self._end_alert, alert))
            self._end_alert(alert)

    def _end_alert(self, alert: BudgetAlert) -> None:
        self._open_alerts[alert.id] -= 1
        if self._open_alerts[alert.id]:
            return
        marked = self._alerts.delivered(alert)
        del self._open_alerts[alert.id]
        if marked is not None:
            self._committer.submit(WriteBatch().upsert(tables.meta, marked.row()))

    def _enqueue(
        self, webhook: Webhook, event: JobEnded | BudgetReached, end: Callable[[], None]
    ) -> None:
        queue = self._queues.setdefault(webhook.user, _Queue())
        if len(queue.pending) + queue.num_active >= MAX_PENDING_PER_USER:
            self._drop(webhook, event, "too many pending deliveries")
            end()
            return
        now = asyncio.get_running_loop().time()
        heapq.heappush(queue.pending, _Delivery(now, next(self._numbers), webhook, event, end))
        self._start_due(webhook.user)

    def _start_due(self, user: str) -> None:
        """Start as many of a user's due deliveries as allowed, and set the timer for the next."""
        queue = self._queues.get(user)
        if queue is None:
            return
        if queue.timer is not None:
            queue.timer.cancel()
            queue.timer = None
        loop = asyncio.get_running_loop()
        while queue.pending and queue.num_active < MAX_CONCURRENCY_PER_USER:
            wait = queue.pending[0].due - loop.time()
            if wait <= 0.0:
                wait = self._rate.acquire(user)
            if wait > 0.0:
                queue.timer = loop.call_later(wait, self._start_due, user)
                return
            queue.num_active += 1
            self._background.spawn(self._deliver(queue, heapq.heappop(queue.pending)))
        if not queue.pending and not queue.num_active:
            del self._queues[user]

    async def _deliver(self, queue: _Queue, delivery: _Delivery) -> None:
        """Make one attempt; requeue the delivery if it failed and attempts remain."""
        webhook, event = delivery.webhook, delivery.event
        is_deleted, failure = self.registry.get(webhook.id) is None, None
        try:
            if not is_deleted:
                failure = await self._send(webhook, event)
        finally:
            queue.num_active -= 1
        delivery.attempts += 1
        facts = {**_facts(webhook, event), "attempt": delivery.attempts}
        if failure is not None and delivery.attempts < MAX_ATTEMPTS:
            wait = INITIAL_BACKOFF_SECONDS * BACKOFF_FACTOR ** (delivery.attempts - 1)
            _log.info("webhook attempt failed", reason=failure, retry_seconds=wait, **facts)
            self._observe("failed")
            delivery.due = asyncio.get_running_loop().time() + wait
            heapq.heappush(queue.pending, delivery)
        else:
            if failure is not None:
                self._observe("failed")
                attempts = f"{delivery.attempts} attempts failed, the last: {failure}"
                self._drop(webhook, event, attempts)
            elif is_deleted:
                self._drop(webhook, event, "the webhook was deleted")
            else:
                _log.info("webhook delivered", **facts)
                self._observe("delivered")
            delivery.end()
        self._start_due(webhook.user)

    def _drop(self, webhook: Webhook, event: JobEnded | BudgetReached, reason: str) -> None:
        _log.warning("webhook not delivered", reason=reason, **_facts(webhook, event))
        self._observe("dropped")

    async def _send(self, webhook: Webhook, event: JobEnded | BudgetReached) -> str | None:
        """Return why the receiver did not accept the notification, or None if it did."""
        body = event.body()
        async with self._free:
            # Signed at each attempt: receivers reject old timestamps.
            headers = self.signer.headers(webhook.id, event.id, int(self._now()), body)
            try:
                await self._sender.send(webhook.user, webhook.url, headers, body)
            except DeliveryError as error:
                return str(error)
            except Exception as error:
                _log.exception("sending a webhook failed", **_facts(webhook, event))
                return f"internal error ({type(error).__name__})"
        return None

    def _end(self, zone: str, seq: int) -> None:
        self._cursors[zone].end(seq)
        self._store_cursor(zone)

    def _store_cursor(self, zone: str) -> None:
        cursor = self._cursors[zone]
        if cursor.delivered != cursor.stored:
            cursor.stored = cursor.delivered
            row = {"name": _CURSOR_PREFIX + zone, "value": str(cursor.stored)}
            self._committer.submit(WriteBatch().upsert(tables.meta, row))


def _facts(webhook: Webhook, event: JobEnded | BudgetReached) -> dict[str, str]:
    kind = "job" if isinstance(event, JobEnded) else "subject"
    return {
        kind: event.subject,
        "user": webhook.user,
        "webhook": webhook.id,
        "delivery": event.id,
    }


def _read_ended(reader: Engine, zone: str, after: int, limit: int) -> list[JobEnded]:
    """Return jobs that ended after a sequence number of the log.

    A bid that was rejected at once is left out: its owner has read so in the response.
    """
    events, jobs = tables.events, tables.jobs
    is_late_rejection = and_(
        events.c.type == EventType.DECIDED.value,
        jobs.c.seq < events.c.seq,
        jobs.c.status == "failed",
    )
    query = (
        select(events.c.seq, events.c.at, events.c.type, events.c.job, jobs.c.owner)
        .join(jobs, jobs.c.id == events.c.job)
        .where(
            events.c.zone == zone,
            events.c.seq > after,
            or_(events.c.type.in_(list(map(str, TERMINAL_STATUS))), is_late_rejection),
        )
        .order_by(events.c.seq)
        .limit(limit)
    )
    with reader.connect() as connection:
        return [
            JobEnded(row.seq, row.at, TERMINAL_STATUS.get(row.type, "failed"), row.job, row.owner)
            for row in connection.execute(query)
        ]
