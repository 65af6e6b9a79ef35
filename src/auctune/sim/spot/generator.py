"""Synthetic spot markets: a generator, its fit to traces, and the V100 market."""

import cmath
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls
from scipy.special import ndtri

from auctune.domain import InputError
from auctune.domain.checks import check_count, check_finite, check_positive
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.goodness_of_fit import autocorrelation
from auctune.numerics.rng import stream
from auctune.spot.market import SpotMarket

# Made-up spot markets: counts that sit at none or at all, prices that wander above a floor.
#
# Both are read off a stationary Gaussian process Z(t), mean 0 and variance 1 beside its daily
# cycle a cos(2 pi (t - peak) / day).
#
# Counts: Z is a sum of waves, independent mean-reverting processes of different lengths with
# correlations exp(-u / length). With q0 = Phi^-1(empty) and q1 = Phi^-1(1 - full),
#
# A = 0 where Z < q0, the cap where Z >= q1, and in between 1..cap - 1, evenly by Z.
#
# While the long waves keep Z near a threshold, the short ones make bursts of quick change; far
# from it nothing happens for days.
#
# Prices: Z reverts to its mean in `reversion`, and follows what drives it only after `smoothing`,
# so that a rise goes on for a while:
#
# corr(u) = (r exp(-u / r) - s exp(-u / s)) / (r - s).
#
# A price is max(floor, mean + deviation Z), looked at anew at random moments and held in between.
# Counts and prices are independent: the records say nothing of them together.


DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class DailyCycle:
    """What the hour adds to Z.

    Attributes:
        amplitude: in standard deviations of the rest of Z.
        peak_seconds: after the market's beginning, when Z is highest.
    """

    amplitude: float = 0.0
    peak_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_finite(self.amplitude, "amplitude", "a number >= 0")

    def by_slot(self, num_slots: int, slot_seconds: float) -> Floats:
        """[t] at each slot's beginning."""
        turns = (slot_seconds * np.arange(num_slots) - self.peak_seconds) / DAY_SECONDS
        return np.asarray(self.amplitude * np.cos(2 * np.pi * turns))


@dataclass(frozen=True, slots=True)
class Wave:
    """A mean-reverting part of Z.

    Attributes:
        seconds: its length; after it, its correlation with itself is 1/e.
        share: of Z's variance.
    """

    seconds: float
    share: float

    def __post_init__(self) -> None:
        check_positive(self.seconds, "seconds", "a number > 0")
        check_finite(self.share, "share", "a share >= 0")


@dataclass(frozen=True, slots=True)
class CountParams:
    """The law of the counts.

    Attributes:
        cap: the most there can be.
        empty: share of time with none, over the days.
        full: share of time with the cap.
        waves: whose shares sum to 1.
        daily: the cycle.
    """

    cap: int
    empty: float
    full: float
    waves: tuple[Wave, ...]
    daily: DailyCycle = DailyCycle()

    def __post_init__(self) -> None:
        check_count(self.cap, "cap", 1)
        for name in ("empty", "full"):
            if not 0 < getattr(self, name) < 1:
                raise InputError(name, f"{getattr(self, name)!r}", "a share within 0 and 1")
        if self.empty + self.full > 1:
            raise InputError("full", f"{self.full!r}", f"at most 1 - empty = {1 - self.empty:g}")
        total = sum(wave.share for wave in self.waves)
        if not math.isclose(total, 1.0, abs_tol=1e-9):
            raise InputError("waves", f"shares that sum to {total:g}", "shares that sum to 1")


@dataclass(frozen=True, slots=True)
class PriceParams:
    """The law of the prices, in units of the on-demand price.

    Attributes:
        floor: the least price.
        mean, deviation: of the price without its floor.
        reversion_seconds: r.
        smoothing_seconds: s < r.
        changes_per_day: moments a day at which it is looked at anew.
        daily: the cycle.
    """

    floor: float
    mean: float
    deviation: float
    reversion_seconds: float
    smoothing_seconds: float
    changes_per_day: float
    daily: DailyCycle = DailyCycle()

    def __post_init__(self) -> None:
        check_finite(self.floor, "floor", "a price >= 0")
        check_finite(self.deviation, "deviation", "a number >= 0")
        if not math.isfinite(self.mean):
            raise InputError("mean", f"{self.mean!r}", "a price")
        check_positive(self.smoothing_seconds, "smoothing_seconds", "a number > 0")
        if not self.smoothing_seconds < self.reversion_seconds < math.inf:
            raise InputError(
                "reversion_seconds", f"{self.reversion_seconds!r}", "more than smoothing_seconds"
            )
        check_positive(self.changes_per_day, "changes_per_day", "a number > 0")


@dataclass(frozen=True, slots=True)
class MarketGenerator:
    """A market as made up as one likes.

    Attributes:
        counts: their law.
        prices: their law.
        slot_seconds: length of a slot.
    """

    counts: CountParams
    prices: PriceParams
    slot_seconds: float = 1800.0

    def market(self, num_slots: int, seed: int) -> SpotMarket:
        """Return a market of the seed's; a shorter one is the beginning of a longer one."""
        return SpotMarket(
            generate_prices(self.prices, num_slots, seed, self.slot_seconds),
            generate_counts(self.counts, num_slots, seed, self.slot_seconds),
            slot_seconds=self.slot_seconds,
        )


def generate_counts(params: CountParams, num_slots: int, seed: int, slot_seconds: float) -> Ints:
    """[t] instances in each slot."""
    z = np.zeros(num_slots)
    for index, wave in enumerate(params.waves):
        noise = stream(seed, "counts", index).standard_normal(num_slots)
        z += math.sqrt(wave.share) * _reverting(noise, math.exp(-slot_seconds / wave.seconds))
    z += params.daily.by_slot(num_slots, slot_seconds)
    # The cycle widens Z; thresholds are those of its law over the days, taken as Gaussian.
    z /= math.sqrt(1.0 + params.daily.amplitude**2 / 2)
    lower, upper = ndtri(params.empty), ndtri(1.0 - params.full)
    if params.cap == 1 or lower == upper:
        return np.where(z < lower, 0, params.cap).astype(np.int64)
    between = 1 + np.floor((params.cap - 1) * (z - lower) / (upper - lower))
    between = np.clip(between, 1, params.cap - 1)
    return np.where(z < lower, 0, np.where(z >= upper, params.cap, between)).astype(np.int64)


def generate_prices(params: PriceParams, num_slots: int, seed: int, slot_seconds: float) -> Floats:
    """[t] the price in each slot."""
    random = stream(seed, "prices")
    slow = math.exp(-slot_seconds / params.reversion_seconds)
    quick = math.exp(-slot_seconds / params.smoothing_seconds)
    z = _smoothed(random.standard_normal(num_slots + 1), slow, quick)
    z += params.daily.by_slot(num_slots, slot_seconds)
    rate = params.changes_per_day * slot_seconds / DAY_SECONDS
    looked = stream(seed, "looked").random(num_slots) < -math.expm1(-rate)
    looked[:1] = True
    last = np.maximum.accumulate(np.where(looked, np.arange(num_slots), 0))
    return np.asarray(np.maximum(params.floor, params.mean + params.deviation * z[last]))


def _reverting(noise: Floats, keep: float) -> Floats:
    """[t] x_t = keep x_{t-1} + sqrt(1 - keep^2) noise_t, of variance 1 from the beginning on."""
    scaled = math.sqrt(1.0 - keep * keep) * noise
    scaled[:1] = noise[:1]
    return _filtered(scaled, keep)


def _filtered(driven: Floats, keep: float) -> Floats:
    """[t] x_t = keep x_{t-1} + driven_t."""
    # Loaded here: its package takes a tenth of the time in which a service is imported.
    from scipy.signal import lfilter

    return np.asarray(lfilter([1.0], [1.0, -keep], driven))


def _smoothed(noise: Floats, slow: float, quick: float) -> Floats:
    """[t] x_t = (slow + quick) x_{t-1} - slow quick x_{t-2} + noise_t, scaled to variance 1.

    x_t is (slow u_t - quick v_t) / (slow - quick), where u and v revert at `slow` and `quick` and
    share their noise; their first values are drawn from their common law. noise: [t + 1].
    """
    var_u, var_v, both = 1 / (1 - slow**2), 1 / (1 - quick**2), 1 / (1 - slow * quick)
    u0 = math.sqrt(var_u) * noise[0]
    v0 = both / var_u * u0 + math.sqrt(var_v - both * both / var_u) * noise[1:2]
    driven = noise[1:].copy()
    driven[:1] = 0.0
    first = np.zeros(len(driven))
    first[:1] = u0
    u = _filtered(driven + first, slow)
    first[:1] = v0
    v = _filtered(driven + first, quick)
    gain = (1 + slow * quick) / ((1 - slow**2) * (1 - quick**2) * (1 - slow * quick))
    return np.asarray((slow * u - quick * v) / (slow - quick) / math.sqrt(gain))


# Reading the laws of made-up markets off records, by the method of moments.
#
# Counts: `empty` and `full` are shares of slots. c(u), the autocorrelation of whether there is any
# GPU, is put back to Z's: for a Gaussian pair of correlation r and a threshold q,
#
# cov(r) = integral from 0 to r of exp(-q^2 / (1 + x)) / (2 pi sqrt(1 - x^2)) dx,
#
# inverted on a grid. The waves' shares are the non-negative least squares fit to it at lags of
# half an hour to three days, on a ladder of lengths, with r(0) = 1 held, each lag weighed by how
# much c moves with r.
#
# About its own mean a short record shows less correlation than there is: (c - m) / (1 - m), where
# m is the variance of a record's mean, in that of a slot. m follows from the law that is looked
# for, so that the waves are fitted over and over until it is their own.
#
# Prices: with a share f of slots at the floor F, z = Phi^-1(f) and mean price m, the deviation is
# s = (m - F) / (phi(z) - z (1 - f)) and the mean F - s z; without a floor they are the record's
# own. r and s are the pair on a grid whose log(1 - corr(u)) comes nearest to the record's, from
# half a day to three days: half the mean square change over u, in the variance of all records
# together.
#
# The daily cycle is the first harmonic of the day, by least squares. Over a few weeks it is mostly
# chance; a cycle is kept only if its amplitude is more than twice that of the harmonics beside it.

LENGTHS = (900.0, 3600.0, 14_400.0, 43_200.0, 129_600.0, 345_600.0)
REVERSIONS = tuple(DAY_SECONDS * days for days in (1, 2, 3, 5, 7, 10, 14, 20, 30))
SMOOTHINGS = tuple(DAY_SECONDS * days for days in (0.02, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 3))

_MOST_LAG_SECONDS = 3 * DAY_SECONDS
# Of the condition that the shares sum to 1, beside the lags' own.
_HELD = 100.0
_AT_FLOOR = 1e-9
_ROUNDS = 20

Correlation = Callable[[Ints], Floats]
"""By lags in slots."""


def fit_counts(series: Sequence[Ints], cap: int, slot_seconds: float) -> CountParams:
    """Return the law of counts of some records, each of two days at least.

    Raises:
        InputError: if a record is too short, or there is always or never a GPU.
    """
    _check_long(series, slot_seconds)
    every = np.concatenate(series)
    empty, full = float((every == 0).mean()), float((every == cap).mean())
    if empty == 0 or full == 0:
        found = f"{empty:g} of the slots have none and {full:g} all {cap}"
        raise InputError("available", found, "some of either kind")
    present = [np.asarray(counts > 0, dtype=np.float64) for counts in series]
    lags = _lags(min(map(len, series)), slot_seconds)
    threshold = float(ndtri(empty))
    seen = autocorrelation(present, lags)
    num_slots = [len(counts) for counts in series]
    waves = _fit_waves(seen, lags, threshold, num_slots, slot_seconds)
    density = math.exp(-(threshold**2) / 2) / math.sqrt(2 * math.pi)
    return CountParams(cap, empty, full, waves, _daily(present, slot_seconds, density))


def fit_prices(series: Sequence[Floats], slot_seconds: float) -> PriceParams:
    """Return the law of prices of some records, each of two days at least.

    Raises:
        InputError: if a record is too short, or no price ever changes.
    """
    _check_long(series, slot_seconds)
    every = np.concatenate(series)
    if every.min() == every.max():
        raise InputError("price", f"is {every[0]:g} throughout", "one that changes")
    floor = float(every.min())
    mean, deviation = _without_floor(every, floor)
    lags = _lags(min(map(len, series)), slot_seconds)
    # Within half a day a price that is held tells of the looks at it, not of what drives it.
    lags = lags[lags * slot_seconds >= DAY_SECONDS / 2]
    moved = mean_square_change(series, lags) / (2 * float(every.var()))
    reversion, smoothing = _fit_reversion(moved, lags, slot_seconds)
    changed = float(np.mean(np.concatenate([np.diff(price) != 0 for price in series])))
    # At the floor a look changes nothing.
    moving = max(1.0 - float((every <= floor + _AT_FLOOR).mean()), 1e-3)
    chance = min(changed / moving, 0.999)
    return PriceParams(
        floor=floor,
        mean=mean,
        deviation=deviation,
        reversion_seconds=reversion,
        smoothing_seconds=smoothing,
        changes_per_day=-math.log1p(-chance) * DAY_SECONDS / slot_seconds,
        daily=_daily(series, slot_seconds, deviation),
    )


def mean_square_change(series: Sequence[Floats], lags: Ints) -> Floats:
    """[k] of the change over each lag, each pair of slots with the same weight."""
    changes = [
        np.concatenate([values[lag:] - values[: len(values) - lag] for values in series])
        for lag in lags.tolist()
    ]
    return np.array([float(np.square(change).mean()) for change in changes])


def latent_correlation(correlation: Floats, threshold: float) -> Floats:
    """Return the correlation of Gaussian pairs, from that of whether they are above a threshold."""
    angle, of_angle = _seen_by_angle(threshold)
    return np.asarray(np.interp(np.maximum(correlation, 0.0), of_angle, np.sin(angle)))


def seen_correlation(latent: Floats, threshold: float) -> Floats:
    """Return the correlation of whether Gaussian pairs are above a threshold, from theirs."""
    angle, of_angle = _seen_by_angle(threshold)
    return np.asarray(np.interp(np.arcsin(np.clip(latent, 0.0, 1.0)), angle, of_angle))


def _seen_by_angle(threshold: float) -> tuple[Floats, Floats]:
    """Angles whose sine is r, on which the integral is smooth, and c."""
    angle = np.linspace(0.0, np.pi / 2, 2001)
    slope = np.exp(-(threshold**2) / (1 + np.sin(angle))) / (2 * np.pi)
    area = np.concatenate([[0.0], np.cumsum((slope[1:] + slope[:-1]) / 2 * np.diff(angle))])
    return angle, np.asarray(area / area[-1])


def smoothed_correlation(
    lags: Ints, slot_seconds: float, reversion: float, smoothing: float
) -> Floats:
    """corr(u) of a price."""
    seconds = slot_seconds * lags
    slow = reversion * np.exp(-seconds / reversion)
    quick = smoothing * np.exp(-seconds / smoothing)
    return np.asarray((slow - quick) / (reversion - smoothing))


def _check_long(series: Sequence[Floats] | Sequence[Ints], slot_seconds: float) -> None:
    for index, values in enumerate(series):
        if len(values) * slot_seconds < 2 * DAY_SECONDS:
            days = len(values) * slot_seconds / DAY_SECONDS
            raise InputError(f"series[{index}]", f"lasts {days:.2g} days", "two at least")


def _lags(num_slots: int, slot_seconds: float) -> Ints:
    """Evenly by their logarithm, up to three days or half of what there is."""
    most = min(int(_MOST_LAG_SECONDS / slot_seconds), num_slots // 2)
    return np.unique(np.round(np.geomspace(1, most, 24)).astype(np.int64))


def _fit_waves(
    found: Floats, lags: Ints, threshold: float, num_slots: Sequence[int], slot_seconds: float
) -> tuple[Wave, ...]:
    terms = np.exp(-slot_seconds * lags[:, None] / np.array(LENGTHS))
    shares, lost = np.zeros(len(LENGTHS)), 0.0
    for _ in range(_ROUNDS):
        latent = latent_correlation((1 - lost) * found + lost, threshold)
        # dc/dr, to a factor.
        weight = np.exp(-(threshold**2) / (1 + latent)) / np.sqrt(1 - latent**2 + 1e-9)
        held = np.full((1, len(LENGTHS)), _HELD * weight.max())
        rows = np.vstack([weight[:, None] * terms, held])
        shares, _ = nnls(rows, np.append(weight * latent, held[0, 0]))
        shares /= shares.sum()
        lost = _variance_of_mean(_waved(shares, threshold, slot_seconds), num_slots)
    return tuple(
        Wave(length, share)
        for length, share in zip(LENGTHS, shares.tolist(), strict=True)
        if share > 0
    )


def _waved(shares: Floats, threshold: float, slot_seconds: float) -> Correlation:
    def of_lags(lags: Ints) -> Floats:
        latent = np.exp(-slot_seconds * lags[:, None] / np.array(LENGTHS)) @ shares
        return seen_correlation(latent, threshold)

    return of_lags


def _variance_of_mean(correlation: Correlation, num_slots: Sequence[int]) -> float:
    """m: of a record's mean, in the variance of a slot; the mean over records."""
    found = []
    for n in num_slots:
        lags = np.arange(1, n)
        found.append((n + 2 * float(((n - lags) * correlation(lags)).sum())) / n**2)
    return sum(found) / len(found)


def _without_floor(every: Floats, floor: float) -> tuple[float, float]:
    """Mean and deviation of the price without its floor."""
    mean = float(every.mean())
    share = float((every <= floor + _AT_FLOOR).mean())
    z = float(ndtri(share))
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    deviation = (mean - floor) / (density - z * (1 - share))
    if share < 0.01:
        return mean, float(every.std())
    return floor - deviation * z, deviation


def _fit_reversion(moved: Floats, lags: Ints, slot_seconds: float) -> tuple[float, float]:
    def distance(pair: tuple[float, float]) -> float:
        expected = 1 - smoothed_correlation(lags, slot_seconds, *pair)
        return float(np.square(np.log(expected) - np.log(moved)).sum())

    pairs = [(r, s) for r in REVERSIONS for s in SMOOTHINGS if s < r]
    return min(pairs, key=distance)


def _daily(series: Sequence[Floats], slot_seconds: float, scale: float) -> DailyCycle:
    """Return the first harmonic, in units of `scale`, where chance does not explain it."""
    spectra = []
    for values in series:
        days = int(len(values) * slot_seconds / DAY_SECONDS)
        kept = values[: round(days * DAY_SECONDS / slot_seconds)]
        turns = 2 * np.pi * np.arange(len(kept)) * slot_seconds / DAY_SECONDS
        around = kept - kept.mean()

        # What chance makes of a day's harmonic shows in those beside it.
        times = np.array([1.0] + [1 + k / days for k in (-2, -1, 1, 2) if days + k > 0])
        spectra.append(2 * np.exp(-1j * times[:, None] * turns) @ around / len(kept))
    harmonic = complex(np.mean([found[0] for found in spectra]))
    noise = np.mean(np.square(np.abs(np.concatenate([found[1:] for found in spectra]))))
    if abs(harmonic) < 2 * math.sqrt(float(noise) / len(spectra)):
        return DailyCycle()
    peak = -cmath.phase(harmonic) / (2 * math.pi) * DAY_SECONDS
    return DailyCycle(abs(harmonic) / scale, peak % DAY_SECONDS)


# The made-up market that was read off real ones: V100 instances by the half-hour.
#
# Counts: the record of 16 instances over 16 days. Prices: those of eight zones over 90 days, all
# together. benchmarks/spot_generator.py prints these parameters, and how like the records what
# they make is (docs/explanation/spot-data.md).

V100_COUNTS = CountParams(
    cap=16,
    empty=0.631,
    full=0.346,
    waves=(Wave(900.0, 0.004), Wave(3600.0, 0.039), Wave(345_600.0, 0.957)),
)
V100_PRICES = PriceParams(
    floor=0.3,
    mean=0.3227,
    deviation=0.0288,
    reversion_seconds=2_592_000.0,
    smoothing_seconds=129_600.0,
    changes_per_day=4.04,
)
V100_MARKET = MarketGenerator(V100_COUNTS, V100_PRICES)
