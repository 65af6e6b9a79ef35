"""What the paper leaves open of the prediction, for every estimator."""

import math

import pytest

from auctune.timeshare import M4, Ls, Mixture, Need, Wls
from auctune.timeshare.estimators import Estimator, SingleThread

ALL = [Wls(), Ls(), M4(), Mixture()]
NOT_NOW = Need(math.inf, math.inf, math.inf)

each = pytest.mark.parametrize("params", ALL, ids=lambda params: params.name)


def taught(params: Estimator, losses: list[float], step: int = 100) -> SingleThread:
    run = SingleThread(params)
    for index, loss in enumerate(losses, start=1):
        run.observe(float(step * index), loss)
    return run


def falling(num: int, exponent: float = 0.5, step: int = 100) -> list[float]:
    return [2.0 * float(step * i) ** -exponent for i in range(1, num + 1)]


@each
def test_nothing_seen_is_no_forecast(params: Estimator) -> None:
    assert SingleThread(params).need(0.1) == Need(math.inf, 1.0, math.inf)


@each
def test_a_loss_that_rises_is_out_of_reach(params: Estimator) -> None:
    assert taught(params, [1.0 + 0.1 * i for i in range(30)]).need(0.5).batches == math.inf


@each
def test_progress_too_small_for_any_float_is_out_of_reach(params: Estimator) -> None:
    run = taught(params, [1.0 - 1e-9 * i for i in range(1, 60)])
    assert run.need(1e-3).batches == math.inf


@each
def test_an_exponent_that_overflows_is_out_of_reach(params: Estimator) -> None:
    assert taught(params, falling(40, exponent=0.01)).need(1e-300).batches == math.inf


@each
@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_no_number_is_out_of_reach_until_one_comes(
    params: Estimator, loss: float
) -> None:
    run, spared = taught(params, falling(20)), taught(params, falling(20))
    run.observe(2100.0, loss)
    assert run.need(0.01) == NOT_NOW
    for again in range(22, 30):
        for one in (run, spared):
            one.observe(again * 100.0, 2.0 * (again * 100.0) ** -0.5)
    assert run.need(0.01).batches == pytest.approx(spared.need(0.01).batches, rel=0.1)


@each
@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_thread_that_was_never_well_is_out_of_reach(params: Estimator, loss: float) -> None:
    assert taught(params, [loss]).need(0.01) == NOT_NOW


@each
@pytest.mark.parametrize("loss", [0.0, -1.0])
def test_a_loss_of_zero_or_less_has_reached_any_threshold(params: Estimator, loss: float) -> None:
    run = taught(params, falling(20))
    run.observe(2100.0, loss)
    assert run.need(1e-12) == Need(0.0, 0.0, 0.0)
    run.observe(2200.0, 2.0 * 2200.0**-0.5)
    assert math.isfinite(run.need(0.02).batches)


@each
def test_a_need_under_a_batch_is_one_while_the_loss_is_above(params: Estimator) -> None:
    run = taught(params, [*falling(30), 2.0 * 3000.0**-0.5 * 1.05])
    assert run.need(2.0 * 3000.0**-0.5 * 1.04).batches == 1.0


@each
def test_a_reached_threshold_needs_nothing(params: Estimator) -> None:
    run = taught(params, falling(30))
    assert run.need(2.0 * 3000.0**-0.5).batches == 0.0


@each
def test_a_plateau_after_fast_progress_moves_the_need_away(params: Estimator) -> None:
    fast = falling(30, exponent=0.8)
    before = taught(params, fast).need(0.5 * fast[-1]).batches
    after = taught(params, fast + [fast[-1]] * 60).need(0.5 * fast[-1]).batches
    # Without forgetting, what was fast long ago still counts.
    assert after > (2 if params.name in ("ls", "m4") else 10) * before


@each
def test_low_and_high_hold_the_need(params: Estimator) -> None:
    losses = [loss * (1.1 if i % 3 else 0.9) for i, loss in enumerate(falling(60))]
    need = taught(params, losses).need(0.01)
    assert 1.0 <= need.low <= need.batches <= need.high
