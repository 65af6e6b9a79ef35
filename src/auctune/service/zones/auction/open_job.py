"""A job that is not over: what was promised to it, and how far it is."""

from dataclasses import dataclass, field
from typing import Any

from auctune.domain import Cell, Decision, Task
from auctune.domain.data_size import DataSize
from auctune.service.jobs.training import Training
from auctune.service.zones.auction.records import Record
from auctune.service.zones.auction.repair import Repair
from auctune.service.zones.phase import Phase
from auctune.service.zones.progress import Progress
from auctune.service.zones.slotted import GivenUp


@dataclass
class OpenJob:
    """One admitted job.

    Attributes:
        id: the job's.
        seq: of the first event about it.
        newest: of the newest event about it.
        owner: user id.
        training: what it trains.
        task: as it was offered.
        decision: the mechanism's answer.
        cells: its plan as it stands, cells that have passed included.
        size: of the data that it trains on.
        phase: where it stands.
        repair: who is to mend its data; none: they are clean.
        failed_vendors: who were to, and did not.
        repaired: id of the file that a vendor made; none before it has worked, or without one.
        progress: of its training.
        answered: the newest slot whose training is on record; -1 before the first.
        request: as its owner made it.
        notes: what its owner should know.
        out_of_memory: slots lost to too little memory since it trained last.
        given_up: when it was paused; `None` before, or where slots have no price.
    """

    id: str
    seq: int
    owner: str
    training: Training
    task: Task
    decision: Decision
    cells: tuple[Cell, ...]
    size: DataSize
    created_at: float
    phase: Phase = Phase.PLANNED
    repair: Repair | None = None
    failed_vendors: tuple[str, ...] = ()
    repaired: str | None = None
    progress: Progress = field(default_factory=Progress)
    last_reported_slot: int = -1
    last_event_seq: int = 0
    request: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    out_of_memory: list[int] = field(default_factory=list)
    given_up: GivenUp | None = None

    @property
    def needs_repair(self) -> bool:
        """Whether its data are still to be mended."""
        return self.repair is not None and self.repaired is None

    @property
    def total_rows(self) -> int:
        """Rows to train, over all epochs."""
        return self.size.rows * self.training.epochs

    @property
    def work_left(self) -> float:
        """Samples still to be trained; none once training is over, though it may end early."""
        if self.phase is Phase.TRAINED:
            return 0.0
        share = 1 - self.progress.rows / self.total_rows if self.total_rows else 0.0
        return max(0.0, share) * self.task.work

    def cells_from(self, slot: int) -> tuple[Cell, ...]:
        """Its cells from a slot on."""
        return tuple(cell for cell in self.cells if cell.slot >= slot)

    @property
    def data_ready_slot(self) -> int:
        """The first slot for which its data are prepared."""
        return self.task.arrival if self.repair is None else self.repair.ready


def cell_records(cells: tuple[Cell, ...]) -> list[Record]:
    """Cells as plain values."""
    return [{"slot": cell.slot, "node": cell.node} for cell in cells]


def read_cells(records: list[Record]) -> tuple[Cell, ...]:
    """The cells that `cell_records` wrote."""
    return tuple(Cell(record["slot"], record["node"]) for record in records)
