"""Cost model of a pass over n tokens, t = a + b n: its fit, its budget, and its margin of error."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from auctune.device_profile import Mix, SweepPoint

GOOD_SPEED = 0.9
LARGEST_MARGIN = 0.9
MARGIN_QUANTILE = 0.95
NOISE_RATIO = 2.0


def fit_line(sweep: Sequence[SweepPoint]) -> tuple[float, float]:
    """Return a >= 0 and b > 0 of seconds = a + b tokens, with the least relative squares."""
    tokens = np.array([point.tokens for point in sweep], dtype=float)
    seconds = np.array([point.seconds for point in sweep])
    lines = np.stack([np.ones_like(tokens), tokens], axis=1) / seconds[:, None]
    (a, b), *_ = np.linalg.lstsq(lines, np.ones_like(seconds))
    if b <= 0:
        # The overhead dominates: attribute all of the time to tokens.
        return 0.0, float(np.mean(seconds / tokens))
    if a < 0:
        ratios = tokens / seconds
        return 0.0, float(ratios.sum() / (ratios**2).sum())
    return float(a), float(b)


def choose_budget(sweep: Sequence[SweepPoint]) -> int:
    """Return the fewest tokens of a pass at which the device is near its best speed."""
    best = max(point.tokens / point.seconds for point in sweep)
    return min(point.tokens for point in sweep if point.tokens / point.seconds >= GOOD_SPEED * best)


def margin_of(mixes: Sequence[Mix]) -> float:
    """Return the share by which mixes fall short of their predicted speed, at the 95% quantile.

    Of 20 mixes one may be slower: a momentary load is not a property of the
    device. Of fewer, the slowest one counts.
    """
    shares = [1 - mix.predicted_seconds / mix.measured_seconds for mix in mixes]
    if not shares:
        return 0.0
    quantile = float(np.quantile(shares, MARGIN_QUANTILE, method="inverted_cdf"))
    return min(LARGEST_MARGIN, max(0.0, quantile))


def predict(tokens: int, budget: int, a: float, b: float) -> float:
    """Return the seconds of a round of `tokens` tokens, in passes of `budget` tokens at most."""
    return a * math.ceil(tokens / budget) + b * tokens


def is_noisy(mixes: Sequence[Mix]) -> bool:
    """Return whether all mixes ran in less than half of their predicted time.

    Then something else used the device during the sweep. A margin covers the opposite error only;
    this one would leave most of a node unsold.
    """
    return bool(mixes) and all(
        mix.predicted_seconds > NOISE_RATIO * mix.measured_seconds for mix in mixes
    )


def elementwise_min(first: Sequence[SweepPoint], again: Sequence[SweepPoint]) -> list[SweepPoint]:
    """Return the faster time of each pass of two sweeps."""
    pairs = zip(first, again, strict=False)
    return [min(pair, key=lambda point: point.seconds) for pair in pairs]


def predict_mixes(mixes: Sequence[Mix], budget: int, a: float, b: float) -> list[Mix]:
    """Return mixes with the predictions of another line."""
    return [replace(mix, predicted_seconds=predict(mix.tokens, budget, a, b)) for mix in mixes]
