"""A simulation over a stream of tasks, with its decisions written in parts."""

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq

from auctune.domain import Admission, Cell, Decision, InputError, Schedule, Task
from auctune.domain.money import ZERO
from auctune.files.atomic import AtomicFiles
from auctune.sim.engine import Watch, play
from auctune.sim.instance import Instance
from auctune.sim.metrics import SimulationReport, report_of
from auctune.sim.outages import Change, Outages
from auctune.sim.stream.tasks import CELL, DECISIONS
from auctune.sim.tally import Tally

# Decisions written as they come: a folder of parquet files, each of which is whole.
#
# A part takes its name only when all of it is on disk, so a run that is killed leaves the parts
# that it had finished, and nothing that cannot be read. pyarrow, polars and DuckDB read the folder
# as one table.


PART_ROWS = 65_536


class DecisionParts:
    """A context that takes decisions; leaving it writes the last part.

    Args:
        folder: where the parts go; made if it is not there.
        part_rows: decisions of a part.

    Raises:
        InputError: if the folder cannot be made, or holds something already.
    """

    def __init__(self, folder: Path, part_rows: int = PART_ROWS) -> None:
        try:
            folder.mkdir(exist_ok=True)
            is_empty = not any(folder.iterdir())
        except OSError as error:
            raise InputError(
                str(folder), f"cannot be written ({error.strerror})", "a folder for decisions"
            ) from None
        if not is_empty:
            raise InputError(str(folder), "is not empty", "a new folder for decisions")
        self._folder = folder
        self._part_rows = part_rows
        self._num_parts = 0
        self._begin_part()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and self._rows:
            self._write_part()

    def add(self, decision: Decision) -> None:
        schedule = decision.schedule
        self._add(decision, () if schedule is None else schedule.cells, ZERO)

    def change(self, change: Change) -> None:
        refund = change.decision.payment if change.refunded else ZERO
        self._add(change.decision, change.cells, refund)

    def _begin_part(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._slots: list[int] = []
        self._nodes: list[str] = []
        self._offsets = [0]

    def _add(self, decision: Decision, cells: tuple[Cell, ...], refund: Decimal) -> None:
        for slot, node in cells:
            self._slots.append(slot)
            self._nodes.append(node)
        self._offsets.append(len(self._slots))
        self._rows.append(
            (
                decision.task,
                decision.admitted,
                _vendor(decision.schedule),
                decision.payment,
                decision.value,
                decision.surplus,
                decision.reason,
                refund,
            )
        )
        if len(self._rows) == self._part_rows:
            self._write_part()

    def _write_part(self) -> None:
        path = self._folder / f"part-{self._num_parts:06d}.parquet"
        cells = pa.StructArray.from_arrays(
            [pa.array(self._slots, pa.int64()), pa.array(self._nodes, pa.string())],
            fields=list(CELL),
        )
        *columns, reasons, refunds = zip(*self._rows, strict=True)
        kinds = [field.type for field in DECISIONS if field.name != "schedule"]
        *arrays, reason, refund = (
            pa.array(values, kind)
            for values, kind in zip((*columns, reasons, refunds), kinds, strict=True)
        )
        schedules = pa.ListArray.from_arrays(pa.array(self._offsets, pa.int32()), cells)
        table = pa.Table.from_arrays([*arrays, schedules, reason, refund], schema=DECISIONS)
        with AtomicFiles([path]) as (file,):
            pq.write_table(table, file.buffer)
        self._num_parts += 1
        self._begin_part()


def _vendor(schedule: Schedule | None) -> str | None:
    return None if schedule is None else schedule.vendor


# A market from a stream of bids to a stream of decisions, counted on the way.
#
# What is held at any time is the mechanism, the bids of one slot, a batch of the reader and a part
# of the writer; and 8 bytes for each decision, the seconds that it took.


class Sink(Protocol):
    """Takes what was decided, in order."""

    def add(self, decision: Decision) -> None:
        """A decision was made."""
        ...

    def change(self, change: Change) -> None:
        """The plan of a task whose decision was taken before was changed."""
        ...


def run_stream(
    market: Instance,
    bids: Iterable[Task],
    mechanism: Admission,
    sink: Sink,
    *,
    outages: Outages | None = None,
    watch: Watch | None = None,
) -> SimulationReport:
    """Play a market and keep its figures alone.

    Args:
        market: the cluster and its accounts; its own tasks do not count.
        bids: by arrival.
        mechanism: a new one over the cluster.
        sink: where decisions go.
        outages: nodes that are lost and return.
        watch: called for each decision, in order, once its slot is over.
    """
    tally = Tally(market.cluster, market.real_energy_cost)
    learning = 0.0
    for played in play(bids, mechanism, outages=outages):
        learning += played.learning_seconds
        if outages is not None:
            tally.change_all(played.changes)
        for change in played.changes:
            sink.change(change)
        for task, (decision, seconds) in zip(played.tasks, played.answers, strict=True):
            tally.add(task, decision, seconds)
            sink.add(decision)
            if watch is not None:
                watch(task, decision)
    return report_of(tally, learning)
