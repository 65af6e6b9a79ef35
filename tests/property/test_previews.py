"""Questions change nothing: a preview is the next answer, and later ones are as without it."""

import numpy as np
import pytest

from auctune.domain import Admission, Task, write_snapshot
from support.endless import ENDLESS, days_of_six_slots
from support.markets import random_market
from support.mechanisms import MECHANISMS, Make
from support.recording import assert_same_state
from support.thorough import rotated, times
from support.windows import in_window


def ask(mechanism: Admission, task: Task) -> None:
    """All questions, which must leave what the mechanism remembers as it is."""
    before = write_snapshot(mechanism.save())
    decision = mechanism.preview(task, task.arrival)
    mechanism.quote(task, task.arrival)
    mechanism.explain(task, decision, task.arrival)
    assert write_snapshot(mechanism.save()) == before


def assert_previews_hold(silent: Admission, asked: Admission, tasks: list[Task]) -> int:
    """The number of admissions."""
    admitted = 0
    for index, task in enumerate(tasks):
        # Before the slot's price update, or after it.
        if index % 2:
            asked.advance(task.arrival)
        for other in tasks[index : index + 2]:
            if other.arrival == task.arrival:
                ask(asked, other)
        preview = asked.preview(task, task.arrival)
        decision = asked.offer(task, task.arrival)
        assert preview == decision == silent.offer(task, task.arrival)
        assert_same_state(asked.state(), silent.state())
        admitted += decision.admitted
    return admitted


@pytest.mark.slow
@pytest.mark.parametrize("make", rotated(MECHANISMS).values(), ids=rotated(MECHANISMS))
def test_a_preview_is_the_next_answer(make: Make) -> None:
    rng = np.random.default_rng(41)
    for _ in range(times(4)):
        market = random_market(rng, num_tasks=30)
        silent, asked = make(market.cluster), make(market.cluster)
        assert assert_previews_hold(silent, asked, list(market.tasks)) > 3


@pytest.mark.slow
@pytest.mark.parametrize("name", rotated(ENDLESS))
def test_a_preview_is_the_next_answer_without_an_end(name: str) -> None:
    market = days_of_six_slots(42)
    tasks = [in_window(task) for task in market.tasks][:40]
    silent, asked = ENDLESS[name](market, 1), ENDLESS[name](market, 1)
    assert assert_previews_hold(silent, asked, tasks) > 5
