"""Answers of tasks that one node type runs, against every choice of slots."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from auctune.auction.dual.one_type import respond_one_type
from auctune.auction.dual.problem import Window
from auctune.numerics.arrays import FIT
from support.dual_questions import Question, both_ways, check_cells, questions
from support.thorough import drawn

Kernel = Callable[..., Any]


def ask(kernel: Kernel, question: Question) -> float:
    k = int(np.flatnonzero(question.speed)[0])
    taken = question.nothing_taken()
    needed, speed = question.work * (1 - FIT), float(question.speed[k])
    _, begin, last = question.window
    room = question.buffers()
    gain: float = question.bid - kernel(
        begin, last, k, speed, needed, question.bid, taken.times, taken.memory_gb, room.weight,
        room.least, room.start_price, taken.samples, taken.gigabytes,
    )  # fmt: skip
    check_cells(question, gain, taken)
    return gain


@pytest.mark.parametrize("kernel", both_ways(respond_one_type))
@drawn(70)
@given(question=questions(num_able=1, num_types=2, max_slots=7))
def test_the_answer_is_the_best_of_all_schedules(kernel: Kernel, question: Question) -> None:
    best = max(0.0, question.bid - question.least_cost)
    assert ask(kernel, question) == pytest.approx(best, abs=1e-9)


FOUR_SLOTS = Question(
    window=Window(0, 0, 3),
    weight=np.array([[1.0], [3.0], [1.0], [2.0]]),
    speed=np.array([2.0]),
    work=5.0,
    bid=10.0,
    quotes=((0.0, 0),),
)


@pytest.mark.parametrize("kernel", both_ways(respond_one_type))
def test_work_that_is_no_multiple_of_the_speed_takes_a_whole_last_cell(kernel: Kernel) -> None:
    assert ask(kernel, FOUR_SLOTS) == 10.0 - (1.0 + 1.0 + 2.0)


@pytest.mark.parametrize("kernel", both_ways(respond_one_type))
def test_a_bid_that_equals_the_least_cost_takes_nothing(kernel: Kernel) -> None:
    equal = replace(FOUR_SLOTS, bid=4.0)
    assert ask(kernel, equal) == 0.0


@pytest.mark.parametrize("kernel", both_ways(respond_one_type))
def test_more_cells_than_the_window_has_slots_are_no_schedule(kernel: Kernel) -> None:
    assert ask(kernel, replace(FOUR_SLOTS, work=8.0)) == 10.0 - 7.0
    assert ask(kernel, replace(FOUR_SLOTS, work=8.1)) == 0.0


@pytest.mark.parametrize("kernel", both_ways(respond_one_type))
def test_a_dear_quick_vendor_is_taken_where_its_slots_are_worth_it(kernel: Kernel) -> None:
    quotes = ((0.5, 1), (1.0, 0))
    # The slow vendor leaves slots of 3 + 1 + 2, the quick one has 1 + 1 + 2 for 0.5 more.
    assert ask(kernel, replace(FOUR_SLOTS, quotes=quotes)) == 10.0 - 5.0
    dearer = ((0.5, 1), (3.0, 0))
    assert ask(kernel, replace(FOUR_SLOTS, quotes=dearer)) == 10.0 - 6.5


@pytest.mark.parametrize("kernel", both_ways(respond_one_type))
@pytest.mark.parametrize("work", [1e20, 1e300])
def test_work_beyond_all_integers_gets_nothing(kernel: Kernel, work: float) -> None:
    assert ask(kernel, replace(FOUR_SLOTS, work=work)) == 0.0


@pytest.mark.parametrize("kernel", both_ways(respond_one_type))
@pytest.mark.parametrize("dear", [1e12, 1e17, 1e300])
def test_dear_cells_leave_no_rounding_behind(kernel: Kernel, dear: float) -> None:
    weight = np.array([9.9, 9.9, 9.9, dear, dear, dear])[:, None]
    slots = Question(Window(0, 0, 5), weight, np.ones(1), 2.0, 20.0, ((0.0, 0),))
    assert ask(kernel, slots) == 20.0 - (9.9 + 9.9)
