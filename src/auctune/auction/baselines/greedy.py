"""EFT and NTM: the paper's baselines without prices (Zheng et al., ICPP 2024, section 5.1).

Both take cells so that the task finishes as early as possible, admit whatever fits, and charge
the bid; neither is truthful. EFT takes the quickest vendor; NTM a random one, and runs no two
tasks on one node in one slot.
"""

from typing import Protocol

from auctune.auction.baselines.charging import BidCharging
from auctune.auction.baselines.earliest_finish import find_earliest
from auctune.auction.ledger import empty_usage
from auctune.auction.plan import sell_for_bid
from auctune.domain import Cluster, Decision, EnergyForecast, Quote, Reason, Task
from auctune.numerics.rng import stream


class VendorRule(Protocol):
    """How a baseline picks the vendor of a task that needs one."""

    def __call__(self, task: Task) -> Quote:
        """Return the quote to take."""
        ...


def quickest_vendor(task: Task) -> Quote:
    """Return the one with the least delay; the first among equals."""
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
        energy: what slots to come will cost, for a market without an end.
    """

    def __init__(
        self,
        cluster: Cluster,
        vendor: VendorRule,
        *,
        alone: bool,
        energy: EnergyForecast | None = None,
    ) -> None:
        super().__init__(cluster, energy=energy, alone=alone)
        self._empty = empty_usage(self.ledger.capacity, self.ledger.horizon.num_rows, prune=False)
        self._vendor = vendor

    def offer(self, task: Task, now: int) -> Decision:
        """Decide on one bid, and allocate what was promised.

        Raises:
            InputError: if the task does not fit this cluster's types and horizon.
        """
        self.ledger.check(task, now)
        self.advance(now)
        quote = self._vendor(task) if task.quotes else None
        delay = 0 if quote is None else quote.delay
        first = self.ledger.row(max(now, task.arrival) + delay)
        cells = find_earliest(self.ledger, self.ledger.usage, task, first, alone=self._alone)
        if cells is None:
            possible = find_earliest(self.ledger, self._empty, task, first, alone=False) is not None
            reason = Reason.NO_CAPACITY if possible else Reason.NO_FEASIBLE_SCHEDULE
            return Decision(task.id, admitted=False, reason=reason)
        return sell_for_bid(self.ledger, task, quote, *cells)


def make_eft(cluster: Cluster, *, energy: EnergyForecast | None = None) -> GreedyAdmission:
    """EFT: earliest finish time; with `energy` in a market without an end."""
    return GreedyAdmission(cluster, quickest_vendor, alone=False, energy=energy)


def make_ntm(
    cluster: Cluster, seed: int, *, energy: EnergyForecast | None = None
) -> GreedyAdmission:
    """NTM: no task merging; with `energy` in a market without an end."""
    return GreedyAdmission(cluster, random_vendor(seed), alone=True, energy=energy)
