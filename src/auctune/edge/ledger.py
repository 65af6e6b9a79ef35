"""What is sold of the market: traffic rho(t) and units eta_r^k(t).

The market's T slots are a window: those from `begin` on. It stands still in a simulation, and goes
with the clock in a service.

Shapes: T slots, R sites, K resource types.
"""

import numpy as np

from auctune.domain import InputError, Saved
from auctune.domain.snapshot import read_array
from auctune.edge.decision import EdgePlan
from auctune.edge.job import EdgeJob
from auctune.edge.market import EdgeMarket
from auctune.numerics.arrays import FIT, Bools, Floats


class EdgeLedger:
    """The state of a market's slots; row t of each array is slot `begin` + t.

    Attributes:
        begin: the first slot of the window.
        traffic: [T] MB sold, rho.
        used: [T, R, K] units sold, eta.
        closed: [T, R] where a lost site runs nothing.
    """

    def __init__(self, market: EdgeMarket) -> None:
        self.market = market
        self.capacity: Floats = market.capacity()
        num_sites, num_types = self.capacity.shape
        self.begin = 0
        self.traffic: Floats = np.zeros(market.slots)
        self.used: Floats = np.zeros((market.slots, num_sites, num_types))
        self.closed: Bools = np.zeros((market.slots, num_sites), dtype=np.bool_)
        self._index = {name: index for index, name in enumerate(market.site_ids)}

    @property
    def end(self) -> int:
        """The first slot after the window."""
        return self.begin + self.market.slots

    def row(self, slot: int) -> int:
        """Where a slot of the window stands in the arrays."""
        assert self.begin <= slot < self.end, (self.begin, slot)
        return slot - self.begin

    def advance(self, begin: int) -> None:
        """Let the slots before `begin` go; as many enter, empty, with those sites closed that were
        in the last slot."""
        passed = min(begin - self.begin, self.market.slots)
        if passed <= 0:
            return
        last = self.closed[-1].copy()
        for array in (self.traffic, self.used, self.closed):
            array[: len(array) - passed] = array[passed:].copy()
            array[len(array) - passed :] = 0
        self.closed[len(self.closed) - passed :] = last
        self.begin = begin

    def take(self, job: EdgeJob, plan: EdgePlan) -> None:
        """Sell a plan."""
        self._change(job, plan, 1.0)

    def give_back(self, job: EdgeJob, plan: EdgePlan) -> None:
        """Undo `take`."""
        self._change(job, plan, -1.0)

    def free(self, first: int) -> Floats:
        """[end - first, R, K] units free from slot `first` on; none at a lost site."""
        row = first - self.begin
        free = np.maximum(self.capacity - self.used[row:], 0.0)
        free[self.closed[row:]] = 0.0
        return free

    def room(self, first: int) -> Floats:
        """[end - first] MB free."""
        free: Floats = np.maximum(
            self.market.traffic_mb_per_slot - self.traffic[first - self.begin :], 0.0
        )
        return free

    def lose(self, site: str, now: int) -> None:
        """Close a site from slot `now` on.

        Raises:
            InputError: if there is no such site, or if it is lost already.
        """
        index = self.index_of(site)
        row = self.row(now)
        if self.closed[row:, index].any():
            raise InputError("site", f"{site!r} is lost already", "a site that is there")
        self.closed[row:, index] = True

    def restore(self, site: str, now: int) -> None:
        """Undo `lose` from slot `now` on.

        Raises:
            InputError: if there is no such site, or if it is not lost.
        """
        index = self.index_of(site)
        row = self.row(now)
        if not self.closed[row:, index].any():
            raise InputError("site", f"{site!r} is not lost", "a site that is")
        self.closed[row:, index] = False

    def index_of(self, site: str) -> int:
        """Where a site stands in the arrays.

        Raises:
            InputError: if there is no such site.
        """
        if site not in self._index:
            raise InputError("site", f"{site!r} is no site", "the id of a site")
        return self._index[site]

    def copy(self) -> "EdgeLedger":
        """Another one with the same content."""
        other = EdgeLedger(self.market)
        other.load(self.save())
        return other

    def save(self) -> Saved:
        return {
            "begin": self.begin,
            "traffic": self.traffic.copy(),
            "used": self.used.copy(),
            "closed": self.closed.copy(),
        }

    def load(self, saved: Saved) -> None:
        """Take over what the ledger of the same market saved; an error may leave half of it.

        Raises:
            InputError: if it was another market's.
        """
        for name in ("traffic", "used", "closed"):
            own = getattr(self, name)
            own[...] = read_array(saved, name, own.shape)
        if np.any(self.used > self.capacity * (1 + 2 * FIT)):
            raise InputError("snapshot.used", "is more than sites hold", "what fits them")
        # Of a market that stands still, older ones say nothing of it.
        self.begin = saved.get("begin", 0)

    def _change(self, job: EdgeJob, plan: EdgePlan, sign: float) -> None:
        worker, server = self.market.needs(job.worker), self.market.needs(job.server)
        for part in plan.slots:
            row = self.row(part.slot)
            self.traffic[row] += sign * part.traffic_mb(job, self.market)
            for site, count in part.workers.items():
                self.used[row, self._index[site]] += sign * count * worker
            self.used[row, self._index[part.server]] += sign * server
        if sign < 0:
            # What was added and taken away again leaves a rest of rounding, which has no price.
            self._sweep(plan)

    def _sweep(self, plan: EdgePlan) -> None:
        for row in (self.row(part.slot) for part in plan.slots):
            dust = np.abs(self.used[row]) <= 1e-9 * np.maximum(self.capacity, 1.0)
            self.used[row][dust] = 0.0
            if abs(self.traffic[row]) <= 1e-9 * self.market.traffic_mb_per_slot:
                self.traffic[row] = 0.0
