"""What happened in a market, as a mechanism must know it to stand where it stood.

`Admission.apply` takes these on replay and rebuilds the state without deciding again.
"""

from dataclasses import dataclass

from auctune.domain.decision import Decision
from auctune.domain.schedule import Cell
from auctune.domain.task import Task


@dataclass(frozen=True, slots=True)
class Offered:
    """A bid was made in slot `now` and answered."""

    task: Task
    decision: Decision
    now: int


@dataclass(frozen=True, slots=True)
class Released:
    """An admitted task gave these cells back: it was finished early, or cancelled."""

    task: Task
    cells: tuple[Cell, ...]


Event = Offered | Released
