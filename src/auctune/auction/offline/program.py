"""The welfare program (Zheng et al., ICPP 2024, eqs. 3 and 4), over nodes or over node types.

 maximize   sum over tasks i, quotes n of (b_i - q_in) y_in  -  sum over cells of e x
 subject to sum over n of y_in                    <= 1                          (4a, 4h)
            sum over groups g of x_igt            <= sum of y_in with start <= t (4b, 4c)
            sum over cells of min(1, s / M_i) x   >= sum over n of y_in         (4e)
            sum over tasks of s x / C_g           <= room for compute of (g, t) (4f)
            sum over tasks of r x / m_g           <= room for memory of (g, t)  (4g)
            x, y 0 or 1.

There are columns x for cells in a task's window only, which is 4d. All rows and costs are of
order 1, so that the solver's absolute tolerances are relative ones here: capacity by that of a
node, work by the task's own, money by the greatest amount that occurs.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from auctune.auction.ledger import CapacityLedger
from auctune.auction.offline.demand import Demand, Room
from auctune.domain import Decision, Quote, Task
from auctune.numerics.arrays import FIT, Floats, Ints
from auctune.numerics.highs import Program

_WHOLE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """A task that a solution admits: by which quote, in which cells (row, group)."""

    task: Task
    quote: Quote | None
    rows: Ints
    groups: Ints


@dataclass(frozen=True, slots=True, eq=False)
class WelfareProgram:
    """A program, and how to read its solutions.

    Attributes:
        program: money in units of `unit`.
        unit: money.
        demands: the tasks in it.
        first_column: [tasks + 1] where each task's columns begin: those of quotes, then cells.
    """

    program: Program
    unit: float
    demands: tuple[Demand, ...]
    first_column: Ints

    def chosen(self, primal: Floats) -> list[Chosen]:
        """The tasks that a solution admits; cells that their work does not need are left out."""
        found = []
        for demand, start in zip(self.demands, self.first_column[:-1].tolist(), strict=True):
            num_quotes = len(demand.quotes)
            admitted = primal[start : start + num_quotes]
            if admitted.max() < _WHOLE:
                continue
            cells = primal[start + num_quotes : start + num_quotes + len(demand.rows)]
            kept = _needed(demand, np.flatnonzero(cells > _WHOLE))
            quote = demand.quotes[int(admitted.argmax())]
            found.append(Chosen(demand.task, quote, demand.rows[kept], demand.groups[kept]))
        return found

    def columns(self, ledger: CapacityLedger, decisions: Mapping[str, Decision]) -> Floats:
        """Decisions by task id as a solution; `chosen` the other way round, for a program by node.

        Tasks without a decision, or with one that the program does not offer, are not admitted.
        """
        primal = np.zeros(int(self.first_column[-1]))
        for demand, start in zip(self.demands, self.first_column[:-1].tolist(), strict=True):
            decision = decisions.get(demand.task.id)
            if decision is None or decision.schedule is None:
                continue
            vendors = [None if quote is None else quote.vendor for quote in demand.quotes]
            if decision.schedule.vendor not in vendors:
                continue
            cells = set(
                zip(*map(np.ndarray.tolist, ledger.indices(decision.schedule.cells)), strict=True)
            )
            primal[start + vendors.index(decision.schedule.vendor)] = 1.0
            for place, cell in enumerate(
                zip(demand.rows.tolist(), demand.groups.tolist(), strict=True)
            ):
                primal[start + len(vendors) + place] = cell in cells
        return primal


def welfare_program(
    ledger: CapacityLedger, room: Room, demands: Sequence[Demand]
) -> WelfareProgram:
    """Return the program of these tasks on this room."""
    sizes = [len(demand.quotes) + len(demand.rows) for demand in demands]
    first_column = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64)
    entries = _Entries()
    for demand, first in zip(demands, first_column[:-1].tolist(), strict=True):
        _add_task(entries, demand, first)
    _add_capacity(entries, ledger, room, demands, first_column)
    costs = np.concatenate([np.concatenate((d.values, -d.costs)) for d in demands] or [np.zeros(0)])
    unit = float(np.abs(costs).max(initial=0.0)) or 1.0
    return WelfareProgram(
        entries.program(costs / unit, int(first_column[-1])), unit, tuple(demands), first_column
    )


class _Entries:
    """Rows as they are added: lower <= sum of value * column <= upper."""

    def __init__(self) -> None:
        self._rows: list[Ints] = []
        self._columns: list[Ints] = []
        self._values: list[Floats] = []
        self._lower: list[Floats] = []
        self._upper: list[Floats] = []
        self.num_rows = 0

    def add_rows(self, lower: Floats, upper: Floats) -> int:
        """Add rows with these bounds; the number of the first."""
        first = self.num_rows
        self._lower.append(lower)
        self._upper.append(upper)
        self.num_rows += len(lower)
        return first

    def put(self, rows: Ints, columns: Ints, values: Floats) -> None:
        """Set entries, [n] each."""
        self._rows.append(rows)
        self._columns.append(columns)
        self._values.append(values)

    def program(self, costs: Floats, num_columns: int) -> Program:
        """Return all of it as a program over columns of 0 or 1."""
        columns = np.concatenate([*self._columns, np.zeros(0, dtype=np.int64)])
        order = np.argsort(columns, kind="stable")
        counts = np.bincount(columns, minlength=num_columns)
        return Program(
            cost=costs,
            lower=np.zeros(num_columns),
            upper=np.ones(num_columns),
            row_lower=np.concatenate([*self._lower, np.zeros(0)]),
            row_upper=np.concatenate([*self._upper, np.zeros(0)]),
            starts=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
            rows=np.concatenate([*self._rows, np.zeros(0)])[order].astype(np.int32),
            values=np.concatenate([*self._values, np.zeros(0)])[order],
            whole=np.ones(num_columns, dtype=np.bool_),
            maximize=True,
        )


def _add_task(entries: _Entries, demand: Demand, first: int) -> None:
    quotes = first + np.arange(len(demand.quotes))
    cells = first + len(quotes) + np.arange(len(demand.rows))
    for shares in _work_rows(demand):
        row = entries.add_rows(np.zeros(1), np.full(1, np.inf))
        entries.put(np.full(len(cells), row), cells, shares)
        entries.put(np.full(len(quotes), row), quotes, np.full(len(quotes), -1.0))
    if len(quotes) > 1:
        row = entries.add_rows(np.full(1, -np.inf), np.ones(1))
        entries.put(np.full(len(quotes), row), quotes, np.ones(len(quotes)))
    times, row_of = np.unique(demand.rows, return_inverse=True)
    row = entries.add_rows(np.full(len(times), -np.inf), np.zeros(len(times)))
    entries.put(row + row_of, cells, np.ones(len(cells)))
    in_time, which = np.nonzero(demand.starts[None, :] <= times[:, None])
    entries.put(row + in_time, quotes[which], np.full(len(which), -1.0))


def _work_rows(demand: Demand) -> Iterator[Floats]:
    """Shares of each cell in what is needed: of the cells that it takes at least, of the work.

    Whole numbers of cells are needed, which the work alone does not tell a relaxation. What is
    needed is 1 exactly, and shares carry the slack: two numbers in one row that differ by 1e-9
    have led HiGHS's presolve to a wrong optimum.
    """
    most = float(demand.samples.max())
    work = demand.task.work * (1 - FIT)
    yield np.full(len(demand.samples), 1.0 / math.ceil(work / most))
    if np.any(demand.samples < most):
        yield np.minimum(demand.samples / work, 1.0)


def _add_capacity(
    entries: _Entries,
    ledger: CapacityLedger,
    room: Room,
    demands: Sequence[Demand],
    first_column: Ints,
) -> None:
    if not demands:
        return
    columns = np.concatenate(
        [
            first + len(d.quotes) + np.arange(len(d.rows))
            for d, first in zip(demands, first_column[:-1].tolist(), strict=True)
        ]
    )
    groups = np.concatenate([demand.groups for demand in demands])
    place = np.concatenate([demand.rows for demand in demands]) * room.num_groups + groups
    samples = np.concatenate([demand.samples for demand in demands])
    memory = np.concatenate([np.full(len(d.rows), d.task.memory_gb) for d in demands])
    compute_left, memory_left = room.totals()
    types = room.type_of
    for taken, free, whole in (
        (samples, compute_left, ledger.capacity.compute[types]),
        (memory, memory_left, ledger.capacity.memory[types]),
    ):
        # Where all that is asked fits, there is nothing to say.
        asked = np.bincount(place, weights=taken, minlength=free.size)
        scarce = asked > free.ravel()
        row_of = np.cumsum(scarce) - 1
        bounds = (free / whole).ravel()[scarce]
        row = entries.add_rows(np.full(len(bounds), -np.inf), bounds)
        listed = scarce[place]
        share = (taken / whole[groups])[listed]
        entries.put(row + row_of[place[listed]], columns[listed], share)


def _needed(demand: Demand, cells: Ints) -> Ints:
    """`cells` without those that the work does not need, the dearest first."""
    needed = float(demand.task.work) * (1 - FIT)
    kept = cells
    for cell in cells[np.argsort(-demand.costs[cells], kind="stable")]:
        fewer = kept[kept != cell]
        if float(demand.samples[fewer].sum()) >= needed:
            kept = fewer
    return kept
