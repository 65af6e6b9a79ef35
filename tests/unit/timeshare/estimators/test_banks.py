"""Banks against objects of one thread, and kernels against themselves as plain Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from auctune.timeshare import M4, Ls, Mixture, Wls
from auctune.timeshare.estimators import Estimator, SingleThread, m4, mixture, wls

NUM = 12


def rounds(seed: int, num_rounds: int = 25) -> list[tuple[Any, Any, Any]]:
    """Samples, losses and who is fresh; some losses are broken."""
    random = np.random.default_rng(seed)
    samples, heard = np.zeros(NUM), []
    for _ in range(num_rounds):
        fresh = random.random(NUM) < 0.7
        samples = samples + np.where(fresh, random.integers(1, 80, NUM), 0)
        loss = 3 * np.maximum(samples, 1) ** -0.4 * np.exp(0.1 * random.standard_normal(NUM))
        broken = random.random(NUM)
        loss = np.select([broken < 0.02, broken < 0.04], [np.nan, 0.0], loss)
        heard.append((samples, np.where(fresh, loss, np.nan), fresh))
    return heard


@pytest.mark.parametrize("params", [Wls(), Ls(), M4(1), Mixture()])
def test_a_bank_says_what_its_threads_would_say(params: Estimator) -> None:
    bank, runs = params.start_bank(NUM), [SingleThread(params) for _ in range(NUM)]
    thresholds = np.geomspace(0.01, 1.0, NUM)
    for samples, loss, fresh in rounds(1):
        bank.observe(samples, loss, fresh)
        needs = bank.needs(thresholds)
        for k, run in enumerate(runs):
            if fresh[k]:
                run.observe(float(samples[k]), float(loss[k]))
            need = run.need(float(thresholds[k]))
            assert (needs.batches[k], needs.low[k], needs.high[k]) == (
                need.batches,
                need.low,
                need.high,
            )


@pytest.mark.parametrize("params", [Wls(), M4(1), Mixture()])
def test_a_bank_hears_of_new_thresholds(params: Estimator) -> None:
    bank = params.start_bank(NUM)
    for samples, loss, fresh in rounds(2):
        bank.observe(samples, np.abs(loss) + 1e-3, fresh)
    easy = bank.needs(np.full(NUM, 0.05)).batches.copy()
    hard = bank.needs(np.full(NUM, 0.02)).batches.copy()
    assert (hard >= easy).all()
    assert (hard > easy).any()


def test_kernels_as_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def needs() -> list[list[float]]:
        said = []
        for params in (Wls(), Mixture(), M4(1)):
            bank = params.start_bank(NUM)
            for samples, loss, fresh in rounds(3, 10):
                bank.observe(samples, loss, fresh)
            said += [part.tolist() for part in bank.needs(np.full(NUM, 0.02))]
        return said

    compiled = needs()
    for module in (wls, mixture, m4):
        for name, value in vars(module).copy().items():
            plain: Callable[..., Any] | None = getattr(value, "py_func", None)
            if plain is not None:
                monkeypatch.setattr(module, name, plain)
    for one, other in zip(compiled, needs(), strict=True):
        assert np.allclose(one, other, rtol=1e-9)
