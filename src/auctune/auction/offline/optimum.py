"""The offline optimum: the whole instance, all bids known, as one program.

It is what no market can reach that must answer at once, and the measure of those that do. The
bound is the one that the search has proven, with a margin for the solver's tolerances: no
decisions that can be carried out have more welfare, whether the search was stopped or not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from auctune.auction.book import Book
from auctune.auction.offline.demand import Demand, demand, room_by_node
from auctune.auction.offline.program import Chosen, WelfareProgram, welfare_program
from auctune.auction.sale import sell_for_bid
from auctune.auction.tolerance import FIT
from auctune.domain import Cluster, Decision, Reason, Task
from auctune.numerics.highs import Solved, SolveOptions, Status, solve


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
    """The decisions of most welfare for all of these bids together.

    Args:
        cluster: the supply, empty.
        tasks: all bids.
        options: gap and limits; none: to the end.

    Raises:
        InputError: if a task does not fit this cluster's types and horizon.
    """
    options = options or SolveOptions()
    book = Book(cluster, prune=False)
    for task in tasks:
        book.check(task)
    room = room_by_node(book)
    demands = [demand(book, room, task, task.arrival, task.quotes) for task in tasks]
    welfare = welfare_program(book, room, [one for one in demands if one is not None])
    solved = solve(welfare.program, options)
    assert solved.status in (Status.OPTIMAL, Status.LIMIT), solved.status
    sold = _sell(book, [] if solved.primal is None else welfare.chosen(solved.primal))
    decisions = tuple(
        sold.get(task.id) or _reject(task, one) for task, one in zip(tasks, demands, strict=True)
    )
    return OfflineOptimum(
        decisions,
        math.fsum(decision.value or 0.0 for decision in sold.values()),
        _bound(welfare, solved, options),
        solved.status is Status.OPTIMAL,
    )


def _sell(book: Book, chosen: list[Chosen]) -> dict[str, Decision]:
    """Decisions by task. What fits by the solver's tolerance only is not sold."""
    sold = {}
    for one in chosen:
        throughput = book.throughput(one.task)
        done = float(throughput[book.capacity.type_of[one.groups]].sum())
        if done >= one.task.work * (1 - FIT) and book.has_room(
            one.rows, one.groups, throughput, one.task.memory_gb
        ):
            sold[one.task.id] = sell_for_bid(book, one.task, one.quote, one.rows, one.groups)
    return sold


def _reject(task: Task, wanted: Demand | None) -> Decision:
    # Nobody is short of room where all is planned at once: others are worth more.
    reason = Reason.NO_FEASIBLE_SCHEDULE if wanted is None else Reason.UNPROFITABLE
    return Decision(task.id, admitted=False, reason=reason)


def _bound(welfare: WelfareProgram, solved: Solved, options: SolveOptions) -> float:
    # Each column is between 0 and 1, and its reduced cost may be wrong by the tolerance; so may
    # the objective that a branch had to beat.
    margin = options.tolerance * (len(welfare.program.cost) + 1)
    return welfare.unit * (solved.bound + margin)
