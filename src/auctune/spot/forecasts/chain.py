"""A Markov chain of the market, with the rates at which it changed in the past.

A state is a class of the count (none, the lower or the higher half of those above none) and of the
price (the lower or the higher half), its *kind*, and a class of age, how long spot has been there
or not been there: what has just come is likelier to go than what has stayed, since times up and
down have long tails. In each slot

    spot comes or goes with probability  h = theta(kind) exp f(up or down, age),
    to a kind of age 0 as often as it did from this kind; else it grows older, and moves to another
    kind of the same side (spot there, or not) as often as it did.

The log hazard f is the posterior mode of Poisson counts under a Gaussian prior about -ln(1 + age),
a rate that is the same for slots of any length: each f is tied to it by `LEVEL` and its deviation
from it to those of the ages beside by `SMOOTHNESS`, so that it has no steps which few changes make.
So what the past has not shown is never impossible, and what it has shown is believed by its number.
"""

import hashlib
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from auctune.domain.checks import check_count
from auctune.numerics.arrays import Bools, Floats, Ints
from auctune.spot.forecasts.forecast import Forecast, MarketChain
from auctune.spot.forecasts.naive import LEVELS
from auctune.spot.market import SpotMarket

# Ages in slots at which the next class begins; where there are several kinds to a side, only each
# second of them, so that programs stay small.
AGES = np.array([1, 3, 9, 27, 81])
_COARSE_AGES = AGES[1::2]
# Precisions of the prior: of the log hazard of an age, and of its difference to the age beside.
LEVEL, SMOOTHNESS = 2.0, 2.0
# Changes that a kind's own rate needs to weigh as much as that of its side.
PRIOR_CHANGES = 8.0
# Slots in which a kind of the same side is thought to have stayed, beside those seen.
_PRIOR_STAYS = 1.0
_MOST_HAZARD = 0.95
# Of the worst market that the past leaves likely: standard deviations of each log hazard by which
# spot is thought to leave sooner and come later.
WORST_DEVIATIONS = 2.0
_NEWTON_STEPS = 50
_MOST_KEPT = 64

# Columns of kinds.
_COUNT, _PRICE = 0, 1


class _Classes(NamedTuple):
    """Classes of counts and prices, by the most that falls into each but the last."""

    counts: Floats
    prices: Floats

    def kinds(self, price: Floats, count: Ints) -> Ints:
        """[t, 2] classes of count (0 is none) and price."""
        by_count = np.where(count > 0, 1 + np.searchsorted(self.counts, count), 0)
        return np.stack((by_count, np.searchsorted(self.prices, price)), axis=1)


def _make_classes(price: Floats, count: Ints) -> _Classes:
    some = count[count > 0]
    return _Classes(_lower_half(some.astype(np.float64)), _lower_half(price))


def _lower_half(values: Floats) -> Floats:
    """Return the most of the lower half, unless all values are one or there are none."""
    most = np.quantile(values, [0.5], method="lower") if len(values) else values[:0]
    return np.asarray(most[most < values.max(initial=0.0)])


def _ages(count: Ints) -> Ints:
    """[t] slots since spot last came or went, or since the first slot."""
    slots = np.arange(len(count))
    changed = np.concatenate(([True], (count[1:] > 0) != (count[:-1] > 0)))
    return slots - np.maximum.accumulate(np.where(changed, slots, 0))


class _Fit(NamedTuple):
    """A chain, and what its states stand for: state i is of kind i // A and age class i % A.

    Attributes:
        classes: of slots.
        kinds: [p, 2].
        ages: at which age classes begin, but for the first.
        chain: its present state is not set.
    """

    classes: _Classes
    kinds: Ints
    ages: Ints
    chain: MarketChain

    def present(self, past: SpotMarket) -> int:
        """Return the state of the last slot, of the kind most like it where its own is unknown."""
        kind = self.classes.kinds(past.price[-1:], past.available[-1:])[0]
        far = np.abs(self.kinds - kind) @ np.array([2, 1])
        other_side = (self.kinds[:, _COUNT] > 0) != (kind[_COUNT] > 0)
        nearest = int(np.argmin(far + 100 * other_side))
        recent = past.available[-AGES[-1] - 1 :]
        age = int(np.searchsorted(self.ages, _ages(recent)[-1], "right"))
        return nearest * (len(self.ages) + 1) + age


def _fit(price: Floats, count: Ints) -> _Fit:
    classes = _make_classes(price, count)
    seen = classes.kinds(price, count)
    # Spot can be there and not be there, even if one of them was never seen.
    unseen = [(side, seen[-1, _PRICE]) for side in (0, 1) if side not in np.minimum(seen, 1)[:, 0]]
    both = np.concatenate((seen, np.array(unseen, dtype=np.int64).reshape(-1, 2)))
    kinds, found = np.unique(both, axis=0, return_inverse=True)
    kind_of, num_kinds = found.reshape(-1)[: len(seen)], len(kinds)
    up = kinds[:, _COUNT] > 0
    ages = AGES if num_kinds <= 2 else _COARSE_AGES
    age_of, num_ages = np.searchsorted(ages, _ages(count), "right"), len(ages) + 1
    moved = np.zeros((num_kinds, num_kinds))
    np.add.at(moved, (kind_of[:-1], kind_of[1:]), 1.0)
    # Slots after which one was seen, and those after which spot came or went.
    slots, changes = np.zeros((num_kinds, num_ages)), np.zeros((num_kinds, num_ages))
    np.add.at(slots, (kind_of[:-1], age_of[:-1]), 1.0)
    changed = up[kind_of[1:]] != up[kind_of[:-1]]
    np.add.at(changes, (kind_of[:-1][changed], age_of[:-1][changed]), 1.0)
    leave, factor = np.zeros((num_kinds, num_ages)), np.zeros((2, num_ages))
    for side in (0, 1):
        mine = up == side
        log, deviation = log_hazard(ages, slots[mine].sum(axis=0), changes[mine].sum(axis=0))
        hazard = np.exp(log)
        expected = slots[mine] @ hazard
        own = (changes[mine].sum(axis=1) + PRIOR_CHANGES) / (expected + PRIOR_CHANGES)
        leave[mine] = own[:, None] * hazard
        factor[side] = np.exp((WORST_DEVIATIONS if side else -WORST_DEVIATIONS) * deviation)
    in_kind = np.bincount(kind_of, minlength=num_kinds)
    prices = np.where(
        in_kind > 0, np.bincount(kind_of, price, num_kinds) / np.maximum(in_kind, 1), price[-1]
    )
    counts = np.floor(np.bincount(kind_of, count, num_kinds) / np.maximum(in_kind, 1) + 0.5)
    chain = MarketChain(
        np.repeat(prices, num_ages),
        np.repeat(np.where(up, np.maximum(counts, 1), 0).astype(np.int64), num_ages),
        _transition(up, moved, in_kind, leave, ages),
        present=-1,
        worst=_transition(up, moved, in_kind, leave * factor[up.astype(np.int64)], ages),
    )
    return _Fit(classes, kinds, ages, chain)


def log_hazard(ages: Ints, slots: Floats, changes: Floats) -> tuple[Floats, Floats]:
    """[a] the log of the probability that spot comes or goes in a slot, by class of age.

    Also its standard deviation by the curvature at the mode (Laplace's approximation).

    Args:
        ages: at which classes begin, but for the first.
        slots: [a] seen in each class.
        changes: [a] of those in which it came or went.
    """
    first = np.concatenate(([0], ages))
    # Of the last class, which has no end, a typical one.
    last = np.append(ages, 2.5 * ages[-1])
    prior = -np.log1p(np.sqrt((first + 0.5) * last))
    step = np.diff(np.eye(len(first)), axis=0)
    precision = LEVEL * np.eye(len(first)) + SMOOTHNESS * step.T @ step
    log = prior.copy()
    for _ in range(_NEWTON_STEPS):
        expected = slots * np.exp(log)
        slope = expected - changes + precision @ (log - prior)
        move = np.linalg.solve(precision + np.diag(expected), slope)
        log = log - np.clip(move, -1.0, 1.0)
        if np.abs(move).max() < 1e-9:
            break
    covariance = np.linalg.inv(precision + np.diag(slots * np.exp(log)))
    return np.asarray(log), np.sqrt(np.diag(covariance))


def _transition(up: Bools, moved: Floats, in_kind: Ints, leave: Floats, ages: Ints) -> Floats:
    """[i, j] by kind and age class.

    Args:
        up: [p] whether spot is there.
        moved: [p, q] changes from kind to kind that were seen.
        in_kind: [p] slots that were seen.
        leave: [p, a] probability that spot comes or goes, at most `_MOST_HAZARD`.
        ages: at which age classes begin, but for the first.
    """
    # As often as each kind was seen, where few changes were.
    other = up[:, None] != up
    share = np.where(other, moved + (in_kind + 1e-9) / len(moved), 0.0)
    share = np.where(other, moved + share / share.sum(axis=1, keepdims=True), 0.0)
    share /= share.sum(axis=1, keepdims=True)
    within = np.where(other, 0.0, moved + _PRIOR_STAYS * np.eye(len(moved)))
    within /= within.sum(axis=1, keepdims=True)
    width = np.diff(np.concatenate(([0], ages)))
    return age_transitions(np.minimum(leave, _MOST_HAZARD), width, share, within)


def age_transitions(leave: Floats, width: Ints, share: Floats, within: Floats) -> Floats:
    """[i, j] of a chain whose states are kinds by age classes, the classes of a kind in a row.

    Args:
        leave: [p, a] probability that a spell ends in a slot.
        width: [a - 1] ages of each class but the last, which has no end.
        share: [p, q] kinds, at age 0, that a spell of kind p ends in.
        within: [p, q] kinds that one of kind p goes on as.
    """
    num_kinds, num_ages = leave.shape
    transition = np.zeros((num_kinds, num_ages, num_kinds, num_ages))
    for age in range(num_ages):
        gone = leave[:, age, None]
        older = 0.0 if age == num_ages - 1 else 1.0 / width[age]
        transition[:, age, :, 0] += gone * share
        transition[:, age, :, age] += (1.0 - gone) * (1.0 - older) * within
        transition[:, age, :, min(age + 1, num_ages - 1)] += (1.0 - gone) * older * within
    states = num_kinds * num_ages
    return transition.reshape(states, states)


@dataclass(frozen=True, slots=True)
class MarkovChain:
    """A Markov chain of the market.

    Attributes:
        refit: slots after which changes are counted again, at multiples of it, and before the
            first at powers of two. Between them the chain is the same, and plans made with it
            stand.
    """

    refit: int = 144
    _fitted: dict[bytes, _Fit] = field(default_factory=dict, compare=False, repr=False)
    _made: dict[tuple[bytes, int], Forecast] = field(
        default_factory=dict, compare=False, repr=False
    )

    # [h, i, j] as `_laws` has them.
    _laws: dict[bytes, Floats] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_count(self.refit, "refit", 1)

    def forecast(self, past: SpotMarket, num_slots: int) -> Forecast:
        num = past.num_slots
        until = num // self.refit * self.refit or 2 ** (num.bit_length() - 1)
        price, count = past.price[:until], past.available[:until]
        key = hashlib.blake2b(price.tobytes() + count.tobytes(), digest_size=16).digest()
        if key not in self._fitted:
            if len(self._fitted) == _MOST_KEPT:
                self._fitted.clear()
                self._made.clear()
                self._laws.clear()
            self._fitted[key] = _fit(price, count)
        fit = self._fitted[key]
        present = fit.present(past)
        made = self._made.get((key, present))
        if made is None or made.num_slots < num_slots:
            if key not in self._laws or len(self._laws[key]) < num_slots:
                self._laws[key] = _laws(fit.chain.transition, num_slots)
            law = self._laws[key][:num_slots, present]
            made = _forecast(fit.chain._replace(present=present), law)
            self._made[key, present] = made
        return Forecast(
            made.price[:num_slots],
            made.available[:num_slots],
            made.levels,
            made.price_quantiles[:num_slots],
            made.available_quantiles[:num_slots],
            made.chain,
        )


def _laws(transition: Floats, num_slots: int) -> Floats:
    """[h, i, j] the probability of state j h + 1 slots after state i."""
    laws = np.empty((num_slots, *transition.shape))
    law = np.eye(len(transition))
    for h in range(num_slots):
        law = law @ transition
        laws[h] = law
    return laws


def _forecast(chain: MarketChain, chance: Floats) -> Forecast:
    """Return the forecast with these probabilities [h, i] of each slot to come."""
    price = _quantiles(chain.price, chance)
    count = _quantiles(chain.available.astype(np.float64), chance).astype(np.int64)
    middle = LEVELS.index(0.5)
    return Forecast(price[:, middle], count[:, middle], np.array(LEVELS), price, count, chain)


def _quantiles(values: Floats, chance: Floats) -> Floats:
    """[h, q] of values with these probabilities."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(chance[:, order], axis=1)
    # Sums of all probabilities are not exactly 1.
    at = (reached[:, None, :-1] < np.array(LEVELS)[:, None] - 1e-12).sum(axis=2)
    return np.asarray(values[order][at])
