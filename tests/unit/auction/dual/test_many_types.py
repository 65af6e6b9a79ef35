"""Answers of tasks that several node types run: the program over counts, and its stand-in."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from auctune.auction.book import Floats
from auctune.auction.dual.many_types import _bounded, answer_of_many_types
from auctune.auction.dual.problem import Taken
from auctune.auction.tolerance import FIT
from support.dual_questions import TIMES, Question, both_ways, check_cells, questions

Kernel = Callable[..., Any]

three_able = questions(num_able=3, num_types=3, max_slots=5)
any_able = st.one_of(
    three_able,
    questions(num_able=2, num_types=3, max_slots=5),
    questions(num_able=1, num_types=2, max_slots=5),
    questions(num_able=4, num_types=4, max_slots=4),
)


def ask(kernel: Kernel, question: Question) -> tuple[float, Taken]:
    taken = question.nothing_taken()
    needed = question.work * (1 - FIT)
    gain = kernel(question.window, question.speed, needed, question.bid, question.buffers(), taken)
    return gain, taken


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


@pytest.mark.parametrize("kernel", both_ways(answer_of_many_types))
@settings(max_examples=40, deadline=None)
@given(question=any_able)
def test_the_answer_is_the_best_of_all_schedules(kernel: Kernel, question: Question) -> None:
    gain, taken = ask(kernel, question)
    check_cells(question, gain, taken)
    best = max(0.0, question.bid - question.least_cost)
    assert gain == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("kernel", both_ways(_bounded))
@settings(max_examples=40, deadline=None)
@given(question=any_able)
def test_the_stand_in_is_never_below_what_cut_cells_gain(
    kernel: Kernel, question: Question
) -> None:
    gain, _ = ask(kernel, question)
    assert gain >= cut_cells_gain(question) - 1e-7
    assert gain >= question.bid - question.least_cost - 1e-9
    assert gain <= question.bid


@settings(max_examples=40, deadline=None)
@given(question=three_able, speed=st.permutations([1.0, 2.0, 4.0]))
def test_the_stand_in_is_what_cut_cells_gain_where_speeds_lie_far_apart(
    question: Question, speed: list[float]
) -> None:
    apart = replace(question, speed=np.array(speed))
    gain, taken = ask(_bounded, apart)
    assert gain == pytest.approx(cut_cells_gain(apart), abs=1e-7)
    if gain > 0.0:
        assert taken.samples.sum() / TIMES == pytest.approx(apart.work)
        outside = np.ones(len(apart.weight), dtype=bool)
        outside[apart.window.begin : apart.window.last + 1] = False
        assert not taken.samples[outside].any()
