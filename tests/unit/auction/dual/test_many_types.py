"""Answers of tasks that several node types run: the program over counts of cells."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.auction.dual.many_types import TOO_MANY, respond_many_types
from auctune.auction.dual.problem import Window
from support.dual_questions import Question, ask, both_ways, check_cells, questions
from support.kernels import Kernel
from support.thorough import drawn

three_able = questions(num_able=3, num_types=3, max_slots=5)
any_able = st.one_of(
    three_able,
    questions(num_able=2, num_types=3, max_slots=5),
    questions(num_able=1, num_types=2, max_slots=5),
    questions(num_able=4, num_types=4, max_slots=4),
)


@pytest.mark.parametrize("kernel", both_ways(respond_many_types))
@drawn(40)
@given(question=any_able)
def test_the_answer_is_the_best_of_all_schedules(kernel: Kernel, question: Question) -> None:
    gain, taken = ask(kernel, question)
    check_cells(question, gain, taken)
    best = max(0.0, question.bid - question.least_cost)
    assert gain == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("kernel", both_ways(respond_many_types))
def test_too_many_counts_of_cells_are_said_to_be_and_nothing_is_taken(kernel: Kernel) -> None:
    weight, speed = np.ones((30, 3)), np.array([0.1, 0.12, 0.125])
    question = Question(Window(0, 0, 29), weight, speed, 3.75, 9.0, ((0.0, 0),))
    taken = question.nothing_taken()
    spent = kernel(question.window, speed, 3.75, 9.0, question.buffers(), taken)
    assert spent == TOO_MANY
    assert not taken.samples.any()


@pytest.mark.parametrize("kernel", both_ways(respond_many_types))
@pytest.mark.parametrize("work", [1e20, 1e300])
def test_work_beyond_all_integers_gets_nothing(kernel: Kernel, work: float) -> None:
    three = Question(Window(0, 0, 2), np.ones((3, 3)), np.full(3, 2.0), work, 9.0, ((0.0, 0),))
    gain, taken = ask(kernel, three)
    assert gain == 0.0
    assert not taken.samples.any()
