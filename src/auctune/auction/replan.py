"""Plans for tasks whose node was lost.

A task that was to run on the node gives up all that is left of its plan, and looks for cells
that do the rest of its work by its deadline. Tasks go one after the other, the earliest deadline
first, so that those not dealt with yet keep their cells on other nodes. What cannot be planned
is refunded.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from auctune.auction.tolerance import FIT
from auctune.domain import Cell, Commitment, Replanned, Task


class Planner(Protocol):
    """What a mechanism must be able to do for it."""

    def plan_rest(self, rest: Task, now: int) -> tuple[Cell, ...] | None:
        """The best cells for a task from slot `now` on, or none; its quotes do not count.

        Nothing is booked. Cells of tasks that gave theirs up count as free.
        """
        ...

    def release(self, task: Task, cells: Sequence[tuple[int, str]]) -> None:
        """Take cells back from a task."""
        ...

    def assign(self, task: Task, cells: Sequence[tuple[int, str]]) -> None:
        """Give cells to a task that has paid for others; no price is asked."""
        ...


def plan_anew(
    planner: Planner, node: str, now: int, running: Sequence[Commitment]
) -> list[Replanned]:
    """Give each task that the loss of `node` in slot `now` hits other cells, or its money back.

    Args:
        planner: the mechanism, for which the node is lost already.
        node: its id.
        now: the slot.
        running: all admitted tasks with cells from `now` on.

    Returns:
        What became of those that were hit, in the order in which it was decided.
    """
    hit = [
        commitment
        for commitment in running
        if any(cell.node == node and cell.slot >= now for cell in commitment.schedule.cells)
    ]
    return [
        _plan(planner, now, commitment)
        for commitment in sorted(hit, key=lambda commitment: commitment.task.deadline)
    ]


def _plan(planner: Planner, now: int, commitment: Commitment) -> Replanned:
    task = commitment.task
    given_up = tuple(cell for cell in commitment.schedule.cells if cell.slot >= now)
    planner.release(task, given_up)
    found: tuple[Cell, ...] | None = ()
    if commitment.work_left > task.work * FIT:
        rest = replace(task, work=commitment.work_left, quotes=())
        found = planner.plan_rest(rest, max(now, commitment.ready))
    if found:
        planner.assign(task, found)
    return Replanned(task, now, given_up, found or (), refunded=found is None)
