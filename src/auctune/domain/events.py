"""What happens in a market: events, and commitments that they change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from auctune.domain.decision import Cell, Decision, Schedule
from auctune.domain.task import Task

if TYPE_CHECKING:
    # At run time numpy takes half of the time that a command of the client needs to start.
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Commitment:
    """What was promised to an admitted task, and how much of it is still to be done.

    Attributes:
        task: the task.
        schedule: its plan as it stands, cells that have passed included.
        work_left: samples still to be trained on from the current slot on.
    """

    task: Task
    schedule: Schedule
    work_left: float

    @property
    def ready(self) -> int:
        """The first slot for which its data are prepared."""
        delays = {quote.vendor: quote.delay for quote in self.task.quotes}
        return self.task.arrival + delays.get(self.schedule.vendor or "", 0)


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


@dataclass(frozen=True, slots=True)
class SlotAdvanced:
    """Slot `now` began.

    Attributes:
        now: the slot.
        energy_cost: by node type, money at full load for each slot that entered the window of a
            rolling market, the earliest first; empty in a market with an end.
    """

    now: int
    energy_cost: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class PricesLearned:
    """Prices moved in slot `now` by what earlier bids revealed, at its beginning or within it.

    Attributes:
        now: the slot.
        update: what the mechanism learned, in its own terms: all that prices and later updates
            follow from beside the bids, so that nothing is learned again on replay.
    """

    now: int
    update: Mapping[str, "NDArray[Any]"]


@dataclass(frozen=True, slots=True)
class NodeLost:
    """From slot `now` on, this slot included, the node runs nothing and nothing of it is sold."""

    node: str
    now: int


@dataclass(frozen=True, slots=True)
class NodeReturned:
    """From slot `now` on the node is for sale again, empty."""

    node: str
    now: int


@dataclass(frozen=True, slots=True)
class Replanned:
    """An admitted task that lost cells with a node got others in their place, or its money back.

    Its payment stays what was promised, or is refunded in full.

    Attributes:
        task: the task.
        now: the slot in which the node was lost.
        given_up: all cells that it still had from `now` on, those on other nodes too.
        found: the cells that it has from now on in their place; empty if refunded.
        refunded: nothing was found that does its work by its deadline.
    """

    task: Task
    now: int
    given_up: tuple[Cell, ...]
    found: tuple[Cell, ...]
    refunded: bool

    def cells(self, before: Schedule) -> tuple[Cell, ...]:
        """What the task runs in after this: the cells of the plan before it that have passed,
        and those that were found."""
        return tuple(cell for cell in before.cells if cell.slot < self.now) + self.found


Event = Offered | Released | SlotAdvanced | PricesLearned | NodeLost | NodeReturned | Replanned
