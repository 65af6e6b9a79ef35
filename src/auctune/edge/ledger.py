"""What is sold of the market: traffic rho(t) and units eta_r^k(t).

Shapes: T slots, R sites, K resource types.
"""

import numpy as np

from auctune.domain import InputError, Saved
from auctune.edge.arrays import Bools, Floats
from auctune.edge.job import EdgeJob
from auctune.edge.market import EdgeMarket
from auctune.edge.plan import EdgePlan


class EdgeLedger:
    """The state of a market's slots.

    Attributes:
        traffic: [T] MB sold, rho.
        used: [T, R, K] units sold, eta.
        closed: [T, R] where a lost site runs nothing.
    """

    def __init__(self, market: EdgeMarket) -> None:
        self.market = market
        self.capacity: Floats = market.capacity()
        num_sites, num_types = self.capacity.shape
        self.traffic: Floats = np.zeros(market.slots)
        self.used: Floats = np.zeros((market.slots, num_sites, num_types))
        self.closed: Bools = np.zeros((market.slots, num_sites), dtype=np.bool_)
        self._index = {name: index for index, name in enumerate(market.site_ids)}

    def take(self, job: EdgeJob, plan: EdgePlan) -> None:
        """Sell a plan."""
        self._change(job, plan, 1.0)

    def give_back(self, job: EdgeJob, plan: EdgePlan) -> None:
        """Undo `take`."""
        self._change(job, plan, -1.0)

    def free(self, first: int) -> Floats:
        """[T - first, R, K] units left from slot `first` on; none at a lost site."""
        left = np.maximum(self.capacity - self.used[first:], 0.0)
        left[self.closed[first:]] = 0.0
        return left

    def room(self, first: int) -> Floats:
        """[T - first] MB left."""
        left: Floats = np.maximum(self.market.traffic_mb_per_slot - self.traffic[first:], 0.0)
        return left

    def lose(self, site: str, now: int) -> None:
        """Close a site from slot `now` on.

        Raises:
            InputError: if there is no such site, or if it is lost already.
        """
        index = self.index_of(site)
        if self.closed[now:, index].any():
            raise InputError("site", f"{site!r} is lost already", "a site that is there")
        self.closed[now:, index] = True

    def restore(self, site: str, now: int) -> None:
        """Undo `lose` from slot `now` on.

        Raises:
            InputError: if there is no such site, or if it is not lost.
        """
        index = self.index_of(site)
        if not self.closed[now:, index].any():
            raise InputError("site", f"{site!r} is not lost", "a site that is")
        self.closed[now:, index] = False

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
        """All that it remembers."""
        return {
            "traffic": self.traffic.copy(),
            "used": self.used.copy(),
            "closed": self.closed.copy(),
        }

    def load(self, saved: Saved) -> None:
        """Take over what the ledger of the same market saved.

        Raises:
            InputError: if it was another market's.
        """
        for name in ("traffic", "used", "closed"):
            own = getattr(self, name)
            if saved[name].shape != own.shape:
                raise InputError(
                    f"snapshot.{name}", f"has shape {saved[name].shape}", f"{own.shape}"
                )
            own[...] = saved[name]

    def _change(self, job: EdgeJob, plan: EdgePlan, sign: float) -> None:
        worker, server = self.market.needs(job.worker), self.market.needs(job.server)
        for part in plan.slots:
            self.traffic[part.slot] += sign * part.traffic_mb(job, self.market)
            for site, count in part.workers.items():
                self.used[part.slot, self._index[site]] += sign * count * worker
            self.used[part.slot, self._index[part.server]] += sign * server
        if sign < 0:
            # What was added and taken away again leaves a rest of rounding, which has no price.
            self._sweep(plan)

    def _sweep(self, plan: EdgePlan) -> None:
        for part in plan.slots:
            dust = np.abs(self.used[part.slot]) <= 1e-9 * np.maximum(self.capacity, 1.0)
            self.used[part.slot][dust] = 0.0
            if abs(self.traffic[part.slot]) <= 1e-9 * self.market.traffic_mb_per_slot:
                self.traffic[part.slot] = 0.0
