"""History of bids, from which learned prices forecast: how many came, and samples of them.

Bids are kept as columns (`TaskColumns`) whose slots count from each one's arrival.

Shapes: D slots a day, I bids kept.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from auctune.auction.dual.columns import TaskColumns, to_columns
from auctune.auction.pricing.learned_params import LearnedParams
from auctune.domain import Cluster, InputError, Quote, Saved, Task
from auctune.domain.snapshot import read_finite
from auctune.numerics.arrays import Floats, Ints


def relative_columns(tasks: Sequence[Task], cluster: Cluster) -> TaskColumns:
    """Columns with arrival 0 and deadlines counted from it.

    Costs that a task brings itself are those of its own slots and say nothing of others: those of
    the node types stand for them.
    """
    plain = [
        task if task.operating_cost is None else replace(task, operating_cost=None)
        for task in tasks
    ]
    columns = to_columns(plain, cluster)
    return columns._replace(
        arrival=np.zeros_like(columns.arrival), deadline=columns.deadline - columns.arrival
    )


def to_tasks(columns: TaskColumns, cluster: Cluster) -> list[Task]:
    """Tasks of which `relative_columns` makes these columns again."""
    tasks = []
    for i in range(columns.num_tasks):
        offers = slice(columns.first_quote[i], columns.first_quote[i + 1])
        prices, delays = columns.quote_price[offers].tolist(), columns.quote_delay[offers].tolist()
        speeds = zip(cluster.node_types, columns.throughput[i].tolist(), strict=True)
        tasks.append(
            Task(
                id=f"{i}",
                arrival=0,
                deadline=int(columns.deadline[i]),
                work=float(columns.work[i]),
                memory_gb=float(columns.memory_gb[i]),
                bid=Decimal(float(columns.bid[i])),
                throughput={name: speed for name, speed in speeds if speed > 0},
                quotes=tuple(
                    Quote(f"{n}", Decimal(price), delay)
                    for n, (price, delay) in enumerate(zip(prices, delays, strict=True))
                ),
            )
        )
    return tasks


def select_rows(columns: TaskColumns, rows: Ints) -> TaskColumns:
    """These rows, in this order; a row may come twice."""
    counts = np.diff(columns.first_quote)[rows]
    first = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    starts = np.repeat(columns.first_quote[:-1][rows] - first[:-1], counts)
    quotes = starts + np.arange(first[-1])
    return columns._replace(
        arrival=columns.arrival[rows],
        deadline=columns.deadline[rows],
        work=columns.work[rows],
        memory_gb=columns.memory_gb[rows],
        bid=columns.bid[rows],
        throughput=columns.throughput[rows],
        first_quote=first,
        quote_price=columns.quote_price[quotes],
        quote_delay=columns.quote_delay[quotes],
        own_cost=columns.own_cost[rows],
    )


def join(parts: Sequence[TaskColumns]) -> TaskColumns:
    """One after the other."""
    offsets = np.cumsum([0, *(len(part.quote_price) for part in parts)])
    starts = [part.first_quote[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in TaskColumns._fields
        if name not in ("first_quote", "costs")
    }
    first_quote = np.concatenate((*starts, offsets[-1:])).astype(np.int64)
    return TaskColumns(**joined, first_quote=first_quote, costs=parts[0].costs)


class DayRecord(NamedTuple):
    """Bids of a day."""

    columns: TaskColumns  # of those kept, slots counted from each one's arrival
    slot: Ints  # [I] of the day in which each came, rising
    counts: Ints  # [D] bids of each slot, those not kept too
    num_known: int  # number of first slots that the market had, the rest being unknown


class RecentDemand(NamedTuple):
    """Bids of the last hours, across midnight."""

    columns: TaskColumns  # of those kept, slots counted from each one's arrival
    past: Floats  # bids of each slot that is over, the latest last, of a day at most
    num_seen: int  # bids of the current slot so far


class DemandHistory:
    """Bids of the current day and of the last hours.

    Args:
        cluster: of the market.
        num_slots: of a day (D).
        recent: number of slots that count as recent.
        params: constants.

    Attributes:
        now: the current slot, from the market's first one on.
        num_seen: bids of the current slot so far.
    """

    def __init__(
        self, cluster: Cluster, num_slots: int, recent: int, params: LearnedParams | None = None
    ) -> None:
        params = params or LearnedParams()
        self._cluster = cluster
        self._max_days, self._max_kept = params.max_days, params.max_bids_per_slot
        self._num_day = num_slots
        self._num_recent_slots = recent
        self.now = 0
        self.num_seen = 0
        # Bids of the slots of today and of the day before, by slot; [2 D], today second.
        self._counts: Ints = np.zeros(2 * num_slots, dtype=np.int64)
        self._num_past = 0
        self._chunks: list[tuple[int, TaskColumns]] = []
        self._current: list[Task] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "DemandHistory":
        later = copy.copy(self)
        later._chunks, later._current = self._chunks.copy(), self._current.copy()
        later._counts = self._counts.copy()
        return later

    def begin(self, now: int) -> list[DayRecord]:
        """Begin slot `now`; return records of the days that have ended, of `max_days` at most.

        Days of which no slot was begun are among them: they brought no bid.
        """
        if now == self.now:
            return []
        self._archive_slot()
        days: list[DayRecord] = []
        num_ended = now // self._num_day - self.now // self._num_day
        if num_ended:
            idle = _idle_day(self._cluster, self._num_day, self._num_day)
            num_idle = min(num_ended - 1, self._max_days)
            days = [self._close_day(num_ended), *[idle] * num_idle][-self._max_days :]
        self._num_past = min(self._num_day, self._num_past + now - self.now)
        self.now, self.num_seen = now, 0
        oldest = min(now - self._num_recent_slots, now - now % self._num_day)
        self._chunks = [chunk for chunk in self._chunks if chunk[0] >= oldest]
        return days

    def add(self, task: Task) -> None:
        """Add a bid of the current slot."""
        self.num_seen += 1
        self._counts[self._num_day + self.now % self._num_day] += 1
        if len(self._current) < self._max_kept:
            self._current.append(task)
            return
        # A reservoir, whose draws are the same on replay: each bid is as likely to be kept.
        drawn = _mix(self.now, self.num_seen) % self.num_seen
        if drawn < self._max_kept:
            self._current[drawn] = task

    @property
    def num_recent(self) -> int:
        """Number of bids of the last hours that are kept."""
        first = self.now - self._num_recent_slots
        kept = sum(columns.num_tasks for slot, columns in self._chunks if slot >= first)
        return kept + len(self._current)

    def recent(self) -> RecentDemand:
        """Return the bids of the last hours."""
        first = self.now - self._num_recent_slots
        chunks = [columns for slot, columns in self._chunks if slot >= first]
        columns = join([*chunks, relative_columns(self._current, self._cluster)])
        end = self._num_day + self.now % self._num_day
        past = self._counts[end - self._num_past : end].astype(np.float64)
        return RecentDemand(columns, past, self.num_seen)

    def save(self) -> Saved:
        columns = [(slot, columns) for slot, columns in self._chunks]
        if self._current:
            columns.append((self.now, relative_columns(self._current, self._cluster)))
        return {
            "now": self.now,
            "num_seen": self.num_seen,
            "num_past": self._num_past,
            "counts": self._counts.copy(),
            "slots": [slot for slot, _ in columns],
            "chunks": [chunk._asdict() for _, chunk in columns],
        }

    def load(self, saved: Saved) -> None:
        counts = read_finite(saved, "counts", self._counts.shape).copy()
        now, num_seen, num_past = (int(saved[name]) for name in ("now", "num_seen", "num_past"))
        num_types = len(self._cluster.node_types)
        columns = [_load_columns(chunk, num_types) for chunk in saved["chunks"]]
        chunks = list(zip(saved["slots"], columns, strict=True))
        # All of it can be read: from here on nothing fails.
        self.now, self.num_seen, self._num_past = now, num_seen, num_past
        self._counts, self._chunks, self._current = counts, chunks, []
        if self._chunks and self._chunks[-1][0] == self.now:
            self._current = to_tasks(self._chunks.pop()[1], self._cluster)

    def _archive_slot(self) -> None:
        if self._current:
            self._chunks.append((self.now, relative_columns(self._current, self._cluster)))
            self._current = []

    def _close_day(self, num_ended: int) -> DayRecord:
        start = self.now - self.now % self._num_day
        of_day = [(slot - start, columns) for slot, columns in self._chunks if slot >= start]
        parts = [columns for _, columns in of_day] or [relative_columns([], self._cluster)]
        sizes = [columns.num_tasks for _, columns in of_day]
        slots = np.repeat(np.array([slot for slot, _ in of_day], dtype=np.int64), sizes)
        today = self._counts[self._num_day :]
        seen = DayRecord(join(parts), slots, today.copy(), self._num_day)
        self._counts[: self._num_day] = today if num_ended == 1 else 0
        self._counts[self._num_day :] = 0
        return seen


def read_days(
    tasks: Sequence[Task],
    cluster: Cluster,
    num_slots: int,
    horizon: int,
    params: LearnedParams | None = None,
) -> list[DayRecord]:
    """Return records of earlier days, without bids that no node type of this cluster can run.

    They end with the day of the last such bid; days before it without one are idle days.

    Args:
        tasks: with slots from 0 on, over one day or several.
        cluster: of the market to come.
        num_slots: of a day.
        horizon: slots of a market with an end; what it has less than a day is not known.
        params: constants.
    """
    days: dict[int, list[Task]] = {}
    for task in tasks:
        if any(name in cluster.node_types for name in task.throughput):
            days.setdefault(task.arrival // num_slots, []).append(task)
    return [
        _read_day(days[day], cluster, num_slots, horizon, params)
        if day in days
        else _idle_day(cluster, num_slots, min(num_slots, horizon))
        for day in range(max(days, default=-1) + 1)
    ]


def _idle_day(cluster: Cluster, num_slots: int, num_known: int) -> DayRecord:
    counts, slots = np.zeros(num_slots, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return DayRecord(relative_columns([], cluster), slots, counts, num_known)


def _read_day(
    tasks: Sequence[Task],
    cluster: Cluster,
    num_slots: int,
    horizon: int,
    params: LearnedParams | None,
) -> DayRecord:
    history = DemandHistory(cluster, num_slots, num_slots, params)
    for task in sorted(tasks, key=lambda task: task.arrival % num_slots):
        history.begin(task.arrival % num_slots)
        history.add(task)
    (seen,) = history.begin(num_slots)
    last = max(task.arrival % num_slots for task in tasks)
    return seen._replace(num_known=min(num_slots, max(horizon, last + 1)))


def save_day(seen: DayRecord) -> Saved:
    """Return a snapshot of a day."""
    return {
        "columns": seen.columns._asdict(),
        "slot": seen.slot,
        "counts": seen.counts.copy(),
        "num_known": seen.num_known,
    }


def load_day(saved: Saved, num_slots: int, num_types: int) -> DayRecord:
    """Return what `save_day` gave.

    Raises:
        InputError: if it is of a market with other slots of a day, or other node types.
    """
    columns = _load_columns(saved["columns"], num_types)
    slot = read_finite(saved, "slot", (columns.num_tasks,))
    counts = read_finite(saved, "counts", (num_slots,))
    return DayRecord(columns, slot, counts, int(saved["num_known"]))


def _load_columns(saved: Saved, num_types: int) -> TaskColumns:
    columns = TaskColumns(**saved)
    num_tasks, num_quotes = len(columns.work), len(columns.quote_price)
    shapes = {
        "throughput": (num_tasks, num_types),
        "first_quote": (num_tasks + 1,),
        "quote_price": (num_quotes,),
        "quote_delay": (num_quotes,),
        "costs": columns.costs.shape,
    }
    for name in TaskColumns._fields:
        read_finite(saved, name, shapes.get(name, (num_tasks,)))
    first = columns.first_quote
    # Kernels look these up without a check.
    if first[0] != 0 or first[-1] != num_quotes or np.any(np.diff(first) < 1):
        raise InputError(
            "snapshot.first_quote", "is no list of starts", f"0 to {num_quotes}, rising"
        )
    if np.any(columns.own_cost != -1):
        raise InputError("snapshot.own_cost", "names costs of a task", "-1 for each")
    return columns


def _mix(slot: int, number: int) -> int:
    """64 bits that look drawn at random (Steele et al., OOPSLA 2014, SplitMix64)."""
    mask = (1 << 64) - 1
    z = (slot * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)
