"""A schedule: the cells (slot, node) in which a task runs, and the vendor that prepares it."""

from dataclasses import dataclass
from typing import NamedTuple


class Cell(NamedTuple):
    """One slot on one node; `node` is the node's id."""

    slot: int
    node: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """A task's plan.

    Attributes:
        cells: in slot order, at most one a slot, not necessarily consecutive.
        vendor: who prepares the data; none where no work is needed.
    """

    cells: tuple[Cell, ...]
    vendor: str | None = None

    def __post_init__(self) -> None:
        if not self.cells:
            raise ValueError("a schedule without cells; expected at least one")
        before = -1
        for slot, _ in self.cells:
            if slot <= before:
                raise ValueError("cells are not in slot order with at most one per slot")
            before = slot

    @property
    def start(self) -> int:
        """The first slot in which it runs."""
        return self.cells[0].slot

    @property
    def finish(self) -> int:
        """The last slot in which it runs."""
        return self.cells[-1].slot
