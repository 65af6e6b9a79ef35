"""Tells hooks of jobs that are over: at least once, in the log's order, and again until heard.

How far all hooks have been told is kept in the database; after a restart what is not known to be
told is told again, under the same id.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import orjson
import structlog
from sqlalchemy import Engine, and_, or_, select

from auctune.domain import InputError
from auctune.service.background import Background
from auctune.service.news import News
from auctune.service.store import Committer, Unit, tables
from auctune.service.webhooks.hook import Hook, Hooks
from auctune.service.webhooks.post import PostError, post
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
        most_waiting: deliveries that one hook may have open; further ones are tried once.
        private_addresses: whether hooks may be in a private network.
    """

    tries: int = 8
    first_wait_seconds: float = 5.0
    seconds: float = 10.0
    at_once: int = 32
    at_once_of_one: int = 4
    most_waiting: int = 1000
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
    open: set[int] = field(default_factory=set)

    @property
    def told(self) -> int:
        return min(self.open) - 1 if self.open else self.read_to


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
        # Each there only while somebody has or wants it.
        self._room_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: Counter[str] = Counter()
        self._places = {zone: _place(reader, zone) for zone in zones}

    def start(self) -> None:
        """Begin to tell."""
        self._background.begin(self._run())

    async def close(self) -> None:
        """Stop; what is not told is told after the next start."""
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
                    place.open.add(ending.seq)
                    self._background.begin(self._deliver(zone, hook, ending))
            place.read_to = ending.seq
        self._note(zone)
        return len(endings) == _AT_ONCE

    async def _deliver(self, zone: str, hook: Hook, ending: Ending) -> None:
        self._waiting[hook.id] += 1
        try:
            await self._try(hook, ending)
        finally:
            self._waiting[hook.id] -= 1
        self._places[zone].open.discard(ending.seq)
        self._note(zone)

    async def _try(self, hook: Hook, ending: Ending) -> None:
        wait, body = self._params.first_wait_seconds, ending.body()
        tries = self._params.tries if self._waiting[hook.id] <= self._params.most_waiting else 1
        for number in range(tries):
            if number:
                await asyncio.sleep(wait)
                wait *= 4
            if self.hooks.get(hook.id) is None or await self._is_heard(hook, ending, body):
                return
        _log.warning("a webhook was given up", hook=hook.id, told=ending.name)

    async def _is_heard(self, hook: Hook, ending: Ending, body: bytes) -> bool:
        params = self._params
        own = self._room_of.get(hook.user)
        if own is None:
            own = self._room_of[hook.user] = asyncio.Semaphore(params.at_once_of_one)
        # One's own first: whoever waits for that takes no room from others.
        async with own, self._room:
            # Signed when it is sent: a moment that has passed is not believed.
            headers = self.signer.headers(hook.id, ending.name, int(self._now()), body)
            try:
                await post(
                    hook.url,
                    headers,
                    body,
                    seconds=params.seconds,
                    private_addresses=params.private_addresses,
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
