"""How jobs are told of to people."""

from typing import Any

import pytest

from auctune.domain.job_words import STATE_WORDS, is_overdue, loss_text, state_word
from auctune.service.zones.core.job import Phase


def test_each_phase_has_a_word() -> None:
    assert {phase.value for phase in Phase} <= set(STATE_WORDS)


def test_an_unknown_state_is_shown_as_it_is() -> None:
    assert state_word("trained") == "packing"
    assert state_word("of_a_newer_service") == "of a newer service"


@pytest.mark.parametrize(
    ("loss", "target", "text"),
    [
        (2.5, None, "2.500"),
        (0.76994, None, "0.770"),
        (0.7699, 0.77, "0.7699"),
        (0.77, 0.77, "0.770"),
        (0.770004, 0.77, "0.770004"),
        (0.9, 0.77, "0.900"),
        (0.12344, 0.1234, "0.12344"),
    ],
)
def test_a_loss_shows_on_which_side_of_its_target_it_is(
    loss: float, target: float | None, text: str
) -> None:
    assert loss_text(loss, target) == text


@pytest.mark.parametrize(
    ("finished", "expected", "metered", "is_late"),
    [
        (None, 90, {}, True),
        (None, 110, {}, False),
        (95, 90, {}, False),
        (None, 90, None, False),
        (None, None, {}, False),
    ],
)
def test_what_is_metered_is_overdue_once_it_should_be_done(
    finished: int | None, expected: int | None, metered: Any, is_late: bool
) -> None:
    job = {
        "finished_at": finished,
        "estimated_finish": expected,
        "market": {"metered": metered},
    }
    assert is_overdue(job, now=100.0) == is_late
