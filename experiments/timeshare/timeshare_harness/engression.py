"""Engression: the whole distribution of the next losses, by a network that carries on outside data.

Shen and Meinshausen, "Engression: extrapolation through the lens of distributional regression"
(2023), in the authors' package of that name. Fitted is ln l = g(ln s + noise) with a network g, by
the energy loss. The need is where the median of ln l over ln s first comes to the threshold, its
deciles where the outer deciles of ln l do.

A fit takes a second or so, a hundred thousand times what least squares takes; so one is kept until
`growth` more units of time were seen. It is for curves that are compared at leisure, not for units
of a second.
"""

import math
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_count, check_finite, check_positive
from auctune.extras import install_command
from auctune.numerics.arrays import Floats
from auctune.numerics.rng import stream
from auctune.timeshare.estimators.estimator import (
    HIGH_LEVEL,
    LOW_LEVEL,
    EstimatorLoop,
    Need,
    crossing_point,
    first_need,
)

# Units of time before anything is fitted.
_FEWEST = 8
# What is looked ahead: so many points up to so many times the batches seen.
_POINTS, _FARTHEST = 64, 1000.0
# Draws of ln l at each point.
_DRAWS = 200


@dataclass(frozen=True, slots=True)
class Engression:
    """Engression: the network and the epochs of the package, the learning rate of its examples.

    Attributes:
        learning_rate: of Adam, > 0. With the package's 0.0001 a fit of so few points is not done
            after 500 epochs, and hardly any threshold within reach.
        epochs: over all units seen.
        growth: a fit is made anew when the units seen have grown by this part of them.
        seed: of weights and noise.

    Raises:
        InputError: if the package is not installed.
    """

    learning_rate: float = 1e-2
    epochs: int = 500
    growth: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive(self.learning_rate, "learning_rate", "a number > 0")
        check_count(self.epochs, "epochs", 1)
        check_finite(self.growth, "growth", "a number >= 0")
        check_count(self.seed, "seed", 0)
        for package in ("torch", "engression"):
            if find_spec(package) is None:
                found = f"'engression' needs the package {package}, which is not installed"
                raise InputError("estimator", found, install_command("train", "experiments"))

    @property
    def name(self) -> str:
        """The authors'."""
        return "engression"

    def start_bank(self, num_threads: int) -> EstimatorLoop:
        """For many."""
        return EstimatorLoop([EngressionRun(self) for _ in range(num_threads)])


class EngressionRun:
    """Engression at work on one thread."""

    def __init__(self, params: Engression) -> None:
        self._params = params
        self._points: list[tuple[float, float]] = []
        self._last = 0.0, 0.0
        self._fitted = 0
        # Of the last fit: [p] ln s ahead, and [3, p] deciles and median of ln l.
        self._ahead, self._levels = np.empty(0), np.empty((3, 0))

    def observe(self, samples: float, loss: float) -> None:
        """Learn from a unit of time."""
        self._last = samples, loss
        if 0.0 < loss < math.inf:
            self._points.append((math.log(samples), math.log(loss)))

    def need(self, threshold: float) -> Need:
        """Batches until the loss is at or under a threshold."""
        samples, loss = self._last
        seen = first_need(samples, loss, threshold)
        if seen is not None:
            return seen
        if len(self._points) < _FEWEST:
            return Need(math.inf, 1.0, math.inf)
        if not self._fitted or len(self._points) > self._fitted * (1.0 + self._params.growth):
            self._fit()
        level = math.log(threshold)
        low, batches, high = (
            crossing_point(crossing(self._ahead, curve, level), samples) for curve in self._levels
        )
        return Need(batches, low, high)

    def _fit(self) -> None:
        self._fitted = len(self._points)
        x, y = np.array(self._points).T
        self._ahead = x[-1] + np.linspace(0.0, math.log(_FARTHEST), _POINTS)
        seed = int(stream(self._params.seed, "engression", self._fitted).integers(2**31))
        draws = draw_ahead(x, y, self._ahead, self._params, seed)
        self._levels = np.quantile(draws, [LOW_LEVEL, 0.5, HIGH_LEVEL], axis=1)


def draw_ahead(x: Floats, y: Floats, ahead: Floats, params: Engression, seed: int) -> Floats:
    """Fit the network, and draw from it.

    Args:
        x, y: [i] to fit.
        ahead: [p] at which to draw.
        params: of the fit.
        seed: of weights, training and draws; torch's generator is as it was afterwards.

    Returns:
        [p, draws] of y.
    """
    # These take seconds to import, and are not there without the extras.
    import torch
    from engression import engression

    def column(values: Floats) -> torch.Tensor:
        return torch.from_numpy(values.astype(np.float32))[:, None]

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fitted = engression(
            column(x), column(y), lr=params.learning_rate, num_epochs=params.epochs, verbose=False
        )
        draws = fitted.sample(column(ahead), sample_size=_DRAWS)
    drawn: Floats = draws.reshape(len(ahead), _DRAWS).double().numpy()
    return drawn


def crossing(ahead: Floats, curve: Floats, level: float) -> float:
    """Where a curve, straight between its points, first comes to a level; infinite for never."""
    under = np.flatnonzero(curve <= level)
    if not len(under):
        return math.inf
    at = int(under[0])
    if at == 0:
        return float(ahead[0])
    part = (curve[at - 1] - level) / (curve[at - 1] - curve[at])
    return float(ahead[at - 1] + part * (ahead[at] - ahead[at - 1]))
