"""Cost model of a round of optimizer steps: its fit, its budget, and its margin of error.

    t = a passes + b tokens + c adapters + d sum tokens_i parameters_i + q sum row_tokens_j^2

`auctune.files.device_profile` says what the terms are. All are found at once, by non-negative least
squares of the relative errors, from passes of one adapter and from mixed loads. The error of a
mixed load is that of a fit without it: of ten, nine predict the tenth. Were a half held out, five
would have to tell five terms, and the margin would be a quantile of five errors.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np
from scipy.optimize import nnls

from auctune.files.device_profile import Mix, SweepPoint

GOOD_SPEED = 0.9
MAX_MARGIN = 0.9
# Of speed, by a doubling of the tokens of a pass, below which a device has no more to give.
GAIN = 1.05
MARGIN_QUANTILE = 0.9
# Of the time of passes on a device that nothing else uses.
BUSY_RATIO = 1.25
# Fewer of them do not tell the terms apart.
MIN_MIXED_ROUNDS = 5
# Of the time of a pass, by which the line may be wrong before small passes are left out.
LINE_ERROR = 0.2
MIN_POINTS = 3
# Of the time of the largest pass, put down to its tokens where the sweep shows no slope.
FLAT_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Round:
    """A round of optimizer steps of adapters that are trained together: a step of each.

    Attributes:
        passes: that its tokens take.
        tokens: of all rows.
        adapters: how many.
        token_parameters: sum over the adapters of their tokens times their parameters.
        square_tokens: sum of the squares of the rows' tokens.
    """

    passes: int
    tokens: int
    adapters: int
    token_parameters: float
    square_tokens: float


@dataclass(frozen=True, slots=True)
class RoundCost:
    """Seconds of each term of a round, all >= 0: a, b, c, d and q, in the order of `Round`."""

    step_seconds: float
    token_seconds: float
    adapter_seconds: float = 0.0
    parameter_seconds: float = 0.0
    square_seconds: float = 0.0

    def seconds(self, of: Round) -> float:
        """Return the predicted seconds of a round."""
        return float(np.dot(astuple(self), astuple(of)))


@dataclass(frozen=True, slots=True)
class TimedRound:
    """A round and its time.

    Attributes:
        seconds: of the round.
        pass_seconds: of a pass of the sweep next to a mixed load; 0 if none was timed.
    """

    round: Round
    seconds: float
    pass_seconds: float = 0.0

    def at_speed_of(self, pass_seconds: float) -> "TimedRound":
        """Return the round as it would be if the pass next to it had taken so many seconds."""
        faster = max(1.0, self.pass_seconds / pass_seconds)
        return replace(self, seconds=self.seconds / faster, pass_seconds=pass_seconds)


def fit_rounds(passes: Sequence[TimedRound], mixed: Sequence[TimedRound]) -> RoundCost:
    """Return the cost of rounds by which the relative errors of all are least.

    Args:
        passes: of one adapter each, by tokens, ascending.
        mixed: of several adapters; with fewer than `MIN_MIXED_ROUNDS` only a and b are known.
    """
    sweep = [SweepPoint(one.round.tokens, one.seconds) for one in passes]
    kept = passes[len(sweep) - len(steady(sweep)) :]
    if len(mixed) < MIN_MIXED_ROUNDS:
        return RoundCost(*fit_line(sweep))
    rounds = [*kept, *mixed]
    terms = np.array([astuple(one.round) for one in rounds])
    seconds = np.array([one.seconds for one in rounds])
    # What takes no time by the token would be sold for nothing.
    min_token_seconds = FLAT_SHARE * min(one.seconds / one.round.tokens for one in rounds)
    remaining = np.maximum(0.0, 1 - min_token_seconds * terms[:, 1] / seconds)
    relative = terms / seconds[:, None]
    scale = np.linalg.norm(relative, axis=0)
    scale[scale == 0] = 1.0
    found = nnls(relative / scale, remaining)[0] / scale
    found[1] += min_token_seconds
    return RoundCost(*map(float, found))


def predict_left_out(passes: Sequence[TimedRound], mixed: Sequence[TimedRound]) -> list[Mix]:
    """Return mixed loads as measured, and as predicted by a fit to all passes and all others."""
    mixes = []
    for index, one in enumerate(mixed):
        cost = fit_rounds(passes, [*mixed[:index], *mixed[index + 1 :]])
        predicted = cost.seconds(one.round)
        mixes.append(Mix(one.round.adapters, one.round.tokens, predicted, one.seconds))
    return mixes


def fit_line(sweep: Sequence[SweepPoint]) -> tuple[float, float]:
    """Return a >= 0 and b > 0 of seconds = a + b tokens, with the least relative squares.

    Args:
        sweep: by tokens, ascending; of it `steady` passes count.
    """
    return _least_squares(steady(sweep))


def steady(sweep: Sequence[SweepPoint]) -> Sequence[SweepPoint]:
    """Return the largest passes, whose time is near a line.

    Small passes of a GPU take as long as the launches of their kernels, whatever their tokens, and
    a line through all would promise too much or too little. The smallest are left out until the
    line is near all others, or three remain.
    """
    a, b = _least_squares(sweep)
    while len(sweep) > MIN_POINTS and any(
        abs(a + b * point.tokens - point.seconds) > LINE_ERROR * point.seconds for point in sweep
    ):
        sweep = sweep[1:]
        a, b = _least_squares(sweep)
    return sweep


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
    if len(sweep) <= MIN_POINTS:
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
    return min(MAX_MARGIN, max(0.0, quantile))


def predict(tokens: int, budget: int, a: float, b: float) -> float:
    """Return the seconds of a round of `tokens` tokens, in passes of `budget` tokens at most."""
    return a * math.ceil(tokens / budget) + b * tokens


def is_slower(mixed: Sequence[TimedRound], pass_seconds: float) -> bool:
    """Return whether passes next to most mixed loads took longer than in the sweep.

    Then something else is at work.

    Args:
        mixed: as timed.
        pass_seconds: of such a pass in the sweep.
    """
    return bool(mixed) and _median_pass(mixed) > BUSY_RATIO * pass_seconds


def is_faster(mixed: Sequence[TimedRound], pass_seconds: float) -> bool:
    """Return whether passes next to most mixed loads took less time than in the sweep.

    Then something else was at work during the sweep. A margin covers the opposite error only; this
    one would leave much of a node unsold. Arguments as of `is_slower`.
    """
    return bool(mixed) and BUSY_RATIO * _median_pass(mixed) < pass_seconds


def _median_pass(mixed: Sequence[TimedRound]) -> float:
    return statistics.median(one.pass_seconds for one in mixed)


def elementwise_min(first: Sequence[SweepPoint], again: Sequence[SweepPoint]) -> list[SweepPoint]:
    """Return the faster time of each pass of two sweeps."""
    pairs = zip(first, again, strict=False)
    return [min(pair, key=lambda point: point.seconds) for pair in pairs]


def fastest_rounds(first: Sequence[TimedRound], again: Sequence[TimedRound]) -> list[TimedRound]:
    """Return the faster time of each of the same rounds; the shorter list lacks the last ones."""
    pairs = itertools.zip_longest(first, again)
    return [
        min((one for one in pair if one is not None), key=lambda load: load.seconds)
        for pair in pairs
    ]
