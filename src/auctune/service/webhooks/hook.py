"""Hooks that users registered; in memory, and in the database."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

import orjson
from sqlalchemy import Engine, select

from auctune.domain import InputError
from auctune.service.access.open_jobs import TooManyError
from auctune.service.durable import durable
from auctune.service.identifiers import new_id
from auctune.service.store import Committer, Unit, tables

_NAMED = "webhook:"


@dataclass(frozen=True, slots=True)
class Hook:
    """An address that is told.

    Attributes:
        id: names it.
        user: whose jobs it hears of.
        url: http or https.
        created_at: unix time; nothing from before is told.
        since: number of the log, likewise.
    """

    id: str
    user: str
    url: str
    created_at: float
    since: int


class Hooks:
    """All hooks.

    Args:
        reader: of the store.
        committer: writes.
        limit: of each user.
        now: tells unix time.
    """

    def __init__(
        self, reader: Engine, committer: Committer, limit: int, now: Callable[[], float]
    ) -> None:
        self._committer = committer
        self._limit = limit
        self._now = now
        table = tables.meta
        with reader.connect() as connection:
            rows = connection.execute(select(table).where(table.c.name.like(f"{_NAMED}%"))).all()
        self._held = {hook.id: hook for hook in (Hook(**orjson.loads(row.value)) for row in rows)}

    def of(self, user: str) -> list[Hook]:
        """A user's, the oldest first."""
        found = [hook for hook in self._held.values() if hook.user == user]
        return sorted(found, key=lambda hook: hook.since)

    def get(self, hook: str) -> Hook | None:
        """One of them."""
        return self._held.get(hook)

    @property
    def first(self) -> int:
        """Number of the log from which on any of them is told."""
        return min((hook.since for hook in self._held.values()), default=0)

    def __len__(self) -> int:
        return len(self._held)

    async def add(self, user: str, url: str) -> Hook:
        """Register an address.

        Raises:
            InputError: if it is none.
            TooManyError: if the user has enough of them.
        """
        _check_url(url)
        if len(self.of(user)) >= self._limit:
            raise TooManyError(f"there are {self._limit} webhooks of yours already")
        hook = Hook(new_id("hook"), user, url, self._now(), self._committer.next_seq())
        self._held[hook.id] = hook
        row = {"name": _NAMED + hook.id, "value": orjson.dumps(asdict(hook)).decode()}
        await durable(self._committer, Unit().upsert(tables.meta, row))
        return hook

    async def remove(self, hook: Hook) -> None:
        """Tell it nothing any more."""
        self._held.pop(hook.id, None)
        unit = Unit().remove(tables.meta, {"name": _NAMED + hook.id})
        await durable(self._committer, unit)


def _check_url(url: str) -> None:
    expected = "a URL such as https://example.com/hook, without a name or password in it"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError("url", repr(url), expected) from None
    plain = url.isascii() and url.isprintable() and " " not in url
    is_good = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    if not (plain and is_good and port != 0):
        raise InputError("url", repr(url), expected)
