"""The bids of a day, as later slots and days remember them: how many came when, and samples."""

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from auctune.auction.book import Ints
from auctune.auction.dual.columns import TaskColumns
from auctune.auction.pricing.learned.bids import choose, join, relative_columns
from auctune.domain import Cluster, Saved, Task

# Bids of one slot that are remembered with all they asked for; the rest is only counted.
_KEPT_OF_A_SLOT = 200


class Seen(NamedTuple):
    """Bids that were seen; I of them are kept, D slots a day."""

    columns: TaskColumns  # of those kept, slots counted from each one's arrival
    slot: Ints  # [I] of the day in which each came, rising
    counts: Ints  # [D] bids of each slot, those not kept too


class Diary:
    """Notes of one day.

    Args:
        cluster: what the bids speak of.
        num_slots: of a day (D).
        before: what was seen of the day already.
    """

    def __init__(self, cluster: Cluster, num_slots: int, before: Seen | None = None) -> None:
        self._cluster = cluster
        self._before = before
        self._tasks: list[Task] = []
        self._slots: list[int] = []
        self.counts: Ints = np.zeros(num_slots, dtype=np.int64)
        if before is not None:
            self.counts += before.counts

    def __deepcopy__(self, memo: dict[int, Any]) -> "Diary":
        """The same notes in lists of their own; what was noted never changes."""
        later = copy.copy(self)
        later._tasks, later._slots = self._tasks.copy(), self._slots.copy()
        later.counts = self.counts.copy()
        return later

    def note(self, task: Task, slot: int) -> None:
        """Remember a bid that came in this slot of the day, which is not before the last one's."""
        self.counts[slot] += 1
        if self.counts[slot] <= _KEPT_OF_A_SLOT:
            self._tasks.append(task)
            self._slots.append(slot)

    def seen(self, first: int = 0) -> Seen:
        """What was seen from slot `first` of the day on; counts are those of the whole day."""
        start = int(np.searchsorted(self._slots, first))
        columns = relative_columns(self._tasks[start:], self._cluster)
        slots = np.array(self._slots[start:], dtype=np.int64)
        if self._before is None:
            return Seen(columns, slots, self.counts)
        kept = np.flatnonzero(self._before.slot >= first)
        return Seen(
            join([choose(self._before.columns, kept), columns]),
            np.concatenate((self._before.slot[kept], slots)),
            self.counts,
        )


def read_day(tasks: Sequence[Task], cluster: Cluster, num_slots: int) -> Seen:
    """An earlier day's bids; those that no node type of this cluster can run are left out."""
    diary = Diary(cluster, num_slots)
    by_slot = sorted(tasks, key=lambda task: task.arrival % num_slots)
    for task in by_slot:
        if any(name in cluster.node_types for name in task.throughput):
            diary.note(task, task.arrival % num_slots)
    return diary.seen()


def save_seen(seen: Seen) -> Saved:
    """As names and arrays."""
    return {"columns": seen.columns._asdict(), "slot": seen.slot, "counts": seen.counts.copy()}


def load_seen(saved: Saved) -> Seen:
    """What `save_seen` gave."""
    return Seen(TaskColumns(**saved["columns"]), saved["slot"], saved["counts"])
