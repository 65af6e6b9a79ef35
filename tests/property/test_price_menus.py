"""A quote is what an offer would charge, line by line."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from auctune.domain import Admission, Cluster, Task
from auctune.domain.money import LARGEST
from support.instances import instances
from support.markets import random_market
from support.mechanisms import AUCTIONS, Make, maker, params_by_name
from support.playing import answer, offer_all
from support.thorough import drawn, rotated

COMPLETE = {
    name: maker(params)
    for name, params in params_by_name(("critical",)).items()
    if params.capacity == "masked"
}


def assert_lines_hold(mechanism: Admission, task: Task) -> int:
    """The number of lines, each of which is what `offer` answers to that deadline."""
    menu = mechanism.quote(task, task.arrival)
    for line in menu.lines:
        decision = answer(mechanism, replace(task, deadline=line.deadline), LARGEST)
        assert (decision.payment, decision.schedule) == (line.price, line.schedule)
        assert line.schedule.finish == line.deadline
    deadlines = [line.deadline for line in menu.lines]
    prices = [line.price for line in menu.lines]
    assert deadlines == sorted(set(deadlines))
    assert prices == sorted(set(prices), reverse=True)
    return len(menu.lines)


@pytest.mark.parametrize("make", rotated(AUCTIONS).values(), ids=rotated(AUCTIONS))
def test_each_line_is_what_an_offer_with_that_deadline_charges(make: Make) -> None:
    rng = np.random.default_rng(12)
    lines = []
    for _ in range(8):
        market = random_market(rng)
        mechanism = make(market.cluster)
        offer_all(mechanism, market.tasks[:12])
        lines += [assert_lines_hold(mechanism, task) for task in market.tasks[12:16]]
    assert max(lines) > 1


@pytest.mark.parametrize("make", rotated(AUCTIONS).values(), ids=rotated(AUCTIONS))
@drawn(15)
@given(instance=instances())
def test_lines_hold_on_degenerate_markets(make: Make, instance: tuple[Cluster, list[Task]]) -> None:
    cluster, tasks = instance
    mechanism = make(cluster)
    offer_all(mechanism, tasks[:-1])
    assert_lines_hold(mechanism, tasks[-1])


@pytest.mark.parametrize("make", rotated(COMPLETE).values(), ids=rotated(COMPLETE))
def test_a_menu_answers_every_deadline(make: Make) -> None:
    rng = np.random.default_rng(13)
    asked = 0
    for _ in range(10):
        market = random_market(rng)
        mechanism = make(market.cluster)
        offer_all(mechanism, market.tasks[:12])
        task = market.tasks[12]
        menu = mechanism.quote(task, task.arrival)
        for deadline in range(task.arrival, task.deadline + 1):
            decision = answer(mechanism, replace(task, deadline=deadline), LARGEST)
            line = menu.by(deadline)
            assert (line.price if line else None) == decision.price
            asked += decision.admitted
    assert asked > 10
