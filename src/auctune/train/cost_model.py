"""Cost model of a pass over n tokens, t = a + b n: its fit, its budget, and its margin of error."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from auctune.device_profile import LARGE_MARGIN, Mix, SweepPoint

GOOD_SPEED = 0.9
LARGEST_MARGIN = 0.9
# Of speed, by a doubling of the tokens of a pass, below which a device has no more to give.
GAIN = 1.05
MARGIN_QUANTILE = 0.9
NOISE_RATIO = 2.0
# Of the time of passes on a device that nothing else uses.
BUSY_RATIO = 1.25
# Of the time of a pass, by which the line may be wrong before small passes are left out.
LINE_ERROR = 0.2
FEWEST_POINTS = 3
# Of the time of the largest pass, put down to its tokens where the sweep shows no slope.
FLAT_SHARE = 0.1


def fit_line(sweep: Sequence[SweepPoint]) -> tuple[float, float]:
    """Return a >= 0 and b > 0 of seconds = a + b tokens, with the least relative squares.

    Small passes of a GPU take as long as the launches of their kernels, whatever their tokens, and
    a line through all would promise too much or too little. The smallest are left out until the
    line is near all others, or three remain.

    Args:
        sweep: by tokens, ascending.
    """
    a, b = _least_squares(sweep)
    while len(sweep) > FEWEST_POINTS and any(
        abs(a + b * point.tokens - point.seconds) > LINE_ERROR * point.seconds for point in sweep
    ):
        sweep = sweep[1:]
        a, b = _least_squares(sweep)
    return a, b


def _least_squares(sweep: Sequence[SweepPoint]) -> tuple[float, float]:
    tokens = np.array([point.tokens for point in sweep], dtype=float)
    seconds = np.array([point.seconds for point in sweep])
    lines = np.stack([np.ones_like(tokens), tokens], axis=1) / seconds[:, None]
    (a, b), *_ = np.linalg.lstsq(lines, np.ones_like(seconds))
    if b <= 0:
        # All passes take as long as the largest, which tells the speed of full passes.
        return (1 - FLAT_SHARE) * float(seconds[-1]), FLAT_SHARE * float(seconds[-1] / tokens[-1])
    if a < 0:
        ratios = tokens / seconds
        return 0.0, float(ratios.sum() / (ratios**2).sum())
    return float(a), float(b)


def choose_budget(sweep: Sequence[SweepPoint]) -> int:
    """Return the fewest tokens of a pass at which the device is near its best speed."""
    best = max(point.tokens / point.seconds for point in sweep)
    return min(point.tokens for point in sweep if point.tokens / point.seconds >= GOOD_SPEED * best)


def is_saturated(sweep: Sequence[SweepPoint]) -> bool:
    """Return whether the last pass of a sweep was hardly faster, by the token, than the one before.

    Two points do not tell: the first pass is one row.
    """
    if len(sweep) <= FEWEST_POINTS:
        return False
    before, last = (point.tokens / point.seconds for point in sweep[-2:])
    return last < GAIN * before


def margin_of(mixes: Sequence[Mix]) -> float:
    """Return the share by which mixes fall short of their predicted speed, at the 90% quantile.

    Of ten mixes one may be slower: a momentary load is not a property of the device. Of fewer, the
    slowest one counts.
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


def is_disturbed(mixes: Sequence[Mix]) -> bool:
    """Return whether mixes ran so much slower or faster than predicted that it may be by chance."""
    return margin_of(mixes) > LARGE_MARGIN or is_noisy(mixes)


def is_slower(best: Sequence[SweepPoint], again: Sequence[SweepPoint]) -> bool:
    """Return whether passes take longer now than they did at best: something else is at work."""
    pairs = zip(best, again, strict=False)
    return statistics.median(now.seconds / then.seconds for then, now in pairs) > BUSY_RATIO


def fastest_mixes(first: Sequence[Mix], again: Sequence[Mix]) -> list[Mix]:
    """Return the faster time of each of the same mixes; the shorter list lacks the last ones."""
    pairs = itertools.zip_longest(first, again)
    return [
        min((one for one in pair if one is not None), key=lambda mix: mix.measured_seconds)
        for pair in pairs
    ]


def elementwise_min(first: Sequence[SweepPoint], again: Sequence[SweepPoint]) -> list[SweepPoint]:
    """Return the faster time of each pass of two sweeps."""
    pairs = zip(first, again, strict=False)
    return [min(pair, key=lambda point: point.seconds) for pair in pairs]


def predict_mixes(mixes: Sequence[Mix], budget: int, a: float, b: float) -> list[Mix]:
    """Return mixes with the predictions of another line."""
    return [replace(mix, predicted_seconds=predict(mix.tokens, budget, a, b)) for mix in mixes]
