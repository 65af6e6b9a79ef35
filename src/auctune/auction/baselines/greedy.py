"""EFT and NTM: the paper's baselines without prices (Zheng et al., ICPP 2024, section 5.1).

Both take cells so that the task finishes as early as possible, admit whatever fits, and charge
the bid; neither is truthful. EFT takes the quickest vendor; NTM a random one, and runs no two
tasks on one node in one slot.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from auctune.auction.baselines.charging import BidCharging
from auctune.auction.baselines.earliest import earliest_cells
from auctune.auction.book import Book, Floats, Ints
from auctune.auction.sale import sell_for_bid
from auctune.domain import Cluster, Decision, Quote, Reason, Task, check_task
from auctune.numerics.rng import stream


class VendorRule(Protocol):
    """How a baseline picks the vendor of a task that needs one."""

    def __call__(self, task: Task) -> Quote:
        """The quote to take."""
        ...


def quickest_vendor(task: Task) -> Quote:
    """The one with the least delay; the first among equals."""
    return min(task.quotes, key=lambda quote: quote.delay)


def random_vendor(seed: int) -> VendorRule:
    """Any of them, drawn by seed and task."""

    def choose(task: Task) -> Quote:
        drawn = stream(seed, "vendor", task.id).integers(len(task.quotes))
        return task.quotes[int(drawn)]

    return choose


class GreedyAdmission(BidCharging):
    """Admits whatever fits, as early as it can be finished.

    Args:
        cluster: the supply.
        vendor: how a vendor is picked.
        alone: never two tasks on one node in one slot.
    """

    def __init__(self, cluster: Cluster, vendor: VendorRule, *, alone: bool) -> None:
        super().__init__(cluster)
        self._empty = Book(cluster, prune=False)
        self._vendor = vendor
        self._alone = alone

    def offer(self, task: Task, now: int) -> Decision:
        """Decide on one bid, and book what was promised.

        Raises:
            InputError: if the task does not fit this cluster's types and horizon.
        """
        check_task(task, self.book.cluster)
        quote = self._vendor(task) if task.quotes else None
        throughput = self.book.throughput(task)
        cells = self._earliest(self.book, task, now, quote, throughput)
        if cells is None:
            possible = self._earliest(self._empty, task, now, quote, throughput) is not None
            reason = Reason.NO_CAPACITY if possible else Reason.NO_FEASIBLE_SCHEDULE
            return Decision(task.id, admitted=False, reason=reason)
        return sell_for_bid(self.book, task, quote, *cells)

    def offer_slot(self, tasks: Sequence[Task], now: int) -> list[Decision]:
        """Decide on all bids of one slot, one after the other."""
        return [self.offer(task, now) for task in tasks]

    def _earliest(
        self, book: Book, task: Task, now: int, quote: Quote | None, throughput: Floats
    ) -> tuple[Ints, Ints] | None:
        first = max(now, task.arrival) + (0 if quote is None else quote.delay)
        nodes = np.full(max(0, task.deadline + 1 - first), -1, dtype=np.int64)
        done = earliest_cells(
            book.capacity,
            book.usage,
            first,
            task.deadline,
            task.work,
            throughput,
            task.memory_gb,
            self._alone,
            nodes,
        )
        if not done:
            return None
        used = np.flatnonzero(nodes >= 0)
        return first + used, nodes[used]


def make_eft(cluster: Cluster) -> GreedyAdmission:
    """EFT: earliest finish time."""
    return GreedyAdmission(cluster, quickest_vendor, alone=False)


def make_ntm(cluster: Cluster, seed: int) -> GreedyAdmission:
    """NTM: no task merging."""
    return GreedyAdmission(cluster, random_vendor(seed), alone=True)
