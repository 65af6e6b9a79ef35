"""The offline optimum: the whole instance, all bids known, as one program.

It is what no market can reach that must answer at once, and the measure of those that do. The
bound is the one that the search has proven, with a margin for the solver's tolerances: no
decisions that can be carried out have more welfare, whether the search was stopped or not.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from auctune.auction.ledger import CapacityLedger
from auctune.auction.offline.demand import Room, demand, room_by_node, room_by_type
from auctune.auction.offline.program import Chosen, WelfareProgram, welfare_program
from auctune.auction.offline.rounds import sell_in_rounds
from auctune.domain import Cluster, Decision, Reason, Task
from auctune.domain.money import LARGEST
from auctune.numerics.highs import Solved, SolveOptions, Status, solve

_GUESS = SolveOptions(gap=1e-3, max_nodes=50)


@dataclass(frozen=True, slots=True, eq=False)
class OfflineOptimum:
    """The best decisions found for an instance.

    Attributes:
        decisions: one a task, in the order of the tasks; each pays its bid.
        welfare: of these decisions, money.
        bound: no decisions have more, money.
        optimal: whether the search came to its end: then `bound` is the optimum, but for the
            gap that was allowed and the solver's tolerances.
    """

    decisions: tuple[Decision, ...]
    welfare: float
    bound: float
    optimal: bool

    @property
    def gap(self) -> float:
        """How far welfare may be from the best, as a share of the bound."""
        return 0.0 if self.bound <= 0 else 1 - self.welfare / self.bound


def num_cells(cluster: Cluster, tasks: Sequence[Task]) -> int:
    """Cells that the tasks could run in: about the number of columns of the program."""
    types = [node.type for node in cluster.nodes]
    nodes = {name: types.count(name) for name in cluster.node_types}
    return sum(
        (task.deadline + 1 - task.arrival) * sum(nodes[name] for name in task.throughput)
        for task in tasks
    )


def offline_optimum(
    cluster: Cluster, tasks: Sequence[Task], options: SolveOptions | None = None
) -> OfflineOptimum:
    """Return the decisions of most welfare for all of these bids together.

    Args:
        cluster: the supply, empty.
        tasks: all bids.
        options: gap and limits; None: to the end.

    Raises:
        InputError: if a task does not fit this cluster's types and horizon.
    """
    options = options or SolveOptions()
    ledger = CapacityLedger(cluster, prune=False)
    for task in tasks:
        ledger.check(task)
    room = room_by_node(ledger)
    demands = [demand(ledger, room, task, task.arrival, task.quotes) for task in tasks]
    welfare = welfare_program(ledger, room, [one for one in demands if one is not None])
    guess, bound_by_type = _sell_by_type(cluster, tasks, options)
    solved = solve(welfare.program, options, start=welfare.columns(ledger, guess))
    assert solved.status in (Status.OPTIMAL, Status.LIMIT), solved.status
    sold = guess
    if solved.primal is not None:
        chosen = welfare.chosen(solved.primal)
        # What fits by the solver's tolerance only is not sold.
        sold = max(guess, sell_in_rounds(ledger, tasks, lambda _: (room, chosen)), key=_welfare)
    decisions = tuple(sold.get(task.id) or _reject(ledger, task, room) for task in tasks)
    return OfflineOptimum(
        decisions,
        _welfare(sold),
        min(_bound(welfare, solved, options), bound_by_type),
        solved.status is Status.OPTIMAL,
    )


def _sell_by_type(
    cluster: Cluster, tasks: Sequence[Task], options: SolveOptions
) -> tuple[dict[str, Decision], float]:
    """Return a good guess, and a first bound: the same program by node type is far smaller."""
    ledger = CapacityLedger(cluster, prune=False)
    bounds: list[float] = []
    limits = replace(options, gap=max(options.gap, _GUESS.gap), max_nodes=_GUESS.max_nodes)

    def weigh(waiting: Sequence[Task]) -> tuple[Room, list[Chosen]]:
        room = room_by_type(ledger)
        found = [demand(ledger, room, task, task.arrival, task.quotes) for task in waiting]
        welfare = welfare_program(ledger, room, [one for one in found if one is not None])
        solved = solve(welfare.program, limits)
        bounds.append(_bound(welfare, solved, limits))
        return room, [] if solved.primal is None else welfare.chosen(solved.primal)

    return sell_in_rounds(ledger, tasks, weigh), bounds[0]


def _welfare(sold: Mapping[str, Decision]) -> float:
    return math.fsum(decision.value or 0.0 for decision in sold.values())


def _reject(ledger: CapacityLedger, task: Task, room: Room) -> Decision:
    """Args: room: of the market while it was empty."""
    wanted = demand(ledger, room, replace(task, bid=LARGEST), task.arrival, task.quotes)
    # Nobody is short of room where all is planned at once: others are worth more.
    reason = Reason.NO_FEASIBLE_SCHEDULE if wanted is None else Reason.UNPROFITABLE
    return Decision(task.id, admitted=False, reason=reason)


def _bound(welfare: WelfareProgram, solved: Solved, options: SolveOptions) -> float:
    # Each column is between 0 and 1, and its reduced cost may be wrong by the tolerance; so may
    # the objective that a branch had to beat.
    margin = options.tolerance * (len(welfare.program.cost) + 1)
    # Nothing is gained beyond all bids, which stands where a limit left no bound at all.
    most = math.fsum(float(one.values.max()) for one in welfare.demands)
    return min(welfare.unit * (solved.bound + margin), most)
