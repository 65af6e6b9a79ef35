"""Answers with cells cut at will, against the linear program that they solve."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from auctune.auction.dual.problem import AggregateDemand, Window
from auctune.auction.dual.relaxed import respond_relaxed
from auctune.numerics.arrays import FIT, Floats
from support.dual_questions import MEMORY_GB, TIMES, Question, ask, both_ways, questions
from support.kernels import Kernel
from support.thorough import drawn

any_able = st.one_of(
    questions(num_able=3, num_types=3, max_slots=5),
    questions(num_able=2, num_types=3, max_slots=5),
    questions(num_able=2, num_types=2, max_slots=9),
    questions(num_able=4, num_types=4, max_slots=4),
)


def cut_cells_cost(weight: Floats, speed: Floats, work: float) -> float:
    """The least cost with cells cut at will, by a linear program; infinite if none does it."""
    able = speed > 0
    num_slots, num_able = len(weight), int(able.sum())
    once_a_slot = np.kron(np.eye(num_slots), np.ones(num_able))
    found = linprog(
        weight[:, able].ravel(),
        A_ub=np.vstack((once_a_slot, -np.tile(speed[able], num_slots))),
        b_ub=np.append(np.ones(num_slots), -work * (1 - FIT)),
    )
    return float(found.fun) if found.status == 0 else np.inf


def cut_cells_gain(question: Question) -> float:
    end = question.window.last + 1
    costs = [
        price + cut_cells_cost(question.weight[start:end], question.speed, question.work)
        for price, start in question.starts
        if start < end
    ]
    return max(0.0, question.bid - min(costs))


@pytest.mark.parametrize("kernel", both_ways(respond_relaxed))
@drawn(100)
@given(question=any_able)
def test_the_answer_is_the_linear_program_s(kernel: Kernel, question: Question) -> None:
    gain, taken = ask(kernel, question)
    assert gain == pytest.approx(cut_cells_gain(question), abs=1e-7)
    check_shares(question, gain, taken)


@drawn(100)
@given(question=any_able)
def test_no_schedule_of_whole_cells_gains_more(question: Question) -> None:
    gain, _ = ask(respond_relaxed, question)
    assert gain >= question.bid - question.least_cost - 1e-9


@drawn(100)
@given(question=any_able, seed=st.integers(0, 99))
def test_what_it_takes_is_the_slope_of_its_gain(question: Question, seed: int) -> None:
    gain, taken = ask(respond_relaxed, question)
    change = np.random.default_rng(seed).uniform(-0.3, 0.6, question.weight.shape)
    change = np.maximum(change, -question.weight)
    asked = question.window, question.weight + change, question.speed, question.work
    there = Question(*asked, question.bid, question.quotes)
    cells = taken.gigabytes / (TIMES * MEMORY_GB)
    assert ask(respond_relaxed, there)[0] >= gain - (cells * change).sum() - 1e-7


def check_shares(question: Question, gain: float, taken: AggregateDemand) -> None:
    """Shares of cells, at most one cell a slot, that do the work and cost what is left."""
    cells = taken.gigabytes / (TIMES * MEMORY_GB)
    np.testing.assert_allclose(taken.samples, cells * TIMES * question.speed, atol=1e-12)
    if gain == 0.0:
        assert not cells.any()
        return
    assert cells.sum(axis=1).max() <= 1 + 1e-12
    assert (cells @ question.speed).sum() >= question.work * (1 - 2e-9)
    slots = np.flatnonzero(cells.any(axis=1))
    assert slots[-1] <= question.window.last
    price = min((p for p, start in question.starts if start <= slots[0]), default=np.inf)
    assert question.bid - price - (question.weight * cells).sum() == pytest.approx(gain, abs=1e-9)


TWO_SLOTS = Question(
    window=Window(0, 0, 1),
    weight=np.array([[1.0, 4.0], [1.0, 4.0]]),
    speed=np.array([1.0, 2.0]),
    work=2.5 / (1 - FIT),
    bid=10.0,
    quotes=((0.0, 0),),
)


@pytest.mark.parametrize("kernel", both_ways(respond_relaxed))
def test_only_the_marginal_step_is_taken_in_part(kernel: Kernel) -> None:
    # Both slots run the slow type for 2; half a step of 3 to the quick one does the rest.
    gain, taken = ask(kernel, TWO_SLOTS)
    assert gain == pytest.approx(10.0 - 2.0 - 1.5)
    assert taken.samples.sum() / TIMES == pytest.approx(2.5)


@pytest.mark.parametrize("kernel", both_ways(respond_relaxed))
@pytest.mark.parametrize("work", [1e20, 1e300])
def test_work_beyond_all_integers_gets_nothing(kernel: Kernel, work: float) -> None:
    gain, taken = ask(kernel, Question(TWO_SLOTS.window, TWO_SLOTS.weight, TWO_SLOTS.speed, work,
                                       10.0, ((0.0, 0),)))  # fmt: skip
    assert gain == 0.0
    assert not taken.samples.any()
