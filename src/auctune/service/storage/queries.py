"""Reads of jobs, files, ledger entries and named values; lists come in pages.

A page is continued after the last row of the page before: unlike page numbers this stays right
while rows are added, and costs the same everywhere. OpenAI's API does so too (`after`, `has_more`).

The read model of a job is one row, replaced whenever something happens to the job. Its body is the
JSON of a `JobRow` of the zone's kind.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Generic, TypeVar

import orjson
import sqlalchemy
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Engine,
    Table,
    and_,
    case,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
    union_all,
)

from auctune.domain import InputError
from auctune.service.ledger import Entry
from auctune.service.storage.event_log import EVENT_COLUMNS, EventRow, Query, Record, read_row
from auctune.service.storage.tables import (
    balances,
    entries,
    events,
    files,
    job_metadata,
    jobs,
    meta,
)


class Status(StrEnum):
    """Status of a job, as OpenAI's API names it."""

    VALIDATING = "validating_files"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JobReadModel:
    """A row of the table of jobs; `seq` is that of the first event about it: the order of lists."""

    id: str
    zone: str
    seq: int
    owner: str
    created_at: float
    status: Status
    body: Record


@dataclass(frozen=True, slots=True)
class Effects:
    """Effects of an event outside of the zone's state: rows of jobs, and ledger entries.

    Entries of an event about a job come with a row of the job, of the same event or of another one
    that is committed with it.
    """

    rows: tuple[JobReadModel, ...] = ()
    entries: tuple[Entry, ...] = ()


def _number(*words: str) -> int:
    """Return a number of 63 bits for an owner, and a pair of metadata of its jobs.

    Two pairs of one number would be found together; that is less likely than a defect of the disk.
    """
    return int.from_bytes(blake2b(orjson.dumps(words), digest_size=8).digest()) >> 1


def pair_numbers(owner: str, metadata: Mapping[str, str] | None) -> list[int]:
    """Return the numbers of the pairs of an owner's metadata, or the one for jobs without any."""
    return list({_number(owner, *one) for one in (metadata or {}).items()} or {_number(owner)})


def metadata_rows(seq: int, owner: str, metadata: Mapping[str, str] | None) -> list[dict[str, int]]:
    """Return the rows of a job's metadata; `seq` is the job's."""
    return [{"seq": seq, "pair": number} for number in pair_numbers(owner, metadata)]


Item = TypeVar("Item")
T = TypeVar("T")
Row = sqlalchemy.Row[*tuple[Any, ...]]
"""A row with the columns of its table as attributes, see `auctune.service.storage.tables`."""

MAX_PAGE_BYTES = 1024 * 1024
"""A page ends with the row with which its bodies have so many bytes: to read, decode and serialize
them takes a thread about 50 ms."""

# Pairs of metadata with as many jobs count as equally rare.
_MAX_COUNTED = 1000
# Rows that are not of the page stay in the database.
_STREAMED = {"stream_results": True, "max_row_buffer": 10}


@dataclass(frozen=True, slots=True)
class FileTotals:
    """Number of files, and the sum of their bytes."""

    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Part of a list, and whether more follows.

    It has an item if the list goes on, and may have fewer than were asked for: see
    `MAX_PAGE_BYTES`.
    """

    items: tuple[Item, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class Charge:
    """An entry of an account, in the smallest unit of money, and the event that it is of."""

    id: int
    amount: int
    event: EventRow


class Queries:
    """Reads of a database, thread-safe."""

    def __init__(self, reader: Engine) -> None:
        self._reader = reader

    def jobs(
        self,
        owner: str | None,
        limit: int,
        after: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Page[Row]:
        """Return a page of the jobs of a user, newest first.

        Args:
            owner: user id; None: any.
            limit: jobs of the page at most.
            after: job that the page follows, which must be one of the list.
            metadata: that the owner's jobs must have; {}: they must have none; None: any.
        """
        cursor = self._cursor(jobs, owner, after)
        if metadata is None:
            return self._page(_owned(select(jobs), jobs, owner), jobs.c.seq, limit, cursor)
        assert owner is not None
        rarest, *others = self._by_rarity(pair_numbers(owner, metadata))
        same = select(job_metadata.c.seq).where(job_metadata.c.pair == rarest)
        for number in others:
            other = job_metadata.alias()
            same = same.where(
                exists().where(other.c.seq == job_metadata.c.seq, other.c.pair == number)
            )
        newest = _newest(same, job_metadata.c.seq, limit, cursor)
        query = _owned(select(jobs).where(jobs.c.seq.in_(newest)), jobs, owner)
        return self._page(query, jobs.c.seq, limit)

    def jobs_of_zone(
        self,
        zone: str,
        limit: int,
        after: str | None = None,
        statuses: Sequence[str] | None = None,
    ) -> Page[Row]:
        """Return a page of the jobs of a zone, with some statuses or any, newest first."""
        cursor = self._cursor(jobs, None, after)
        if statuses is None:
            return self._page(select(jobs).where(jobs.c.zone == zone), jobs.c.seq, limit, cursor)
        same = select(jobs.c.seq).where(jobs.c.zone == zone)
        by_status = [
            _newest(same.where(jobs.c.status == status), jobs.c.seq, limit, cursor)
            for status in statuses
        ]
        query = select(jobs).where(jobs.c.seq.in_(union_all(*by_status)))
        return self._page(query, jobs.c.seq, limit)

    def _by_rarity(self, pairs: list[int]) -> list[int]:
        """Return the numbers of pairs, that with the fewest jobs first; many count as equal."""
        if len(pairs) == 1:
            return pairs
        same = (
            select(job_metadata.c.seq)
            .where(job_metadata.c.pair == pair)
            .limit(_MAX_COUNTED)
            .subquery()
            for pair in pairs
        )
        counts = (select(func.count()).select_from(some).scalar_subquery() for some in same)
        (row,) = self._read(select(*counts))
        return [pair for _, pair in sorted(zip(row, pairs, strict=True))]

    def files(
        self,
        owner: str | None,
        limit: int,
        after: str | None = None,
        purpose: str | None = None,
        oldest_first: bool = False,
        sha256: str | None = None,
        filename: str | None = None,
        now: float | None = None,
    ) -> Page[Row]:
        """Return a page of files that are not deleted, newest first.

        The page follows the file `after`, which may have been deleted. Other arguments are filters;
        `now` leaves out those that have expired by then.
        """
        query = _owned(select(files), files, owner).where(files.c.deleted_at.is_(None))
        if now is not None:
            query = query.where(_has_not_expired(now))
        if purpose is not None:
            query = query.where(files.c.purpose == purpose)
        if sha256 is not None:
            query = query.where(files.c.sha256 == sha256)
        if filename is not None:
            # An expression has no index: few files have one content, but any number one name.
            name = files.c.filename if sha256 is None else files.c.filename + ""
            query = query.where(name == filename)
        cursor = self._cursor(files, owner, after)
        return self._page(query, files.c.seq, limit, cursor, oldest_first)

    def expired_files(
        self, now: float, limit: int, after: tuple[float, int] | None = None
    ) -> Page[Row]:
        """Return a page of all owners' files that have expired and are not deleted, in order.

        The page follows the file that expired at a time and has a number, `after`.
        """
        query = select(files).where(files.c.deleted_at.is_(None), files.c.expires_at <= now)
        if after is not None:
            query = query.where(tuple_(files.c.expires_at, files.c.seq) > tuple_(*after))
        query = query.order_by(files.c.expires_at, files.c.seq).limit(limit + 1)
        rows = self._read(query)
        return Page(tuple(rows[:limit]), len(rows) > limit)

    def results(self, owner: str, job: str, now: float) -> list[Row]:
        """Return the files of an owner whose names begin with the id of a job, oldest first.

        Those that have expired are left out.
        """
        query = select(files).where(
            files.c.owner == owner,
            files.c.purpose == "fine-tune-results",
            files.c.deleted_at.is_(None),
            _has_not_expired(now),
            files.c.filename.startswith(job, autoescape=True),
        )
        return self._read(query.order_by(files.c.seq))

    def file_totals(self, owner: str) -> FileTotals:
        """Return the totals of an owner's files, without deleted ones."""
        total = cast(func.sum(files.c.bytes), BigInteger)
        query = select(func.count(), total).where(
            files.c.owner == owner, files.c.deleted_at.is_(None)
        )
        ((count, size),) = self._read(query)
        return FileTotals(count, int(size or 0))

    def uploads_since(self, owner: str, purpose: str, since: float) -> FileTotals:
        """Return the totals of an owner's uploads since a unix time, deleted ones included."""
        total = cast(func.sum(files.c.bytes), BigInteger)
        query = select(func.count(), total).where(
            files.c.owner == owner, files.c.purpose == purpose, files.c.created_at >= since
        )
        ((count, size),) = self._read(query)
        return FileTotals(count, int(size or 0))

    def storage(self, since: int, until: int) -> dict[str, int]:
        """Return bytes times seconds of the files that were stored in a period, by owner.

        A file counts from its creation until it was deleted or has expired, to the second.
        """
        begin = case((files.c.created_at > since, files.c.created_at), else_=since)
        end: ColumnElement[Any] = literal(until, BigInteger)
        for column in (files.c.deleted_at, files.c.expires_at):
            end = case((column < end, column), else_=end)
        seconds = self._whole(end) - self._whole(begin)
        chosen = (
            select(files.c.owner, files.c.bytes, seconds.label("seconds"))
            .where(
                files.c.created_at < until,
                or_(files.c.deleted_at.is_(None), files.c.deleted_at > since),
                _has_not_expired(since),
            )
            .subquery()
        )
        # Products of large files would not fit into 64 bits; most files were there all the time.
        totals = select(
            chosen.c.owner, chosen.c.seconds, cast(func.sum(chosen.c.bytes), BigInteger)
        )
        # A clock that was set back may have deleted a file before it was stored.
        totals = totals.where(chosen.c.seconds > 0).group_by(chosen.c.owner, chosen.c.seconds)
        found: dict[str, int] = {}
        for owner, duration, size in self._read(totals):
            found[owner] = found.get(owner, 0) + int(duration) * int(size)
        return found

    def _whole(self, time: ColumnElement[Any]) -> ColumnElement[int]:
        """Return the whole seconds of a time, > 0: SQLite cuts the rest off, PostgreSQL rounds."""
        if self._reader.dialect.name == "postgresql":
            time = func.floor(time)
        return cast(time, BigInteger)

    def files_of_status(self, status: str) -> list[Row]:
        """Return all owners' files of a status that are not deleted, oldest first."""
        query = select(files).where(files.c.status == status, files.c.deleted_at.is_(None))
        return self._read(query.order_by(files.c.seq))

    def file_ids(self) -> frozenset[str]:
        rows = self._read(select(files.c.id).where(files.c.deleted_at.is_(None)))
        return frozenset(row.id for row in rows)

    def events(
        self,
        limit: int,
        after: int | None = None,
        *,
        job: str | None = None,
        zone: str | None = None,
        types: Sequence[str] | None = None,
        oldest_first: bool = False,
    ) -> Page[EventRow]:
        """Return a page of events, newest first, after a sequence number.

        Other arguments are filters.
        """
        query = EVENT_COLUMNS
        if job is not None:
            query = query.where(events.c.job == job)
        if zone is not None:
            query = query.where(events.c.zone == zone)
        if types is not None:
            query = query.where(events.c.type.in_(types))
        page = self._page(query, events.c.seq, limit, after, oldest_first)
        return Page(tuple(map(read_row, page.items)), page.has_more)

    def entries(self, account: str, limit: int, after: int | None = None) -> Page[Row]:
        """Return a page of an account's entries, newest first; `after` is the id of an entry.

        Those about no job have `event_type` and `event_body` of their event.
        """
        event = and_(events.c.seq == entries.c.seq, entries.c.job.is_(None))
        columns = events.c.type.label("event_type"), events.c.body.label("event_body")
        query = select(entries, *columns).outerjoin(events, event)
        query = query.where(entries.c.account == account)
        return self._page(query, entries.c.id, limit, after)

    def charges(
        self, account: str, since: float, until: float, limit: int, after: Charge | None = None
    ) -> Page[Charge]:
        """Return a page of an account's entries in a period, oldest first, with their events.

        The page follows the entry `after`.
        """
        query = (
            EVENT_COLUMNS.add_columns(entries.c.id, entries.c.amount)
            .join(entries, entries.c.seq == events.c.seq)
            .where(entries.c.account == account, entries.c.at < until)
        )
        if after is None:
            query = query.where(entries.c.at >= since)
        else:
            place = tuple_(entries.c.at, entries.c.id)
            query = query.where(place > (after.event.at, after.id))
        page = self._first(query.order_by(entries.c.at, entries.c.id), limit)
        charges = (Charge(row.id, row.amount, read_row(row)) for row in page.items)
        return Page(tuple(charges), page.has_more)

    def accounts(self, prefix: str) -> list[str]:
        """Return the accounts with entries whose names have a prefix."""
        column = balances.c.account
        query = select(column).where(column.startswith(prefix, autoescape=True))
        return [row.account for row in self._read(query.order_by(column))]

    def jobs_by_id(
        self, names: Collection[str], after: str | None = None, outside: Collection[str] = ()
    ) -> Page[Row]:
        """Return a page of jobs by their ids, in the order of these.

        Args:
            names: ids of jobs.
            after: id that the page follows.
            outside: zones that the jobs must not be of.
        """
        query = select(jobs).where(jobs.c.id.in_(sorted(names)))
        if outside:
            query = query.where(jobs.c.zone.not_in(sorted(outside)))
        return self._page(query, jobs.c.id, len(names) + 1, after, is_rising=True)

    def job(self, job: str) -> Row | None:
        return next(iter(self._read(select(jobs).where(jobs.c.id == job))), None)

    def file(self, file: str) -> Row | None:
        """Return a file by its id, also a deleted one, or None."""
        return next(iter(self._read(select(files).where(files.c.id == file))), None)

    def balances(self, accounts: Sequence[str] | None = None) -> dict[str, int]:
        """Return the sums of amounts by account, of these accounts or all."""
        query = select(balances)
        if accounts is not None:
            query = query.where(balances.c.account.in_(accounts))
        rows = self._read(query.order_by(balances.c.account))
        return {account: int(amount) for account, amount in rows}

    def account_history(self, since: int, step: int) -> list[tuple[str, int, int]]:
        """Return sums of the market's own accounts by period: (account, period, amount).

        Period 0 begins at `since`, in unix time, and each takes `step` seconds.
        """
        period = (cast(entries.c.at, BigInteger) - since) // step
        query = (
            select(entries.c.account, period, cast(func.sum(entries.c.amount), BigInteger))
            .where(
                entries.c.at >= since,
                entries.c.account.not_like("user:%"),
                entries.c.account.not_like("hold:%"),
            )
            .group_by(entries.c.account, period)
            .order_by(entries.c.account, period)
        )
        rows = self._read(query)
        return [(account, int(number), int(amount)) for account, number, amount in rows]

    def _page(
        self,
        query: Query,
        key: Column[T],
        limit: int,
        after: T | None = None,
        is_rising: bool = False,
    ) -> Page[Row]:
        if limit < 1:
            raise InputError("limit", f"{limit}", "at least 1")
        if after is not None:
            query = query.where(key > after if is_rising else key < after)
        return self._first(query.order_by(key if is_rising else key.desc()), limit)

    def _first(self, query: Query, limit: int) -> Page[Row]:
        """Return the first rows of a query as a page."""
        # One row more shows whether more follows.
        query = query.limit(limit + 1)
        rows: list[Row] = []
        size = 0
        with (
            self._reader.connect() as connection,
            connection.execute(query, execution_options=_STREAMED) as stored,
        ):
            for row in stored:
                if len(rows) == limit or size >= MAX_PAGE_BYTES:
                    return Page(tuple(rows), has_more=True)
                rows.append(row)
                size += len(getattr(row, "body", b""))
        return Page(tuple(rows), has_more=False)

    def _cursor(self, table: Table, owner: str | None, after: str | None) -> int | None:
        if after is None:
            return None
        rows = self._read(_owned(select(table.c.seq).where(table.c.id == after), table, owner))
        if not rows:
            raise InputError("after", f"there is no {after!r} in this list", "an id from the list")
        return int(rows[0].seq)

    def _read(self, query: Query) -> list[Row]:
        with self._reader.connect() as connection:
            return list(connection.execute(query).all())


def read_values(reader: Engine, prefix: str) -> dict[str, str]:
    """Return the values of the table `meta` whose names have a prefix, by the rest of the name."""
    query = select(meta).where(meta.c.name.startswith(prefix, autoescape=True))
    with reader.connect() as connection:
        return {row.name.removeprefix(prefix): row.value for row in connection.execute(query)}


def iter_pages(
    read: Callable[[Any], Page[Item]], key: Callable[[Item], Any] = attrgetter("id")
) -> Iterator[Page[Item]]:
    """Yield the pages of a list; each is read when it is asked for.

    Args:
        read: returns the page after an item, by its key; None: the first one.
        key: of an item.
    """
    after, has_more = None, True
    while has_more:
        page = read(after)
        yield page
        if has_more := page.has_more:
            after = key(page.items[-1])


def _has_not_expired(now: float) -> ColumnElement[bool]:
    return or_(files.c.expires_at.is_(None), files.c.expires_at > now)


def _newest(chosen: Query, key: Column[int], limit: int, after: int | None) -> Query:
    """Return the numbers of a page, and one more, that is read along an index.

    Rows of jobs are read by these: they would be sorted with their bodies.
    """
    if after is not None:
        chosen = chosen.where(key < after)
    some = chosen.order_by(key.desc()).limit(limit + 1).subquery()
    return select(*some.columns)


def _owned(query: Query, table: Table, owner: str | None) -> Query:
    return query if owner is None else query.where(table.c.owner == owner)
