"""A Markov chain of the market, with the rates at which it changed in the past.

A state is a class of the count (none, the lower or the higher half of those above none), of the
price (the lower or the higher half) and of age, how long spot has been there or not been there:
what has just come is likelier to go than what has stayed, since times up and down have long tails.

A row of the transitions is the changes that were seen and a prior that weighs as much as
`PRIOR_CHANGES` of them: spot comes or goes with probability 1 / (1 + age), which holds for slots
of any length. So what the past has not shown is never impossible.
"""

import hashlib
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from auctune.domain.checks import check_count
from auctune.numerics.arrays import Floats, Ints
from auctune.spot.forecasts.forecast import Forecast, MarketChain
from auctune.spot.forecasts.naive import LEVELS
from auctune.spot.market import SpotMarket

# Ages in slots at which the next class begins, and an age that stands for each class.
AGES = (6, 36)
TYPICAL_AGES = np.array([2.5, 14.7, 72.0])
PRIOR_CHANGES = 8.0
_MOST_KEPT = 64

# Columns of labels.
_COUNT, _PRICE, _AGE = 0, 1, 2


class _Classes(NamedTuple):
    """Classes of counts and prices, by the most that falls into each but the last."""

    counts: Floats
    prices: Floats

    def labels(self, price: Floats, count: Ints) -> Ints:
        """[t, 3] classes of count (0 is none), price and age."""
        slots = np.arange(len(count))
        changed = np.concatenate(([True], (count[1:] > 0) != (count[:-1] > 0)))
        age = slots - np.maximum.accumulate(np.where(changed, slots, 0))
        by_count = np.where(count > 0, 1 + np.searchsorted(self.counts, count), 0)
        columns = (
            by_count,
            np.searchsorted(self.prices, price),
            np.searchsorted(AGES, age, "right"),
        )
        return np.stack(columns, axis=1)


def _make_classes(price: Floats, count: Ints) -> _Classes:
    some = count[count > 0]
    return _Classes(_lower_half(some.astype(np.float64)), _lower_half(price))


def _lower_half(values: Floats) -> Floats:
    """Return the most of the lower half, unless all values are one or there are none."""
    most = np.quantile(values, [0.5], method="lower") if len(values) else values[:0]
    return np.asarray(most[most < values.max(initial=0.0)])


class _Fit(NamedTuple):
    """A chain, and the classes of its states.

    Attributes:
        classes: of slots.
        labels: [i, 3] of states.
        chain: its present state is not set.
    """

    classes: _Classes
    labels: Ints
    chain: MarketChain


def _fit(price: Floats, count: Ints) -> _Fit:
    classes = _make_classes(price, count)
    seen = classes.labels(price, count)
    # Spot can be there and not be there, even if one of them was never seen.
    unseen = [
        (kind, seen[-1, _PRICE], 0) for kind in (0, 1) if kind not in np.minimum(seen, 1)[:, 0]
    ]
    both = np.concatenate((seen, np.array(unseen, dtype=np.int64).reshape(-1, 3)))
    labels, states = np.unique(both, axis=0, return_inverse=True)
    num, at = len(labels), states.reshape(-1)[: len(seen)]
    in_state = np.bincount(at, minlength=num)
    moved = np.zeros((num, num))
    np.add.at(moved, (at[:-1], at[1:]), 1.0)
    # With a rate of 1 / (1 + age) so many slots have one change.
    prior_slots = PRIOR_CHANGES * (1.0 + TYPICAL_AGES[labels[:, _AGE]])
    weight = prior_slots[:, None] * _prior(labels, in_state) + moved
    slots = np.maximum(in_state, 1)
    prices = np.where(in_state > 0, np.bincount(at, price, num) / slots, price[-1])
    counts = np.maximum(np.floor(np.bincount(at, count, num) / slots + 0.5), 1)
    chain = MarketChain(
        prices,
        np.where(labels[:, _COUNT] > 0, counts, 0).astype(np.int64),
        weight / weight.sum(axis=1, keepdims=True),
        present=-1,
    )
    return _Fit(classes, labels, chain)


def _prior(labels: Ints, in_state: Ints) -> Floats:
    """[i, j] transitions by the rates of the prior, to states as frequent as they were."""
    num, up = len(labels), labels[:, _COUNT] > 0
    prior = np.zeros((num, num))
    widths = np.append(np.diff((0, *AGES)), np.inf)
    for i, (label, leaving) in enumerate(
        zip(labels, 1.0 / (1.0 + TYPICAL_AGES[labels[:, _AGE]]), strict=True)
    ):
        others = up != up[i]
        begun = others & (labels[:, _AGE] == 0)
        # A market that began in this kind may never have come to it anew.
        others = begun if begun.any() else others
        share = (in_state + 1e-9) * others
        prior[i] = leaving * share / share.sum()
        older = np.flatnonzero((labels == label + np.array([0, 0, 1])).all(axis=1))
        prior[i, older] += (1.0 - leaving) / widths[label[_AGE]]
        prior[i, i] += 1.0 - prior[i].sum()
    return prior


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
            self._fitted[key] = _fit(price, count)
        fit = self._fitted[key]
        present = _present(fit, past)
        made = self._made.get((key, present))
        if made is None or made.num_slots < num_slots:
            made = _forecast(fit.chain._replace(present=present), num_slots)
            self._made[key, present] = made
        return Forecast(
            made.price[:num_slots],
            made.available[:num_slots],
            made.levels,
            made.price_quantiles[:num_slots],
            made.available_quantiles[:num_slots],
            made.chain,
        )


def _present(fit: _Fit, past: SpotMarket) -> int:
    """Return the state that is most like the present slot; whether spot is there comes first."""
    recent = slice(max(past.num_slots - AGES[-1] - 1, 0), None)
    label = fit.classes.labels(past.price[recent], past.available[recent])[-1]
    far = np.abs(fit.labels - label) @ np.array([4, 2, 1])
    other_kind = (fit.labels[:, _COUNT] > 0) != (label[_COUNT] > 0)
    return int(np.argmin(far + 100 * other_kind))


def _forecast(chain: MarketChain, num_slots: int) -> Forecast:
    """Return the law of each slot to come."""
    chance = np.empty((num_slots, len(chain.price)))
    row = np.eye(len(chain.price))[chain.present]
    for h in range(num_slots):
        row = row @ chain.transition
        chance[h] = row
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
