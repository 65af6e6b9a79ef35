"""The mixture on curves of its members' laws, and against what disturbs it."""

import math

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.timeshare import Mixture
from auctune.timeshare.estimators import SingleThread


def observed(losses: list[float], step: int = 20) -> float:
    """The need of half the last loss, without a margin for noise."""
    run = SingleThread(Mixture(tau=0.0))
    for index, loss in enumerate(losses, start=1):
        run.observe(float(step * index), loss)
    return run.need(0.5 * losses[-1]).batches


def test_its_middle_law_is_foretold() -> None:
    def loss(s: float) -> float:
        return 2.0 * math.exp(-0.1 * math.sqrt(s))

    run = SingleThread(Mixture(tau=0.0))
    for s in range(20, 2001, 20):
        run.observe(float(s), loss(s - 10))
    assert run.need(loss(5000.0)).batches == pytest.approx(3000, rel=0.03)


@pytest.mark.parametrize(("bend", "side"), [(0.0, "high"), (1.0, "low")])
def test_its_outer_laws_are_its_deciles(bend: float, side: str) -> None:
    def loss(s: float) -> float:
        return 4.0 * s**-0.5 if bend == 0.0 else math.exp(-s / 1000.0)

    run = SingleThread(Mixture(tau=0.0))
    for s in range(20, 2001, 20):
        run.observe(float(s), loss(s - 10))
    assert getattr(run.need(loss(4000.0)), side) == pytest.approx(2000, rel=0.03)


def test_an_outlier_moves_it_little() -> None:
    random = np.random.default_rng(1)
    losses = [3.0 * (20 * i) ** -0.5 * math.exp(0.01 * random.normal()) for i in range(1, 121)]
    spoiled = losses.copy()
    spoiled[-3] *= 3.0
    assert observed(spoiled) == pytest.approx(observed(losses), rel=0.25)


def test_noise_brings_the_need_nearer() -> None:
    random = np.random.default_rng(4)
    careful, eager = SingleThread(Mixture(tau=0.0)), SingleThread(Mixture(tau=1.0))
    for i in range(1, 101):
        loss = 3.0 * (20 * i) ** -0.5 * math.exp(0.1 * random.normal())
        careful.observe(20.0 * i, loss)
        eager.observe(20.0 * i, loss)
    assert eager.need(0.03).batches < careful.need(0.03).batches


def test_a_unit_counts_by_its_batches() -> None:
    random = np.random.default_rng(6)
    run, spared = SingleThread(Mixture()), SingleThread(Mixture())
    for i in range(1, 61):
        loss = 3.0 * (500 * i) ** -0.5 * math.exp(0.02 * random.normal())
        for one in (run, spared):
            one.observe(500.0 * i, loss)
    run.observe(30_001.0, 3.0 * 30_001**-0.5 * 1.1)
    assert run.need(0.01).batches == pytest.approx(spared.need(0.01).batches, rel=0.02)


@pytest.mark.parametrize("tau", [math.nan, -1.0])
def test_a_wrong_parameter_is_named(tau: float) -> None:
    with pytest.raises(InputError) as raised:
        Mixture(tau)
    assert raised.value.place == "tau"
