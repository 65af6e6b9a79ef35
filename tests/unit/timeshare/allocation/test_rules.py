"""Rules case by case, with what the paper leaves open."""

import math

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.timeshare import (
    EASIEST_FIRST,
    LEAST_RESOURCES_FIRST,
    MOORE_HODGSON,
    moore_hodgson,
)
from auctune.timeshare.allocation import Demand, Rule
from auctune.timeshare.allocation.rule import relative_shares

INF = math.inf
RULES = [MOORE_HODGSON, LEAST_RESOURCES_FIRST, EASIEST_FIRST]


def demand(
    need: list[float], slack: list[float], active: list[bool] | None = None, rate: float = 1.0
) -> Demand:
    num = len(need)
    return Demand(
        order=np.argsort(slack, kind="stable").astype(np.int64),
        active=np.array(active or [True] * num),
        need=np.array(need),
        rate=np.full(num, rate),
        slack=np.array(slack),
        window=np.array(slack) + 10.0,
    )


def shares(rule: Rule, asked: Demand) -> list[float]:
    eta = np.zeros(len(asked.need))
    rule.share(asked, eta)
    assert eta.sum() == pytest.approx(1.0)
    return eta.tolist()


def test_shares_are_the_papers_then_scaled() -> None:
    # rel = 2/4, 3/(10 - 2); eta = 1/2, 1/2 * 3/8; of 11/16.
    asked = demand([20.0, 30.0], [4.0, 10.0], rate=10.0)
    assert shares(MOORE_HODGSON, asked) == pytest.approx([8 / 11, 3 / 11])


def test_a_thread_that_just_fits_gets_all() -> None:
    asked = demand([0.1 * 3, 5.0], [0.3, 10.0])
    assert shares(MOORE_HODGSON, asked) == pytest.approx([1.0, 0.0])


def test_the_longest_is_dropped_where_not_all_fit() -> None:
    asked = demand([3.0, 8.0, 4.0], [9.0, 10.0, 11.0])
    assert shares(MOORE_HODGSON, asked)[1] == 0.0
    assert moore_hodgson(asked.need, asked.slack).tolist() == [True, False, True]


def test_the_least_need_and_the_easiest_thread_get_all() -> None:
    asked = demand([9.0, 8.0], [90.0, 20.0])
    assert shares(LEAST_RESOURCES_FIRST, asked) == [0.0, 1.0]
    assert shares(EASIEST_FIRST, asked) == [1.0, 0.0]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_infinite_needs_never_enter_the_choice(rule: Rule) -> None:
    assert shares(rule, demand([INF, 5.0, INF], [1.0, 9.0, 20.0])) == [0.0, 1.0, 0.0]


def test_with_nobody_in_reach_of_its_deadline_the_least_late_gets_all() -> None:
    asked = demand([50.0, 30.0, INF], [10.0, 5.0, 5.0])
    assert shares(MOORE_HODGSON, asked) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_with_no_finite_need_the_active_ones_share_evenly(rule: Rule) -> None:
    asked = demand([INF, INF, INF], [4.0, 5.0, 6.0], [True, False, True])
    assert shares(rule, asked) == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_who_is_not_active_gets_nothing(rule: Rule) -> None:
    asked = demand([1.0, 2.0], [4.0, 5.0], [False, True])
    assert shares(rule, asked) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("need", "slack", "place"),
    [([0.0], [1.0], "need[0]"), ([math.nan], [1.0], "need[0]"), ([1.0], [1.0, 2.0], "slack")],
)
def test_needs_that_are_none_are_named(need: list[float], slack: list[float], place: str) -> None:
    with pytest.raises(InputError) as raised:
        moore_hodgson(np.array(need), np.array(slack))
    assert raised.value.place == place


def test_threads_that_fill_the_time_to_the_last_digit_get_no_share_under_nothing() -> None:
    # Beside a long one: what rounding lets pass as fitting leaves the last one less than nothing.
    need = np.array([1000.0, 4e-7, 4e-7])
    slack = np.full(3, 1000.0)
    order, kept = np.arange(3), moore_hodgson(need, slack)
    assert kept.all()
    relative, eta = np.empty(3), np.empty(3)
    relative_shares(order, kept, need, slack, relative, eta)
    assert ((relative >= 0) & (relative <= 1)).all()
    assert eta.tolist() == [1.0, 0.0, 0.0]
