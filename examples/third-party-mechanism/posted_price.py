"""A posted price per sample, the same for all tasks at any time.

A task pays `price_per_sample * work` plus its vendor's price, is scheduled as early as possible,
and is admitted if its bid is above the price and there is capacity. Neither price nor schedule
depends on the bid, so the mechanism is truthful.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from auctune.auction.baselines.charging import BidCharging
from auctune.auction.baselines.earliest_finish import find_earliest
from auctune.auction.ledger import Usage, empty_usage
from auctune.auction.plan import Plan, read_plan, sell_for_bid
from auctune.domain import (
    Cluster,
    Decision,
    InputError,
    MenuLine,
    Money,
    PriceMenu,
    Quote,
    Reason,
    Schedule,
    Task,
    round_money,
)
from auctune.numerics.arrays import Ints
from auctune.registry import KnownBids, MechanismEntry


@dataclass(frozen=True, slots=True)
class PostedParams:
    """Parameters of the mechanism.

    Attributes:
        price_per_sample: money.
    """

    price_per_sample: float = 1e-4

    def __post_init__(self) -> None:
        if not 0 <= self.price_per_sample < math.inf:
            raise InputError("price_per_sample", f"{self.price_per_sample!r}", "money >= 0")


class PostedPrice(BidCharging):
    """Mechanism with a posted price; the base class releases cells and handles lost nodes.

    Args:
        cluster: nodes and slots.
        params: with the price.
    """

    def __init__(self, cluster: Cluster, params: PostedParams) -> None:
        super().__init__(cluster)
        self._params = params
        self._empty = empty_usage(self.ledger.capacity, self.ledger.horizon.num_rows, prune=False)

    def offer(self, task: Task, now: int) -> Decision:
        """Decide on one bid, and reserve the cells of an admitted task."""
        self.ledger.check(task, now)
        self.advance(now)
        vendor = _quickest(task)
        cells = self._earliest(self.ledger.usage, task, now, vendor)
        if cells is None:
            possible = self._earliest(self._empty, task, now, vendor) is not None
            reason = Reason.NO_CAPACITY if possible else Reason.NO_FEASIBLE_SCHEDULE
            return Decision(task.id, admitted=False, reason=reason)
        price = self._price(task, vendor)
        if task.bid <= price:
            return Decision(task.id, admitted=False, price=price, reason=Reason.UNPROFITABLE)
        sold = sell_for_bid(self.ledger, task, vendor, *cells)
        return replace(sold, payment=price, price=price, surplus=float(task.bid - price))

    def offer_slot(self, tasks: Sequence[Task], now: int) -> list[Decision]:
        return [self.offer(task, now) for task in tasks]

    def quote(self, task: Task, now: int) -> PriceMenu:
        """Return a menu of one line, without a change of state."""
        self.ledger.check(task)
        vendor = _quickest(task)
        cells = self._earliest(self.ledger.usage, task, now, vendor)
        if cells is None:
            return PriceMenu(task.id, ())
        plan = Schedule(self.ledger.cells(*cells), None if vendor is None else vendor.vendor)
        return PriceMenu(task.id, (MenuLine(plan.finish, self._price(task, vendor), plan),))

    def take(self, task: Task, line: MenuLine, now: int) -> Decision | None:
        """Accept a line of an earlier menu if its cells are still free."""
        if task.bid < line.price:
            raise InputError("bid", f"{task.bid}", f"at least the line's price, {line.price}")
        self.advance(now)
        plan = read_plan(self.ledger, task, line.schedule, now)
        if plan is None or not self._is_free(task, plan):
            return None
        price = self._price(task, plan.quote)
        if price > line.price:
            return None
        sold = sell_for_bid(self.ledger, task, plan.quote, plan.rows, plan.nodes)
        surplus = float(task.bid - price)
        return replace(sold, payment=line.price, price=price, surplus=surplus)

    def _is_free(self, task: Task, plan: Plan) -> bool:
        throughput = self.ledger.throughput(task)
        return self.ledger.has_room(plan.rows, plan.nodes, throughput, task.memory_gb)

    def _price(self, task: Task, vendor: Quote | None) -> Money:
        price = round_money(self._params.price_per_sample * task.work)
        return price if vendor is None else price + vendor.price

    def _earliest(
        self, usage: Usage, task: Task, now: int, vendor: Quote | None
    ) -> tuple[Ints, Ints] | None:
        delay = 0 if vendor is None else vendor.delay
        first = self.ledger.row(max(now, task.arrival) + delay)
        return find_earliest(self.ledger, usage, task, first, alone=False)


def _quickest(task: Task) -> Quote | None:
    return min(task.quotes, key=lambda quote: quote.delay, default=None)


def make(cluster: Cluster, params: PostedParams, _known: KnownBids) -> PostedPrice:
    """Return the mechanism; it does not use known bids."""
    return PostedPrice(cluster, params)


ENTRY = MechanismEntry(PostedParams, make)
