"""Titan: the bids of a slot weighed against each other (baseline of Zheng et al., ICPP 2024).

At the start of each slot one program maximizes the welfare of the bids that arrived in it, on the
capacity that is left, with a vendor drawn at random for each; then the slot's bids are answered
together. It keeps nothing back for later bids, and charges the bid.

Up to `EXACT_CELLS` cells (task, slot, node) the program has a column for each. Beyond, it has one
for each task, slot and node type, with the room of the type's nodes added up, and what it takes
is put on nodes by best fit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from auctune.auction.baselines.charging import BidCharging
from auctune.auction.baselines.earliest_finish import find_earliest
from auctune.auction.baselines.greedy import random_vendor
from auctune.auction.ledger import empty_usage
from auctune.auction.offline.demand import Demand, Room, demand, room_by_node, room_by_type
from auctune.auction.offline.program import Chosen, welfare_program
from auctune.auction.offline.rounds import sell_in_rounds
from auctune.domain import Cluster, Decision, EnergyForecast, InputError, Quote, Reason, Task
from auctune.domain.checks import check_count
from auctune.numerics.arrays import FIT, Floats
from auctune.numerics.highs import SolveOptions, solve

EXACT_CELLS = 2000
"""Programs by node of this size are solved in some hundredths of a second; larger ones take
thirty times as long as those by type, for the same welfare within half a percent."""

# Of a task's value, for its last slot instead of its first. Operating costs of slots differ by so
# little that a solver takes any of them, and leaves the next ones empty for good: without this a
# day's welfare is a tenth to a quarter lower.
_EARLY = 1e-2


@dataclass(frozen=True, slots=True)
class TitanParams:
    """Parameters of Titan.

    Attributes:
        seed: of the draw of vendors.
        gap: relative distance from a slot's optimum at which its search may stop.
        max_nodes: nodes of the search tree after which it stops.
        time_limit: seconds after which it stops; then two runs may decide differently. None: no
            limit.
    """

    seed: int = 0
    gap: float = 1e-3
    max_nodes: int = 50
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_count(self.seed, "seed", 0)
        if not 0 <= self.gap < 1:
            raise InputError("gap", f"{self.gap!r}", "a share of welfare, 0 <= gap < 1")
        check_count(self.max_nodes, "max_nodes", 1)
        if self.time_limit is not None and not 0 < self.time_limit < math.inf:
            raise InputError("time_limit", f"{self.time_limit!r}", "seconds > 0")


class Titan(BidCharging):
    """Decides the bids of a slot together.

    Args:
        cluster: the supply.
        params: seed, and how far each slot's program is solved.
        energy: what slots to come will cost, for a market without an end.
        exact_cells: see `EXACT_CELLS`.
    """

    by_slot = True

    def __init__(
        self,
        cluster: Cluster,
        params: TitanParams | None = None,
        *,
        energy: EnergyForecast | None = None,
        exact_cells: int = EXACT_CELLS,
    ) -> None:
        super().__init__(cluster, energy=energy)
        params = params or TitanParams()
        self._vendor = random_vendor(params.seed)
        self._options = SolveOptions(params.gap, params.max_nodes, params.time_limit)
        self._empty = empty_usage(self.ledger.capacity, self.ledger.horizon.num_rows, prune=False)
        self._exact_cells = exact_cells

    def offer(self, task: Task, now: int) -> Decision:
        """Decide on one bid: the slot has no other.

        Raises:
            InputError: if the task does not fit this cluster's types and horizon.
        """
        (decision,) = self.offer_slot([task], now)
        return decision

    def offer_slot(self, tasks: Sequence[Task], now: int) -> list[Decision]:
        """Decide on all bids of one slot together, and allocate what was promised.

        Raises:
            InputError: if a task does not fit this cluster's types and horizon.
        """
        for task in tasks:
            self.ledger.check(task, now)
        self.advance(now)
        quotes = {task.id: (self._vendor(task),) for task in tasks if task.quotes}
        sold = sell_in_rounds(self.ledger, tasks, lambda waiting: self._weigh(waiting, now, quotes))
        return [
            sold.get(task.id) or self._reject(task, now, quotes.get(task.id, ())) for task in tasks
        ]

    def _weigh(
        self, tasks: Sequence[Task], now: int, quotes: Mapping[str, Sequence[Quote]]
    ) -> tuple[Room, list[Chosen]]:
        room = self._room(tasks)
        found = [demand(self.ledger, room, task, now, quotes.get(task.id, ())) for task in tasks]
        program = welfare_program(
            self.ledger, room, [_prefer_early(one) for one in found if one is not None]
        )
        solved = solve(program.program, self._options)
        return room, [] if solved.primal is None else program.chosen(solved.primal)

    def _room(self, tasks: Sequence[Task]) -> Room:
        cells = sum(task.deadline + 1 - task.arrival for task in tasks) * len(self.ledger.node_ids)
        return (room_by_node if cells <= self._exact_cells else room_by_type)(self.ledger)

    def _reject(self, task: Task, now: int, quotes: Sequence[Quote]) -> Decision:
        first = self.ledger.row(max(now, task.arrival) + sum(quote.delay for quote in quotes))
        if find_earliest(self.ledger, self._empty, task, first, alone=False) is None:
            reason = Reason.NO_FEASIBLE_SCHEDULE
        elif find_earliest(self.ledger, self.ledger.usage, task, first, alone=False) is None:
            reason = Reason.NO_CAPACITY
        else:
            reason = Reason.UNPROFITABLE
        return Decision(task.id, admitted=False, reason=reason)


def _prefer_early(wanted: Demand) -> Demand:
    """The same with later cells a little dearer: all of them by `_EARLY` of the value at most."""
    late = (wanted.rows - wanted.rows[0]) / (wanted.rows[-1] - wanted.rows[0] + 1)
    num_cells = math.ceil(wanted.task.work * (1 - FIT) / float(wanted.samples.max()))
    extra: Floats = _EARLY * float(wanted.values.max()) / num_cells * late
    return replace(wanted, costs=wanted.costs + extra)
