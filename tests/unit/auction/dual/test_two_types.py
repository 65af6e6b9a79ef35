"""Answers of tasks that two node types run: exact, or a clash that leaves no trace."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given

from auctune.auction.dual.problem import AggregateDemand, Window
from auctune.auction.dual.two_types import CLASH, respond_two_types
from auctune.numerics.arrays import FIT
from support.dual_questions import Question, both_ways, check_cells, questions
from support.thorough import drawn

Kernel = Callable[..., Any]


def ask(kernel: Kernel, question: Question) -> tuple[float, AggregateDemand]:
    a, b = (int(k) for k in np.flatnonzero(question.speed))
    taken = question.nothing_taken()
    needed = question.work * (1 - FIT)
    spent = kernel(
        question.window, a, b, question.speed, needed, question.bid, question.buffers(), taken
    )
    return CLASH if spent == CLASH else question.bid - spent, taken


def meeting_allowed(question: Question) -> float:
    """Least cost if a slot may hold a cell of each type: two slots of one type each."""
    apart = np.zeros((2 * len(question.weight), len(question.speed)))
    never = 1e9
    a, b = np.flatnonzero(question.speed)
    apart[0::2], apart[1::2] = question.weight, question.weight
    apart[0::2, b], apart[1::2, a] = never, never
    window = question.window
    twice = Window(2 * window.arrival, 2 * window.begin, 2 * window.last + 1)
    quotes = tuple((price, 2 * delay) for price, delay in question.quotes)
    doubled = Question(twice, apart, question.speed, question.work, question.bid, quotes)
    return doubled.least_cost


@pytest.mark.parametrize("kernel", both_ways(respond_two_types))
@drawn(40)
@given(question=questions(num_able=2, num_types=3, max_slots=5))
def test_the_answer_is_the_best_of_all_schedules_or_a_clash(
    kernel: Kernel, question: Question
) -> None:
    gain, taken = ask(kernel, question)
    event("clash" if gain == CLASH else "gain" if gain > 0 else "nothing")
    if gain == CLASH:
        assert not taken.samples.any()
        assert not taken.gigabytes.any()
        return
    check_cells(question, gain, taken)
    best = max(0.0, question.bid - question.least_cost)
    assert gain == pytest.approx(best, abs=1e-9)


@drawn(40)
@given(question=questions(num_able=2, num_types=2, max_slots=4))
def test_a_clash_is_never_claimed_where_meeting_could_not_pay(question: Question) -> None:
    if ask(respond_two_types, question)[0] == CLASH:
        assert meeting_allowed(question) < question.bid


def slots(weight: list[list[float]], work: float) -> Question:
    return Question(
        Window(0, 0, len(weight) - 1), np.array(weight), np.array([2.0, 1.0]), work, 10.0,
        ((0.0, 0),),
    )  # fmt: skip


@pytest.mark.parametrize("kernel", both_ways(respond_two_types))
def test_the_cheapest_cells_of_both_types_in_one_slot_clash(kernel: Kernel) -> None:
    gain, _ = ask(kernel, slots([[1.0, 0.5], [9.0, 8.0]], 3.0))
    assert gain == CLASH


@pytest.mark.parametrize("kernel", both_ways(respond_two_types))
def test_equal_weights_keep_out_of_each_others_way(kernel: Kernel) -> None:
    question = slots([[1.0, 0.5], [1.0, 0.5]], 3.0)
    gain, taken = ask(kernel, question)
    assert gain == 8.5
    check_cells(question, gain, taken)


@pytest.mark.parametrize("kernel", both_ways(respond_two_types))
def test_two_slow_cells_are_taken_where_one_quick_cell_costs_more(kernel: Kernel) -> None:
    for quick, best in ((3.0, 2.0), (1.5, 1.5)):
        gain, _ = ask(kernel, slots([[quick, 1.0], [quick, 1.0]], 2.0))
        assert gain == 10.0 - best


@pytest.mark.parametrize("kernel", both_ways(respond_two_types))
@pytest.mark.parametrize("work", [1e20, 1e300])
def test_work_beyond_all_integers_gets_nothing(kernel: Kernel, work: float) -> None:
    gain, taken = ask(kernel, slots([[1.0, 1.0], [1.0, 1.0]], work))
    assert gain == 0.0
    assert not taken.samples.any()


@pytest.mark.parametrize("kernel", both_ways(respond_two_types))
@pytest.mark.parametrize("dear", [1e12, 1e17, 1e300])
def test_dear_cells_leave_no_rounding_behind(kernel: Kernel, dear: float) -> None:
    question = slots([[dear, 4.9], [dear, 4.9], [dear, dear], [dear, dear]], 2.0)
    assert ask(kernel, question)[0] == 10.0 - (4.9 + 4.9)
