"""Engression: what is asked of every estimator, and a fit of a curve that it should know."""

import math
import sys

import numpy as np
import pytest
import torch

from auctune.domain import InputError
from auctune.timeshare import Need
from timeshare_harness.engression import Engression, EngressionRun, crossing

QUICK = Engression(epochs=120)


def taught(losses: list[float], params: Engression = QUICK) -> EngressionRun:
    run = EngressionRun(params)
    for index, loss in enumerate(losses, start=1):
        run.observe(100.0 * index, loss)
    return run


def falling(num: int) -> list[float]:
    return [2.0 * (100.0 * i) ** -0.5 for i in range(1, num + 1)]


def test_cases_without_a_fit_are_those_of_every_estimator() -> None:
    unknown, never = Need(math.inf, 1.0, math.inf), Need(math.inf, math.inf, math.inf)
    assert EngressionRun(QUICK).need(0.1) == unknown
    assert taught(falling(5)).need(0.001) == unknown
    assert taught([*falling(20), math.nan]).need(0.01) == never
    assert taught([*falling(20), math.inf]).need(0.01) == never
    assert taught([*falling(20), 0.0]).need(1e-9) == Need(0.0, 0.0, 0.0)
    assert taught(falling(30)).need(2.0 * 3000.0**-0.5) == Need(0.0, 0.0, 0.0)


@pytest.mark.slow
def test_a_falling_curve_is_carried_on_and_nobody_elses_draws_are_touched() -> None:
    before = torch.get_rng_state()
    run = taught(falling(40))
    # The law itself is there after 4,000 more batches.
    need = run.need(2.0 * 8000.0**-0.5)
    assert 1500 < need.batches < 12_000
    assert 1.0 <= need.low <= need.batches <= need.high
    assert run.need(1e-300).batches == math.inf
    assert torch.equal(torch.get_rng_state(), before)
    # A fit is kept for four units more.
    for index in range(41, 45):
        run.observe(100.0 * index, 2.0 * (100.0 * index) ** -0.5)
    assert run.need(2.0 * 8000.0**-0.5).batches == need.batches - 400


def test_a_curve_is_crossed_where_it_first_comes_to_a_level() -> None:
    ahead = np.array([1.0, 2.0, 3.0, 4.0])
    curve = np.array([0.0, -1.0, 1.0, -2.0])
    assert crossing(ahead, curve, -0.5) == pytest.approx(1.5)
    assert crossing(ahead, curve, 0.5) == 1.0
    assert crossing(ahead, curve, -1.5) == pytest.approx(3.0 + 2.5 / 3.0)
    assert crossing(ahead, curve, -2.5) == math.inf


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # This is how Python notes that there is no such module.
    monkeypatch.setitem(sys.modules, "engression", None)
    with pytest.raises(InputError, match=r"estimator: 'engression' needs .* expected pip install"):
        Engression()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"epochs": 0}, "epochs"),
        ({"growth": -1.0}, "growth"),
        ({"seed": -1}, "seed"),
    ],
)
def test_wrong_parameters_are_named(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Engression(**wrong)  # type: ignore[arg-type]
