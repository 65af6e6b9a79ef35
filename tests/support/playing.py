"""Playing markets by hand, where a test must stand between two decisions."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from auctune.domain import Admission, Decision, Task


def offer_all(mechanism: Admission, tasks: Sequence[Task]) -> list[Decision]:
    """Offer tasks in their order, each in the slot of its arrival."""
    return [mechanism.offer(task, task.arrival) for task in tasks]


def answer(mechanism: Admission, task: Task, bid: Decimal | None = None) -> Decision:
    """What `mechanism` would answer, which it does not learn: a copy of it is asked."""
    asked = task if bid is None else replace(task, bid=bid)
    return copy.deepcopy(mechanism).offer(asked, task.arrival)


def utility(decision: Decision, value: Decimal) -> Decimal:
    """What an owner gains to whom the task is worth `value` (Zheng et al., eq. 15)."""
    return value - decision.payment if decision.admitted else Decimal(0)
