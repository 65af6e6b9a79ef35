"""The wrapper of HiGHS against scipy, and by certificates: duals, bounds, limits."""

import math
import os
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from auctune.numerics.highs import Program, Solved, SolveOptions, Status, solve

Floats = NDArray[np.float64]
NOTHING = np.zeros(0)


def program(
    matrix: Floats,
    cost: Floats,
    row_upper: Floats,
    *,
    whole: bool = False,
    maximize: bool = True,
    upper: float = math.inf,
) -> Program:
    """max c x, A x <= b, 0 <= x <= upper."""
    n = len(cost)
    entries = matrix.T != 0
    return Program(
        cost=cost,
        lower=np.zeros(n),
        upper=np.full(n, upper),
        row_lower=np.full(len(row_upper), -math.inf),
        row_upper=row_upper,
        starts=np.concatenate(([0], np.cumsum(entries.sum(axis=1)))).astype(np.int32),
        rows=np.nonzero(entries)[1].astype(np.int32),
        values=matrix.T[entries],
        whole=np.full(n, whole) if whole else None,
        maximize=maximize,
    )


def knapsacks(seed: int, *, n: int = 12, m: int = 4) -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(0.0, 5.0, (m, n)) * (rng.random((m, n)) < 0.7)
    matrix[0] += 0.5
    return matrix, rng.uniform(0.0, 10.0, n), matrix.sum(axis=1) * rng.uniform(0.2, 0.6, m)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("whole", [False, True])
def test_optima_are_those_of_scipy(seed: int, whole: bool) -> None:
    matrix, cost, row_upper = knapsacks(seed)
    solved = solve(program(matrix, cost, row_upper, whole=whole, upper=1.0))
    theirs = milp(
        -cost,
        integrality=np.full(len(cost), int(whole)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, -np.inf, row_upper),
        options={"mip_rel_gap": 0.0},
    )
    assert solved.status is Status.OPTIMAL
    assert solved.objective == pytest.approx(-theirs.fun, rel=1e-7)
    assert solved.bound == pytest.approx(solved.objective, rel=1e-7)
    assert solved.primal is not None
    assert np.all(matrix @ solved.primal <= row_upper + 1e-8)
    assert cost @ solved.primal == pytest.approx(solved.objective)


@pytest.mark.parametrize("seed", range(5))
def test_row_duals_certify_a_linear_optimum(seed: int) -> None:
    matrix, cost, row_upper = knapsacks(seed)
    solved = solve(program(matrix, cost, row_upper))
    duals = solved.row_duals
    assert duals is not None
    assert np.all(duals >= -1e-9)
    assert np.all(duals @ matrix >= cost - 1e-8)
    assert duals @ row_upper == pytest.approx(solved.objective)


def test_a_minimum_is_bounded_from_below() -> None:
    least = Program(
        cost=np.array([3.0, 2.0]),
        lower=np.zeros(2),
        upper=np.full(2, 9.0),
        row_lower=np.array([3.5]),
        row_upper=np.array([math.inf]),
        starts=np.array([0, 1, 2], dtype=np.int32),
        rows=np.zeros(2, dtype=np.int32),
        values=np.ones(2),
        whole=np.array([True, True]),
    )
    solved = solve(least)
    assert (solved.status, solved.objective, solved.bound) == (Status.OPTIMAL, 8.0, 8.0)
    assert solved.primal is not None
    assert solved.primal.tolist() == [0.0, 4.0]


def hard_knapsack(limits: SolveOptions) -> Solved:
    rng = np.random.default_rng(3)
    matrix = rng.integers(200, 900, (8, 60)).astype(float)
    cost = matrix.mean(axis=0) + rng.uniform(0, 50, 60)
    return solve(program(matrix, cost, matrix.sum(axis=1) / 2, whole=True, upper=1.0), limits)


def test_a_limit_on_nodes_leaves_a_solution_under_its_bound_and_repeats() -> None:
    first, again = (hard_knapsack(SolveOptions(max_nodes=20)) for _ in range(2))
    assert first.status is Status.LIMIT
    assert first.objective is not None
    assert first.objective < first.bound
    assert (first.objective, first.bound) == (again.objective, again.bound)
    assert np.array_equal(first.primal, again.primal)  # type: ignore[arg-type]  # both are there


def test_a_gap_ends_a_search_within_it() -> None:
    solved = hard_knapsack(SolveOptions(gap=0.02))
    assert solved.status is Status.OPTIMAL
    assert solved.objective is not None
    assert solved.objective <= solved.bound <= solved.objective * 1.0201


def test_a_limit_on_time_ends_a_search() -> None:
    solved = hard_knapsack(SolveOptions(time_limit=0.05))
    assert solved.status is Status.LIMIT
    assert math.isfinite(solved.bound)


def test_a_search_ends_soon_after_ctrl_c() -> None:
    # A shell that runs the tests behind its back has told them to ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    start = time.perf_counter()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            hard_knapsack(SolveOptions(time_limit=600.0))
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.perf_counter() - start < 300


def test_what_has_no_solution_or_no_optimum_is_told_apart() -> None:
    one = np.ones(1)
    infeasible = solve(program(one[None], one, -one))
    assert (infeasible.status, infeasible.primal, infeasible.bound) == (
        Status.INFEASIBLE,
        None,
        -math.inf,
    )
    unbounded = solve(program(-one[None], one, one))
    assert (unbounded.status, unbounded.bound) == (Status.UNBOUNDED, math.inf)


@pytest.mark.parametrize("whole", [False, True])
def test_a_program_without_columns_is_solved(whole: bool) -> None:
    solved = solve(program(np.zeros((0, 0)), NOTHING, NOTHING, whole=whole))
    assert (solved.status, solved.objective, solved.bound) == (Status.OPTIMAL, 0.0, 0.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gap": -1.0}, "gap is -1.0"),
        ({"max_nodes": -1}, "max_nodes is -1"),
        ({"time_limit": 0.0}, "time_limit is 0.0"),
        ({"tolerance": 1.0}, "tolerance is 1.0"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SolveOptions(**options)  # type: ignore[arg-type]  # wrong on purpose


def test_arrays_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match="expected 2"):
        program(np.ones((1, 2)), np.ones(2), np.ones(1)).__class__(
            *(np.ones(2), np.ones(1), np.ones(2), NOTHING, NOTHING),
            *(np.zeros(3, dtype=np.int32), np.zeros(0, dtype=np.int32), NOTHING),
        )


def test_a_bound_that_a_known_solution_passes_is_not_believed() -> None:
    # HiGHS 1.15.1 calls 0.0002 optimal here: both of its rows can be filled by the second column.
    matrix = np.array(
        [
            [-1, -1, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            [-1, -1, 1, 0.5, 0.5, 1, 0.5, 0.5, 1, 0.5, 0.5],
            [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            [-1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0],
            [-1, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0],
            [-1, -1, 0, 0, 0, 0, 0, 0, 1, 1, 1],
        ]
    )
    cost = np.zeros(11)
    cost[:2] = 1.99960008e-04, 1.0
    upper = np.array([np.inf, np.inf, 1, 0, 0, 0])
    wanted = replace(
        program(matrix, cost, upper, whole=True, upper=1.0),
        row_lower=np.array([0, 0, *[-np.inf] * 4]),
    )
    known = np.zeros(11)
    known[[1, 8]] = 1.0
    assert np.all(matrix[:2] @ known >= 0)
    solved = solve(wanted, SolveOptions(tolerance=1e-8), start=known)
    assert (solved.objective, solved.bound) == (1.0, 1.0)
    # What does not keep the rows refutes nothing.
    whatever = solve(wanted, SolveOptions(tolerance=1e-8), start=np.ones(11))
    assert whatever.status is Status.OPTIMAL
