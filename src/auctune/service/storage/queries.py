"""Lists in pages, newest first, each page named by the last row of the one before.

Queries by key stay right while rows are added and cost the same wherever they are, unlike pages by
number; it is also what OpenAI's API does with `after` and `has_more`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import BigInteger, Column, Engine, Select, Table, cast, func, select

from auctune.domain import InputError
from auctune.service.storage.event_log import EVENT_COLUMNS, EventRow, read_row
from auctune.service.storage.tables import entries, events, files, jobs

Item = TypeVar("Item")
Body = bytes


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as it stands; see `auctune.service.storage.tables`."""

    id: str
    seq: int
    zone: str
    owner: str
    created_at: float
    status: str
    body: Body


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file as it stands; see `auctune.service.storage.tables`."""

    id: str
    seq: int
    owner: str
    created_at: float
    bytes: int
    sha256: str
    filename: str
    purpose: str
    status: str
    detail: str | None
    body: Body
    deleted_at: float | None


@dataclass(frozen=True, slots=True)
class FileTotals:
    """How many files there are, and of how many bytes."""

    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry of the ledger; see `auctune.service.storage.tables`."""

    id: int
    seq: int
    job: str | None
    account: str
    amount: int
    at: float


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Part of a list, and whether there is more of it."""

    items: tuple[Item, ...]
    has_more: bool


class Queries:
    """Lists of what a database holds; safe for any number of threads.

    Args:
        reader: of the store.
    """

    def __init__(self, reader: Engine) -> None:
        self._reader = reader

    def jobs(
        self,
        owner: str | None,
        limit: int,
        after: str | None = None,
        zone: str | None = None,
        statuses: Sequence[str] | None = None,
    ) -> Page[JobRow]:
        """Jobs, newest first.

        Args:
            owner: whose; those of all if none is given.
            limit: at most so many; >= 1.
            after: the last job of the page before.
            zone: only those of a zone.
            statuses: only those with one of these.

        Raises:
            InputError: if `after` is no job in this list, or `limit` is below 1.
        """
        chosen = _owned(select(jobs), jobs, owner)
        if zone is not None:
            chosen = chosen.where(jobs.c.zone == zone)
        if statuses is not None:
            chosen = chosen.where(jobs.c.status.in_(statuses))
        return self._page(JobRow, chosen, jobs.c.seq, limit, self._cursor(jobs, owner, after))

    def files(
        self,
        owner: str | None,
        limit: int,
        after: str | None = None,
        purpose: str | None = None,
        oldest_first: bool = False,
        sha256: str | None = None,
        filename: str | None = None,
    ) -> Page[FileRow]:
        """Files that are not deleted, newest first, otherwise as `jobs`.

        Args:
            owner: whose; those of all if none is given.
            limit: at most so many; >= 1.
            after: the last file of the page before; it may have been deleted since.
            purpose: only those with this purpose.
            oldest_first: the other way round.
            sha256: only those with this content.
            filename: only those with this name.
        """
        chosen = _owned(select(files), files, owner).where(files.c.deleted_at.is_(None))
        if purpose is not None:
            chosen = chosen.where(files.c.purpose == purpose)
        if sha256 is not None:
            chosen = chosen.where(files.c.sha256 == sha256)
        if filename is not None:
            chosen = chosen.where(files.c.filename == filename)
        place = self._cursor(files, owner, after)
        return self._page(FileRow, chosen, files.c.seq, limit, place, oldest_first)

    def file_totals(self, owner: str) -> FileTotals:
        """How many files an owner has, and of how many bytes; deleted ones do not count."""
        chosen = select(func.count(), cast(func.sum(files.c.bytes), BigInteger)).where(
            files.c.owner == owner, files.c.deleted_at.is_(None)
        )
        with self._reader.connect() as connection:
            count, size = connection.execute(chosen).one()
        return FileTotals(count, int(size or 0))

    def uploads_since(self, owner: str, purpose: str, since: float, most: int) -> FileTotals:
        """How many files an owner uploaded since a unix time, and of how many bytes.

        Those that were deleted since count; of more than `most`, the newest ones count.
        """
        newest = (
            select(files.c.bytes, files.c.created_at)
            .where(files.c.owner == owner, files.c.purpose == purpose)
            .order_by(files.c.seq.desc())
            .limit(most)
            .subquery()
        )
        chosen = select(func.count(), cast(func.sum(newest.c.bytes), BigInteger)).where(
            newest.c.created_at >= since
        )
        with self._reader.connect() as connection:
            count, size = connection.execute(chosen).one()
        return FileTotals(count, int(size or 0))

    def files_of_status(self, status: str) -> tuple[FileRow, ...]:
        """All owners' files of a status that are not deleted, oldest first."""
        chosen = select(files).where(files.c.status == status, files.c.deleted_at.is_(None))
        with self._reader.connect() as connection:
            rows = connection.execute(chosen.order_by(files.c.seq)).all()
        return tuple(FileRow(*row) for row in rows)

    def file_ids(self) -> frozenset[str]:
        """Ids of all files that are not deleted, of all owners."""
        chosen = select(files.c.id).where(files.c.deleted_at.is_(None))
        with self._reader.connect() as connection:
            return frozenset(connection.execute(chosen).scalars())

    def events(
        self, job: str, kinds: Sequence[str], limit: int, after: int | None = None
    ) -> Page[EventRow]:
        """Events of a job of some kinds, newest first; `after` is the last of the page before."""
        chosen = EVENT_COLUMNS.where(events.c.job == job, events.c.kind.in_(kinds))
        return self._page(read_row, chosen, events.c.seq, limit, after)

    def entries(self, account: str, limit: int, after: int | None = None) -> Page[EntryRow]:
        """Entries of an account, newest first; `after` is the last of the page before."""
        chosen = select(entries).where(entries.c.account == account)
        return self._page(EntryRow, chosen, entries.c.id, limit, after)

    def job(self, job: str) -> JobRow | None:
        """A job by its id."""
        return self._by_id(JobRow, jobs, job)

    def file(self, file: str) -> FileRow | None:
        """A file by its id, also a deleted one."""
        return self._by_id(FileRow, files, file)

    def balances(
        self, accounts: Sequence[str] | None = None, since: float | None = None
    ) -> dict[str, int]:
        """Sums of the amounts of accounts that have entries, by name.

        Args:
            accounts: which; all if none are given.
            since: only entries from this unix time on.
        """
        total = cast(func.sum(entries.c.amount), BigInteger)
        chosen = select(entries.c.account, total).group_by(entries.c.account)
        if accounts is not None:
            chosen = chosen.where(entries.c.account.in_(accounts))
        if since is not None:
            chosen = chosen.where(entries.c.at >= since)
        with self._reader.connect() as connection:
            rows = connection.execute(chosen.order_by(entries.c.account)).all()
        return {account: int(amount) for account, amount in rows}

    def account_history(self, since: int, step: int) -> list[tuple[str, int, int]]:
        """Sums of the market's own accounts by span of time: (account, span, amount).

        Args:
            since: unix time at which span 0 begins; entries before it do not count.
            step: seconds of a span; >= 1.
        """
        span = (cast(entries.c.at, BigInteger) - since) // step
        chosen = (
            select(entries.c.account, span, cast(func.sum(entries.c.amount), BigInteger))
            .where(
                entries.c.at >= since,
                entries.c.account.not_like("user:%"),
                entries.c.account.not_like("hold:%"),
            )
            .group_by(entries.c.account, span)
            .order_by(entries.c.account, span)
        )
        with self._reader.connect() as connection:
            rows = connection.execute(chosen).all()
        return [(account, int(number), int(amount)) for account, number, amount in rows]

    def _page(
        self,
        make: Callable[..., Item],
        chosen: Select[*tuple[Any, ...]],
        key: Column[int],
        limit: int,
        after: int | None,
        rising: bool = False,
    ) -> Page[Item]:
        """The page of `chosen` that follows the row whose `key` is `after`."""
        if limit < 1:
            raise InputError("limit", f"{limit}", "at least 1")
        if after is not None:
            chosen = chosen.where(key > after if rising else key < after)
        # One more than asked for shows whether there is more.
        chosen = chosen.order_by(key if rising else key.desc()).limit(limit + 1)
        with self._reader.connect() as connection:
            rows = connection.execute(chosen).all()
        return Page(tuple(make(*row) for row in rows[:limit]), len(rows) > limit)

    def _cursor(self, table: Table, owner: str | None, after: str | None) -> int | None:
        """The number of the row that a page comes after."""
        if after is None:
            return None
        chosen = _owned(select(table.c.seq).where(table.c.id == after), table, owner)
        with self._reader.connect() as connection:
            seq: int | None = connection.execute(chosen).scalar()
        if seq is None:
            raise InputError("after", f"there is no {after!r} in this list", "an id from the list")
        return seq

    def _by_id(self, make: Callable[..., Item], table: Table, key: str) -> Item | None:
        with self._reader.connect() as connection:
            row = connection.execute(select(table).where(table.c.id == key)).first()
        return None if row is None else make(*row)


def _owned(
    chosen: Select[*tuple[Any, ...]], table: Table, owner: str | None
) -> Select[*tuple[Any, ...]]:
    return chosen if owner is None else chosen.where(table.c.owner == owner)
