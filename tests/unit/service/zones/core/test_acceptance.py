"""Accepting estimates: what counts as worse than quoted."""

from dataclasses import replace
from typing import Any

import pytest

from auctune.domain import Money
from auctune.service.jobs.quotes import Quote
from auctune.service.jobs.request import JobRequest
from auctune.service.jobs.training import Training
from auctune.service.zones.core.job import Estimate, EstimateOffer
from auctune.service.zones.core.menu import degradation_reason

SHOWN = Estimate(Money("2.0000"), Money("3.0000"), 100.0, 150.0, 0.05)


def quote(risk: float = 0.1, deadline: float = 200.0) -> Quote:
    asked = {"model": "tiny", "training_file": "file-a", "market": {"risk": risk}}
    request = JobRequest.model_validate(asked)
    offer = EstimateOffer(SHOWN, None)
    return Quote("quote-a", "ada", "z", "spot", request, Training("file-a"), offer, deadline, 0.0)


@pytest.mark.parametrize(
    ("now", "is_worse"),
    [
        ({}, False),
        ({"expected_cost": Money("2.9000"), "finish": 149.0}, False),
        ({"p90_cost": Money("3.0001")}, True),
        ({"finish_p90": 200.0}, False),
        ({"finish_p90": 200.1}, True),
        ({"risk": 0.1}, False),
        ({"risk": 0.11}, True),
    ],
)
def test_an_estimate_is_worse_by_what_was_shown_or_wished(
    now: dict[str, Any], is_worse: bool
) -> None:
    assert (degradation_reason(quote(), replace(SHOWN, **now)) is not None) == is_worse


def test_what_was_shown_worse_than_wished_may_stay_so() -> None:
    late = replace(SHOWN, finish_p90=150.0, risk=0.05)
    assert degradation_reason(quote(risk=0.0, deadline=120.0), late) is None
