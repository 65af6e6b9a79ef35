"""Linear and mixed-integer programs, solved by HiGHS.

 minimize or maximize  c x
 subject to            row_lower <= A x <= row_upper,  lower <= x <= upper,
                       x_j whole for the columns j that are marked so.

A is given by columns (CSC). One thread and a fixed seed: the same program with the same limits
on nodes and gap has the same answer, in every run. A limit on time has not.

Huangfu and Hall, "Parallelizing the dual revised simplex method", 2018, is the solver's paper.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum

import highspy
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

INFINITY = math.inf


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A program of n columns and m rows.

    Attributes:
        cost: [n] c.
        lower, upper: [n] bounds of x; infinite where there is none.
        row_lower, row_upper: [m] bounds of A x; infinite where there is none.
        starts: [n + 1] where each column's entries begin in `rows` and `values`.
        rows: [entries] row of each entry; none twice in a column.
        values: [entries].
        whole: [n] columns that take whole numbers only; None: no column does.
        maximize: whether c x is to be as large as can be, and not as small.
    """

    cost: Floats
    lower: Floats
    upper: Floats
    row_lower: Floats
    row_upper: Floats
    starts: Ints
    rows: Ints
    values: Floats
    whole: Bools | None = None
    maximize: bool = False

    def __post_init__(self) -> None:
        n, m = len(self.cost), len(self.row_lower)
        if not len(self.lower) == len(self.upper) == len(self.starts) - 1 == n:
            raise ValueError(f"cost, lower, upper, starts - 1 of one length; expected {n}")
        if len(self.row_upper) != m:
            raise ValueError(f"row_upper has {len(self.row_upper)} entries; expected {m}")
        if not len(self.rows) == len(self.values) == self.starts[-1]:
            raise ValueError(f"rows and values of one length; expected {self.starts[-1]}")
        if self.whole is not None and len(self.whole) != n:
            raise ValueError(f"whole has {len(self.whole)} entries; expected {n}")


@dataclass(frozen=True, slots=True)
class SolveOptions:
    """How far to go.

    Attributes:
        gap: relative distance of objective and bound at which a search may stop.
        max_nodes: nodes of the search tree after which it stops; None: no limit.
        time_limit: seconds after which it stops, wherever it stands: not the same in two runs;
            none: no limit.
        tolerance: by how much a row, a bound, a reduced cost or wholeness may be missed.
    """

    gap: float = 0.0
    max_nodes: int | None = None
    time_limit: float | None = None
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        if not 0 <= self.gap < math.inf:
            raise ValueError(f"gap is {self.gap!r}; expected a number >= 0")
        if self.max_nodes is not None and self.max_nodes < 0:
            raise ValueError(f"max_nodes is {self.max_nodes!r}; expected a whole number >= 0")
        if self.time_limit is not None and not 0 < self.time_limit < math.inf:
            raise ValueError(f"time_limit is {self.time_limit!r}; expected seconds > 0")
        if not 1e-10 <= self.tolerance <= 1e-3:
            raise ValueError(f"tolerance is {self.tolerance!r}; expected 1e-10 to 1e-3")


class Status(StrEnum):
    """How a solve ended."""

    OPTIMAL = "optimal"
    """The best there is, within the gap."""
    LIMIT = "limit"
    """Stopped by a limit on nodes or time; there may be a solution, and there is a bound."""
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """What came out.

    Attributes:
        status: how it ended.
        objective: c x of `primal`; None where there is none.
        primal: [n] x; None where no solution was found.
        row_duals: [m] change of the objective by unit of a row's bound; none for a program with
            whole columns.
        bound: no solution has a better objective, but for `tolerance`; infinite if none is known.
        num_nodes: nodes of the search tree that were looked at.
    """

    status: Status
    objective: float | None
    primal: Floats | None = field(repr=False)
    row_duals: Floats | None = field(repr=False)
    bound: float
    num_nodes: int = 0


_LOOK_UP_SECONDS = 0.1
# A bound that is passed by so much is wrong, and not rounded.
_DOUBT = 1e-6

_STATUS = {
    highspy.HighsModelStatus.kOptimal: Status.OPTIMAL,
    highspy.HighsModelStatus.kModelEmpty: Status.OPTIMAL,
    highspy.HighsModelStatus.kInfeasible: Status.INFEASIBLE,
    highspy.HighsModelStatus.kUnbounded: Status.UNBOUNDED,
    highspy.HighsModelStatus.kTimeLimit: Status.LIMIT,
    # Its limit on nodes is one on solutions to HiGHS.
    highspy.HighsModelStatus.kSolutionLimit: Status.LIMIT,
}


def solve(
    program: Program, options: SolveOptions | None = None, *, start: Floats | None = None
) -> Solved:
    """Return the best solution of a program, or the best found within the limits.

    Args:
        program: the program.
        options: gap, limits and tolerance.
        start: [n] a solution to begin a search for whole numbers with.

    Raises:
        RuntimeError: if HiGHS gives up, for numerical trouble, or cannot tell whether a program
            with whole columns is infeasible or unbounded.
    """
    options = options or SolveOptions()
    solved = _search(program, options, start)
    if start is not None and _is_refuted(program, options, solved, start):
        # HiGHS 1.15's presolve can lose the best solution where tolerances are small. Seldom, and
        # only a known solution shows it.
        solved = _search(program, options, start, presolve="off")
    return solved


def _search(
    program: Program, options: SolveOptions, start: Floats | None, presolve: str = "choose"
) -> Solved:
    whole = program.whole is not None and bool(program.whole.any())
    solver = _solver(options)
    solver.setOptionValue("presolve", presolve)
    solver.passModel(_model(program))
    if start is not None:
        known = highspy.HighsSolution()
        known.col_value = start.tolist()
        solver.setSolution(known)
    _run(solver)
    model_status = solver.getModelStatus()
    if model_status not in _STATUS:
        raise RuntimeError(f"HiGHS ended with {solver.modelStatusToString(model_status)}")
    status = _STATUS[model_status]
    info, solution = solver.getInfo(), solver.getSolution()
    empty = model_status == highspy.HighsModelStatus.kModelEmpty
    found = empty or info.primal_solution_status == highspy.kSolutionStatusFeasible
    objective = float(info.objective_function_value) if found else None
    return Solved(
        status,
        objective,
        np.array(solution.col_value, dtype=np.float64) if found else None,
        np.array(solution.row_dual, dtype=np.float64) if found and not whole else None,
        _bound(program, status, objective, float(info.mip_dual_bound) if whole else None),
        max(0, int(info.mip_node_count)) if whole else 0,
    )


def _is_refuted(program: Program, options: SolveOptions, solved: Solved, known: Floats) -> bool:
    """Return whether a known solution is better than what is said to be the bound."""
    filled = np.repeat(known, np.diff(program.starts)) * program.values
    rows = np.bincount(program.rows, filled, minlength=len(program.row_lower))
    slack = options.tolerance * (1 + np.abs(rows))
    if (rows < program.row_lower - slack).any() or (rows > program.row_upper + slack).any():
        return False
    worth = float(program.cost @ known)
    ahead = worth - solved.bound if program.maximize else solved.bound - worth
    return ahead > _DOUBT * max(1.0, abs(worth))


def _run(solver: highspy.Highs) -> None:
    """Run in a thread of its own, so that Ctrl-C ends it soon and not when it is done."""
    solver.HandleUserInterrupt = True
    try:
        solver.startSolve()
        _wait(solver)
    except KeyboardInterrupt:
        solver.cancelSolve()  # type: ignore[no-untyped-call]  # one more without types
        _wait(solver)
        raise


def _wait(solver: highspy.Highs) -> None:
    done = False
    while not done:
        done, _ = solver.wait(_LOOK_UP_SECONDS)


def _bound(program: Program, status: Status, objective: float | None, dual: float | None) -> float:
    worst = INFINITY if program.maximize else -INFINITY
    if status is Status.INFEASIBLE:
        return -worst
    if status is Status.UNBOUNDED:
        return worst
    if dual is not None:
        return dual
    return objective if status is Status.OPTIMAL and objective is not None else worst


def _solver(options: SolveOptions) -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy types nearly all
    wanted: dict[str, bool | int | float] = {
        "output_flag": False,
        "threads": 1,
        "random_seed": 0,
        "mip_rel_gap": options.gap,
        "mip_abs_gap": 0.0,
        "primal_feasibility_tolerance": options.tolerance,
        "dual_feasibility_tolerance": options.tolerance,
        "mip_feasibility_tolerance": options.tolerance,
    }
    if options.max_nodes is not None:
        wanted["mip_max_nodes"] = options.max_nodes
    if options.time_limit is not None:
        wanted["time_limit"] = options.time_limit
    for name, value in wanted.items():
        done = solver.setOptionValue(name, value)
        assert done == highspy.HighsStatus.kOk, name
    return solver


def _model(program: Program) -> highspy.HighsLp:
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(program.cost), len(program.row_lower)
    model.sense_ = highspy.ObjSense.kMaximize if program.maximize else highspy.ObjSense.kMinimize
    model.col_cost_ = program.cost
    model.col_lower_, model.col_upper_ = program.lower, program.upper
    model.row_lower_, model.row_upper_ = program.row_lower, program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = program.starts
    model.a_matrix_.index_ = program.rows
    model.a_matrix_.value_ = program.values
    if program.whole is not None:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[whole] for whole in program.whole.tolist()]
    return model
