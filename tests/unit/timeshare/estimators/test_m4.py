"""M4 on curves of its own law."""

import numpy as np
import pytest
from scipy.optimize import brentq

from auctune.domain import InputError
from auctune.timeshare import M4
from auctune.timeshare.estimators import SingleThread


def law(s: float, ends: tuple[float, float], alpha: float, beta: float, c: float) -> float:
    """The loss at which (l - l_inf) / (l_0 - l)^alpha = beta s^-c."""
    low, high = ends
    if alpha == 0.0:
        return float(low + beta * s**-c)
    return float(
        brentq(lambda y: (y - low) - beta * s**-c * (high - y) ** alpha, low, high, xtol=1e-14)
    )


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.5])
def test_it_foretells_its_own_law(alpha: float) -> None:
    def loss(s: float) -> float:
        return law(s, (0.1, 2.5), alpha, 20.0, 0.6)

    run = SingleThread(M4(6))
    for s in range(20, 4001, 20):
        run.observe(float(s), loss(s))
    assert run.need(loss(9000.0)).batches == pytest.approx(5000, rel=0.05)


def test_what_lies_under_its_floor_is_out_of_reach() -> None:
    run = SingleThread(M4())
    for s in range(20, 8001, 20):
        run.observe(float(s), 0.5 + 3.0 * s**-0.7)
    assert run.need(0.3).batches == np.inf
    assert np.isfinite(run.need(0.503).batches)


def test_wrong_parameters_are_named() -> None:
    with pytest.raises(InputError, match="rounds"):
        M4(0)
