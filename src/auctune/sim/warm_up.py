"""Compiling before the clock runs: a decision's time is not that of its kernels' compilation."""

from collections.abc import Callable
from dataclasses import replace

from auctune.domain import Admission
from auctune.domain.money import LARGEST
from auctune.sim.instance import Instance

_MORE_THAN_ANY_NODE = 1e300


def warm_up(instance: Instance, make: Callable[[], Admission]) -> None:
    """Have a mechanism that is thrown away decide in each of the ways there are.

    Args:
        instance: the market to come; its first bid is tried as it is, at any price, and with more
            work and more memory than can be had.
        make: builds the mechanism.
    """
    if not instance.tasks:
        return
    mechanism = make()
    first = instance.in_order()[0]
    for task in (
        first,
        replace(first, bid=LARGEST),
        replace(first, work=_MORE_THAN_ANY_NODE),
        replace(first, memory_gb=_MORE_THAN_ANY_NODE),
    ):
        decision = mechanism.offer(task, task.arrival)
        if decision.schedule is not None:
            mechanism.release(task, decision.schedule.cells)
