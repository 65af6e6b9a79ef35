"""The first slot by whose end a task could be done that is too late for its deadline.

Found by bisection: what can be done by a deadline can be done by every later one.
"""

from dataclasses import replace

from auctune.domain import Admission, Decision, Reason, Task

_TOO_LATE = (Reason.NO_CAPACITY, Reason.NO_FEASIBLE_SCHEDULE)


def earliest_slot(
    mechanism: Admission, task: Task, decision: Decision, now: int, last: int
) -> int | None:
    """That slot; none if the task was not too late, or there is none.

    Args:
        mechanism: that decided; it is asked only.
        task: as it was offered.
        decision: on it.
        now: the current slot.
        last: the last slot of the horizon.
    """
    if decision.reason not in _TOO_LATE:
        return None

    def can_be_done(deadline: int) -> bool:
        return mechanism.preview(replace(task, deadline=deadline), now).reason not in _TOO_LATE

    low, high = task.deadline + 1, last
    if low > high or not can_be_done(high):
        return None
    while low < high:
        middle = (low + high) // 2
        if can_be_done(middle):
            high = middle
        else:
            low = middle + 1
    return low
