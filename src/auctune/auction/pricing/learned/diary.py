"""The bids of late and of today, as later slots and days remember them: how many, and samples.

Shapes: D slots a day, I bids kept.
"""

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from auctune.auction.book import Floats, Ints
from auctune.auction.dual.columns import TaskColumns
from auctune.auction.pricing.learned.bids import join, relative_columns, to_tasks
from auctune.domain import Cluster, Saved, Task

# Bids of one slot that are remembered with all they asked for, evenly over all that came; the rest
# is only counted. A few for each of a forecast's scenarios would do.
_KEPT_OF_A_SLOT = 200


class Seen(NamedTuple):
    """Bids of a day; those of its slots that were there to bring any are known."""

    columns: TaskColumns  # of those kept, slots counted from each one's arrival
    slot: Ints  # [I] of the day in which each came, rising
    counts: Ints  # [D] bids of each slot, those not kept too
    num_known: int  # slots from the first one on that are known


class Late(NamedTuple):
    """Bids of the last hours, over midnight too."""

    columns: TaskColumns  # of those kept, slots counted from each one's arrival
    past: Floats  # bids of each slot that is over, the latest last, of a day at most
    num_seen: int  # bids of the current slot so far


class Diary:
    """Notes of the market's days, of which only the current one and the last hours are kept.

    Args:
        cluster: what the bids speak of.
        num_slots: of a day (D).
        recent: slots that count as of late.

    Attributes:
        now: the current slot, from the market's first one on.
        num_seen: bids of the current slot so far.
    """

    def __init__(self, cluster: Cluster, num_slots: int, recent: int) -> None:
        self._cluster = cluster
        self._num_day = num_slots
        self._recent = recent
        self.now = 0
        self.num_seen = 0
        # Bids of the slots of today and of the day before, by slot; [2 D], today second.
        self._counts: Ints = np.zeros(2 * num_slots, dtype=np.int64)
        self._num_past = 0
        self._chunks: list[tuple[int, TaskColumns]] = []
        self._fresh: list[Task] = []

    def __deepcopy__(self, memo: dict[int, Any]) -> "Diary":
        """The same notes in lists of their own; what was noted never changes."""
        later = copy.copy(self)
        later._chunks, later._fresh = self._chunks.copy(), self._fresh.copy()
        later._counts = self._counts.copy()
        return later

    def begin(self, now: int) -> Seen | None:
        """Slot `now` begins; what the day brought, if it was its last one."""
        if now == self.now:
            return None
        self._put_away()
        day = None
        if now // self._num_day > self.now // self._num_day:
            day = self._close_day(now)
        self._num_past = min(self._num_day, self._num_past + now - self.now)
        self.now, self.num_seen = now, 0
        oldest = min(now - self._recent, now - now % self._num_day)
        self._chunks = [chunk for chunk in self._chunks if chunk[0] >= oldest]
        return day

    def note(self, task: Task) -> None:
        """Remember a bid of the current slot."""
        self.num_seen += 1
        self._counts[self._num_day + self.now % self._num_day] += 1
        if len(self._fresh) < _KEPT_OF_A_SLOT:
            self._fresh.append(task)
            return
        # A reservoir, whose draws are the same on replay: each bid is as likely to be kept.
        drawn = _mix(self.now, self.num_seen) % self.num_seen
        if drawn < _KEPT_OF_A_SLOT:
            self._fresh[drawn] = task

    @property
    def num_late(self) -> int:
        """Bids of the last hours that are kept."""
        first = self.now - self._recent
        kept = sum(columns.num_tasks for slot, columns in self._chunks if slot >= first)
        return kept + len(self._fresh)

    def late(self) -> Late:
        """What the last hours brought."""
        first = self.now - self._recent
        chunks = [columns for slot, columns in self._chunks if slot >= first]
        columns = join([*chunks, relative_columns(self._fresh, self._cluster)])
        end = self._num_day + self.now % self._num_day
        past = self._counts[end - self._num_past : end].astype(np.float64)
        return Late(columns, past, self.num_seen)

    def save(self) -> Saved:
        """All that is noted."""
        columns = [(slot, columns) for slot, columns in self._chunks]
        if self._fresh:
            columns.append((self.now, relative_columns(self._fresh, self._cluster)))
        return {
            "now": self.now,
            "num_seen": self.num_seen,
            "num_past": self._num_past,
            "counts": self._counts.copy(),
            "slots": [slot for slot, _ in columns],
            "chunks": [chunk._asdict() for _, chunk in columns],
        }

    def load(self, saved: Saved) -> None:
        """Take over what was saved."""
        self.now, self.num_seen = saved["now"], saved["num_seen"]
        self._num_past, self._counts = saved["num_past"], saved["counts"].copy()
        chunks = [TaskColumns(**chunk) for chunk in saved["chunks"]]
        self._chunks = list(zip(saved["slots"], chunks, strict=True))
        self._fresh = []
        if self._chunks and self._chunks[-1][0] == self.now:
            self._fresh = to_tasks(self._chunks.pop()[1], self._cluster)

    def _put_away(self) -> None:
        if self._fresh:
            self._chunks.append((self.now, relative_columns(self._fresh, self._cluster)))
            self._fresh = []

    def _close_day(self, now: int) -> Seen:
        start = self.now - self.now % self._num_day
        of_day = [(slot - start, columns) for slot, columns in self._chunks if slot >= start]
        parts = [columns for _, columns in of_day] or [relative_columns([], self._cluster)]
        sizes = [columns.num_tasks for _, columns in of_day]
        slots = np.repeat(np.array([slot for slot, _ in of_day], dtype=np.int64), sizes)
        today = self._counts[self._num_day :]
        seen = Seen(join(parts), slots, today.copy(), self._num_day)
        gap = now // self._num_day - self.now // self._num_day
        self._counts[: self._num_day] = today if gap == 1 else 0
        self._counts[self._num_day :] = 0
        return seen


def read_days(tasks: Sequence[Task], cluster: Cluster, num_slots: int, horizon: int) -> list[Seen]:
    """Earlier bids, day by day; those that no node type of this cluster can run are left out.

    Args:
        tasks: with slots from 0 on, over one day or several.
        cluster: of the market to come.
        num_slots: of a day.
        horizon: slots of a market with an end; what it has less than a day is not known.
    """
    days: dict[int, list[Task]] = {}
    for task in tasks:
        if any(name in cluster.node_types for name in task.throughput):
            days.setdefault(task.arrival // num_slots, []).append(task)
    return [_read_day(days[day], cluster, num_slots, horizon) for day in sorted(days)]


def _read_day(tasks: Sequence[Task], cluster: Cluster, num_slots: int, horizon: int) -> Seen:
    diary = Diary(cluster, num_slots, num_slots)
    for task in sorted(tasks, key=lambda task: task.arrival % num_slots):
        diary.begin(task.arrival % num_slots)
        diary.note(task)
    seen = diary.begin(num_slots)
    assert seen is not None
    last = max(task.arrival % num_slots for task in tasks)
    return seen._replace(num_known=min(num_slots, max(horizon, last + 1)))


def save_seen(seen: Seen) -> Saved:
    """As names and arrays."""
    return {
        "columns": seen.columns._asdict(),
        "slot": seen.slot,
        "counts": seen.counts.copy(),
        "num_known": seen.num_known,
    }


def load_seen(saved: Saved) -> Seen:
    """What `save_seen` gave."""
    columns = TaskColumns(**saved["columns"])
    return Seen(columns, saved["slot"], saved["counts"], saved["num_known"])


def _mix(slot: int, number: int) -> int:
    """64 bits that look drawn at random (Steele et al., OOPSLA 2014, SplitMix64)."""
    mask = (1 << 64) - 1
    z = (slot * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)
