"""Tells hooks of jobs that are over: at least once, in the log's order, and again until heard.

How far all hooks have been told is kept in the database; after a restart what is not known to be
told is told again, under the same id.
"""

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import orjson
import structlog
from sqlalchemy import Engine, and_, or_, select

from auctune.domain import InputError
from auctune.service.background import Background
from auctune.service.news import News
from auctune.service.store import Committer, Unit, tables
from auctune.service.webhooks.hook import Hook, Hooks
from auctune.service.webhooks.post import Names, PostError, post
from auctune.service.webhooks.signing import Signer
from auctune.service.zones.event import Kind

_log = structlog.get_logger(__name__)

OVER = "jobs that are over"
"""The topic of news of them; no zone and no job has a name with spaces."""

ENDINGS: dict[str, str] = {
    Kind.FINISHED: "succeeded",
    Kind.FAILED: "failed",
    Kind.CANCELLED: "cancelled",
}

_TOLD = "webhooks.told:"
_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class MessengerParams:
    """Of a messenger.

    Attributes:
        tries: how often a hook is told, at most.
        first_wait_seconds: after the first try that failed; each further wait is 4 times as long.
        seconds: that a hook may take to answer.
        at_once: deliveries under way at most.
        at_once_of_one: the same of one user's hooks, whose silence must not hold up others.
        most_waiting: deliveries that one user's hooks may have open; further ones are given up.
        private_addresses: whether hooks may be in a private network.
    """

    tries: int = 8
    first_wait_seconds: float = 5.0
    seconds: float = 10.0
    at_once: int = 32
    at_once_of_one: int = 4
    most_waiting: int = 10_000
    private_addresses: bool = False

    def __post_init__(self) -> None:
        for name in ("tries", "at_once", "at_once_of_one", "most_waiting"):
            if getattr(self, name) < 1:
                raise InputError(name, f"{getattr(self, name)}", "a whole number >= 1")
        for name in ("first_wait_seconds", "seconds"):
            if not getattr(self, name) > 0:
                raise InputError(name, f"{getattr(self, name)}", "seconds > 0")


@dataclass(frozen=True, slots=True)
class Ending:
    """A job that is over.

    Attributes:
        seq, at: of the event.
        how: succeeded, failed or cancelled.
        job: its id.
        owner: user id.
    """

    seq: int
    at: float
    how: str
    job: str
    owner: str

    @property
    def name(self) -> str:
        """The same at every try."""
        return f"evt-{self.seq}"

    def body(self) -> bytes:
        """What is told: which job, and how it ended; all else is asked for with a key."""
        return orjson.dumps(
            {
                "id": self.name,
                "object": "event",
                "created_at": int(self.at),
                "type": f"fine_tuning.job.{self.how}",
                "data": {"id": self.job},
            }
        )


@dataclass
class _Place:
    """How far hooks were told of a zone: numbers rise within a zone, and not across them."""

    read_to: int
    noted: int
    # Deliveries by the number of their event: a user may have several hooks.
    open: Counter[int] = field(default_factory=Counter)
    # A heap of the same numbers, and of some that are over.
    numbers: list[int] = field(default_factory=list)

    @property
    def told(self) -> int:
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
    """What one hook is told of one ending.

    Attributes:
        due: when it is tried next, in the loop's time.
        number: in the order in which they came.
        zone: of the job.
        hook: that is told.
        ending: that it is told of.
        tries: how many there were.
    """

    due: float
    number: int
    zone: str = field(compare=False)
    hook: Hook = field(compare=False)
    ending: Ending = field(compare=False)
    tries: int = field(default=0, compare=False)


@dataclass
class _Queue:
    """Deliveries of one user.

    Attributes:
        waiting: a heap.
        under_way: how many are being made.
        timer: begins the next one.
    """

    waiting: list[_Delivery] = field(default_factory=list)
    under_way: int = 0
    timer: asyncio.TimerHandle | None = None


class Messenger:
    """Between the log and hooks.

    Args:
        zones: whose jobs are told of.
        hooks: who is told.
        signer: signs.
        reader: of the store.
        committer: writes how far it is.
        news: wakes it.
        now: tells unix time.
        params: patience.
    """

    def __init__(
        self,
        zones: Iterable[str],
        hooks: Hooks,
        signer: Signer,
        reader: Engine,
        committer: Committer,
        news: News,
        now: Callable[[], float],
        params: MessengerParams,
    ) -> None:
        self.hooks = hooks
        self.signer = signer
        self._reader = reader
        self._committer = committer
        self._news = news
        self._now = now
        self._params = params
        self._background = Background()
        self._room = asyncio.Semaphore(params.at_once)
        self._names = Names()
        # Those of users that have deliveries.
        self._queues: dict[str, _Queue] = {}
        self._numbers = count()
        self._places = {zone: _place(reader, zone) for zone in zones}

    def start(self) -> None:
        """Begin to tell."""
        self._background.begin(self._run())

    async def close(self) -> None:
        """Stop; what is not told is told after the next start."""
        for queue in self._queues.values():
            if queue.timer is not None:
                queue.timer.cancel()
        self._queues.clear()
        await self._background.close()

    async def _run(self) -> None:
        with self._news.listening(OVER) as heard:
            while True:
                heard.clear()
                for zone in self._places:
                    while len(self.hooks) and await self._read_on(zone):
                        pass
                await heard.wait()

    async def _read_on(self, zone: str) -> bool:
        """Begin deliveries of what is new in a zone; whether there may be more."""
        place = self._places[zone]
        after = max(place.read_to, self.hooks.first - 1)
        endings = await asyncio.to_thread(_endings, self._reader, zone, after, _AT_ONCE)
        for ending in endings:
            for hook in self.hooks.of(ending.owner):
                if hook.since <= ending.seq:
                    self._add(zone, hook, ending)
            place.read_to = ending.seq
        self._note(zone)
        return len(endings) == _AT_ONCE

    def _add(self, zone: str, hook: Hook, ending: Ending) -> None:
        queue = self._queues.setdefault(hook.user, _Queue())
        if len(queue.waiting) + queue.under_way >= self._params.most_waiting:
            _log.info("a webhook was given up", hook=hook.id, delivery=ending.name, why="too many")
            return
        now = asyncio.get_running_loop().time()
        delivery = _Delivery(now, next(self._numbers), zone, hook, ending)
        heapq.heappush(queue.waiting, delivery)
        self._places[zone].begin(ending.seq)
        self._begin_due(hook.user)

    def _begin_due(self, user: str) -> None:
        """Begin as many of a user's deliveries as may be, and come back for the next one."""
        queue = self._queues.get(user)
        if queue is None:
            return
        if queue.timer is not None:
            queue.timer.cancel()
            queue.timer = None
        loop = asyncio.get_running_loop()
        while queue.waiting and queue.under_way < self._params.at_once_of_one:
            if queue.waiting[0].due > loop.time():
                queue.timer = loop.call_at(queue.waiting[0].due, self._begin_due, user)
                return
            queue.under_way += 1
            self._background.begin(self._deliver(queue, heapq.heappop(queue.waiting)))
        if not queue.waiting and not queue.under_way:
            del self._queues[user]

    async def _deliver(self, queue: _Queue, delivery: _Delivery) -> None:
        """Try once; what was not taken goes back into the queue."""
        hook, ending, params = delivery.hook, delivery.ending, self._params
        try:
            is_over = self.hooks.get(hook.id) is None or await self._is_heard(hook, ending)
        finally:
            queue.under_way -= 1
        delivery.tries += 1
        if not is_over and delivery.tries < params.tries:
            wait = params.first_wait_seconds * 4 ** (delivery.tries - 1)
            delivery.due = asyncio.get_running_loop().time() + wait
            heapq.heappush(queue.waiting, delivery)
        else:
            if not is_over:
                _log.info(
                    "a webhook was given up", hook=hook.id, delivery=ending.name, why="silent"
                )
            self._places[delivery.zone].end(ending.seq)
            self._note(delivery.zone)
        self._begin_due(hook.user)

    async def _is_heard(self, hook: Hook, ending: Ending) -> bool:
        params, body = self._params, ending.body()
        async with self._room:
            # Signed when it is sent: a moment that has passed is not believed.
            headers = self.signer.headers(hook.id, ending.name, int(self._now()), body)
            try:
                await post(
                    hook.url,
                    headers,
                    body,
                    seconds=params.seconds,
                    private_addresses=params.private_addresses,
                    find=partial(self._names.find, hook.user),
                )
            except PostError as error:
                _log.info("a webhook was not heard", hook=hook.id, reason=str(error))
                return False
        return True

    def _note(self, zone: str) -> None:
        """Note up to where everything is told."""
        place = self._places[zone]
        if place.told != place.noted:
            place.noted = place.told
            row = {"name": _TOLD + zone, "value": str(place.told)}
            self._committer.submit(Unit().upsert(tables.meta, row))


def _place(reader: Engine, zone: str) -> _Place:
    table = tables.meta
    with reader.connect() as connection:
        name = _TOLD + zone
        found = connection.execute(select(table.c.value).where(table.c.name == name)).scalar()
    told = 0 if found is None else int(found)
    return _Place(told, told)


def _endings(reader: Engine, zone: str, after: int, limit: int) -> list[Ending]:
    """Jobs that ended after a number of the log, by what ended them.

    A bid that was rejected at once is none: its owner has been told in the answer.
    """
    events, jobs = tables.events, tables.jobs
    is_late_rejection = and_(
        events.c.kind == Kind.DECIDED.value, jobs.c.seq < events.c.seq, jobs.c.status == "failed"
    )
    chosen = (
        select(events.c.seq, events.c.at, events.c.kind, events.c.job, jobs.c.owner)
        .join(jobs, jobs.c.id == events.c.job)
        .where(
            events.c.zone == zone,
            events.c.seq > after,
            or_(events.c.kind.in_(list(map(str, ENDINGS))), is_late_rejection),
        )
        .order_by(events.c.seq)
        .limit(limit)
    )
    with reader.connect() as connection:
        return [
            Ending(row.seq, row.at, ENDINGS.get(row.kind, "failed"), row.job, row.owner)
            for row in connection.execute(chosen)
        ]
