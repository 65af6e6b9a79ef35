"""Learning which of M candidates to follow, from the utility of all of them after each round.

Exponentiated gradient over utilities u_k in [0, 1]^M: the weights of round k are

    w_k(m) ~ exp(eta_k (u_1(m) + ... + u_{k-1}(m))),

kept as logarithms. The weighted mean <w_k, u_k> falls behind the best candidate by at most

- sqrt(2 K ln M) over K rounds known ahead, with eta = sqrt(2 ln M / K) (`KnownRounds`);
- sqrt(K ln M) after any number K of rounds, with eta_k = 2 sqrt(ln M / k) (`Anytime`): ln M / eta_K
  plus a sum of eta_k / 8, for rates that never rise (Bubeck, "Introduction to Online
  Optimization", 2011, section 2.5).

Where the best candidate changes, `FixedShare` gives a share of all weight back to everyone after
each round (Herbster and Warmuth, 1998): against any sequence of candidates with S changes it falls
behind by at most ((S + 1) ln M + S ln(1 / share) + (K - 1 - S) ln(1 / (1 - share))) / eta
+ eta K / 8. `SlidingWindow` forgets what is older than its length; no bound is stated for it.
Nothing here knows what the candidates are.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from auctune.domain.checks import check_count, check_positive
from auctune.domain.errors import InputError
from auctune.numerics.arrays import Floats

# Utilities this far outside [0, 1] are rounding.
ROUNDING = 1e-9


class Rate(Protocol):
    """The learning rate by round."""

    def eta(self, num_candidates: int, round_number: int) -> float:
        """eta_k; `round_number` k counts from 1."""
        ...

    def regret_bound(self, num_candidates: int, num_rounds: int) -> float:
        """The most that the weighted mean can be behind the best candidate after K rounds."""
        ...


@dataclass(frozen=True, slots=True)
class KnownRounds:
    """eta = sqrt(2 ln M / K).

    Attributes:
        num_rounds: K.
    """

    num_rounds: int

    def __post_init__(self) -> None:
        check_count(self.num_rounds, "num_rounds", 1)

    def eta(self, num_candidates: int, round_number: int) -> float:
        return math.sqrt(2.0 * math.log(num_candidates) / self.num_rounds)

    def regret_bound(self, num_candidates: int, num_rounds: int) -> float:
        if num_rounds == self.num_rounds:
            return math.sqrt(2.0 * num_rounds * math.log(num_candidates))
        if num_candidates == 1:
            return 0.0
        eta = self.eta(num_candidates, 1)
        return math.log(num_candidates) / eta + eta * num_rounds / 8.0


@dataclass(frozen=True, slots=True)
class Anytime:
    """eta_k = 2 sqrt(ln M / k)."""

    def eta(self, num_candidates: int, round_number: int) -> float:
        return 2.0 * math.sqrt(math.log(num_candidates) / round_number)

    def regret_bound(self, num_candidates: int, num_rounds: int) -> float:
        return math.sqrt(num_rounds * math.log(num_candidates))


class Weights(Protocol):
    """Weights of candidates that learn."""

    @property
    def weights(self) -> Floats:
        """[M] of the coming round; they sum to 1."""
        ...

    def update(self, utilities: Floats) -> None:
        """End a round.

        Args:
            utilities: [M] within [0, 1].

        Raises:
            InputError: if they are not; then nothing has changed.
        """
        ...


class ExponentiatedGradient:
    """Weights that follow the sum of all utilities."""

    def __init__(self, num_candidates: int, rate: Rate) -> None:
        check_candidates(num_candidates)
        self._rate = rate
        self._total = np.zeros(num_candidates)
        self._num_rounds = 0

    @property
    def weights(self) -> Floats:
        eta = self._rate.eta(len(self._total), self._num_rounds + 1)
        return _softmax(eta * self._total)

    def update(self, utilities: Floats) -> None:
        self._total = self._total + check_utilities(utilities, len(self._total))
        self._num_rounds += 1

    def regret_bound(self) -> float:
        return self._rate.regret_bound(len(self._total), self._num_rounds)


class FixedShare:
    """Weights that can change their mind: after each round everyone gets some back."""

    def __init__(self, num_candidates: int, eta: float, share: float) -> None:
        """Prepare.

        Args:
            num_candidates: M.
            eta: the rate, the same in each round.
            share: of all weight that is spread evenly after each round, within [0, 1).

        Raises:
            InputError: naming what is wrong.
        """
        check_candidates(num_candidates)
        check_positive(eta, "eta", "a number > 0")
        if not 0 <= share < 1:
            raise InputError("share", f"{share!r}", "a number within 0 and 1, less than 1")
        self._eta = eta
        self._share = share
        self._log_weights = np.full(num_candidates, -math.log(num_candidates))

    @classmethod
    def tuned(cls, num_candidates: int, num_rounds: int, num_changes: int) -> "FixedShare":
        """With the rate and the share that make the bound least for K rounds and S changes."""
        check_candidates(num_candidates)
        if not 0 <= num_changes < num_rounds:
            raise InputError(
                "num_changes", f"{num_changes!r}", f"within 0 and the {num_rounds} rounds"
            )
        share = num_changes / (num_rounds - 1) if num_rounds > 1 else 0.0
        share = min(share, 0.5)
        effort = _sharing_effort(num_candidates, num_rounds, num_changes, share)
        return cls(num_candidates, math.sqrt(8.0 * max(effort, 1.0) / num_rounds), share)

    @property
    def weights(self) -> Floats:
        return np.asarray(np.exp(self._log_weights))

    def update(self, utilities: Floats) -> None:
        num = len(self._log_weights)
        grown = self._log_weights + self._eta * check_utilities(utilities, num)
        grown -= np.logaddexp.reduce(grown)
        if self._share > 0:
            kept = math.log1p(-self._share) + grown
            grown = np.logaddexp(kept, math.log(self._share / num))
        self._log_weights = grown

    def regret_bound(self, num_rounds: int, num_changes: int) -> float:
        """Return the bound of the regret of the weighted mean.

        The comparison is with any sequence of experts with at most `num_changes` changes; the
        bound is infinite if the sequence changes and the share is 0.

        Args:
            num_rounds: K.
            num_changes: S.
        """
        if self._share == 0 and num_changes > 0:
            return math.inf
        num = len(self._log_weights)
        effort = _sharing_effort(num, num_rounds, num_changes, self._share)
        return effort / self._eta + self._eta * num_rounds / 8.0


class SlidingWindow:
    """Weights that follow the utilities of the last rounds alone."""

    def __init__(self, num_candidates: int, eta: float, length: int) -> None:
        """Prepare.

        Args:
            num_candidates: M.
            eta: the rate.
            length: rounds that are remembered.

        Raises:
            InputError: naming what is wrong.
        """
        check_candidates(num_candidates)
        check_positive(eta, "eta", "a number > 0")
        if length < 1:
            raise InputError("length", f"{length!r}", "a whole number of rounds >= 1")
        self._eta = eta
        self._num = num_candidates
        self._seen: deque[Floats] = deque(maxlen=length)

    @property
    def weights(self) -> Floats:
        # Summed anew, so that what has been forgotten leaves no rounding behind.
        total = np.sum(self._seen, axis=0) if self._seen else np.zeros(self._num)
        return _softmax(self._eta * total)

    def update(self, utilities: Floats) -> None:
        self._seen.append(check_utilities(utilities, self._num))


@dataclass(frozen=True, slots=True)
class UtilityScale:
    """Money as utility in [0, 1], by bounds that are fixed before the first round.

    Attributes:
        least, most: the bounds.
    """

    least: float
    most: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.least) and math.isfinite(self.most) and self.least < self.most):
            raise InputError("most", f"{self.most!r}", f"a number > least = {self.least!r}")

    def scaled(self, money: Floats) -> Floats:
        """(U - least) / (most - least)."""
        return (np.asarray(money, dtype=np.float64) - self.least) / (self.most - self.least)


def draw(weights: Floats, random: np.random.Generator) -> int:
    """Return a candidate, each with the probability of its weight."""
    reached = np.cumsum(weights)
    return int(np.searchsorted(reached, random.uniform(0.0, reached[-1]), side="right"))


def heaviest(weights: Floats) -> int:
    """Return the candidate with the most weight; of equals the first."""
    return int(np.argmax(weights))


def _softmax(exponents: Floats) -> Floats:
    raised = np.exp(exponents - exponents.max())
    return np.asarray(raised / raised.sum())


def _sharing_effort(num: int, num_rounds: int, num_changes: int, share: float) -> float:
    """-ln of the weight that the shares alone leave to one sequence with so many changes."""
    effort = (num_changes + 1) * math.log(num)
    if num_changes > 0:
        effort += num_changes * math.log(1.0 / share)
    return effort - (num_rounds - 1 - num_changes) * math.log1p(-share)


def check_candidates(num_candidates: int) -> None:
    """Refuse a pool without candidates.

    Raises:
        InputError: naming `num_candidates`.
    """
    check_count(num_candidates, "num_candidates", 1)


def check_utilities(utilities: Floats, num: int) -> Floats:
    """Utilities of `num` candidates, as an array of its own.

    Raises:
        InputError: if there are more or fewer, or one is not within 0 and 1.
    """
    given = np.array(utilities, dtype=np.float64)
    if given.shape != (num,):
        raise InputError("utilities", f"shape {given.shape}", f"one for each of {num} candidates")
    wrong = np.flatnonzero(~((given >= -ROUNDING) & (given <= 1 + ROUNDING)))
    if len(wrong):
        raise InputError(f"utilities[{wrong[0]}]", f"{given[wrong[0]]}", "a utility within 0 and 1")
    return given


# Exponentiated gradient with a rate that the utilities themselves set (AdaHedge).
#
# The fixed rates of `auctune.numerics.experts` prepare for utilities that fill [0, 1]. Where the
# candidates differ by little, as money scaled by its worst case does, they learn slowly. Here
#
#     eta_k = ln M / (delta_1 + ... + delta_{k-1}),
#     delta_k = (1 / eta_k) ln <w_k, exp(eta_k u_k)> - <w_k, u_k> >= 0,
#
# so that the rate falls only as fast as the weighted mean has been worse than the mix that the
# weights promise; it is infinite, and the weight all with the leaders, until there is such a gap.
# After any number of rounds the weighted mean is behind the best candidate by at most 2 (delta_1 +
# ... + delta_K) and, for utilities in a range of width s <= 1,
#
# s (sqrt(K ln M) + 4/3 ln M + 2)
#
# (de Rooij, van Erven, Grünwald and Koolen, "Follow the Leader If You Can, Hedge If You Must",
# JMLR 2014, section 2). Neither K nor s need be known.


class AdaptiveGradient:
    """Weights whose rate adapts to how much the candidates differ."""

    def __init__(self, num_candidates: int) -> None:
        check_candidates(num_candidates)
        self._total = np.zeros(num_candidates)
        self._gap = 0.0

    @property
    def weights(self) -> Floats:
        behind = self._total - self._total.max()
        eta = self._eta()
        raised = np.where(behind == 0.0, 1.0, 0.0) if math.isinf(eta) else np.exp(eta * behind)
        return np.asarray(raised / raised.sum())

    def update(self, utilities: Floats) -> None:
        given = check_utilities(utilities, len(self._total))
        weights, eta = self.weights, self._eta()
        self._gap += max(_mix(weights, given, eta) - float(weights @ given), 0.0)
        self._total = self._total + given

    def regret_bound(self) -> float:
        return 2.0 * self._gap

    def _eta(self) -> float:
        ln = math.log(len(self._total))
        return ln / self._gap if self._gap > 0 else math.inf


def _mix(weights: Floats, utilities: Floats, eta: float) -> float:
    """(1 / eta) ln <w, exp(eta u)>; with an infinite eta the best that has weight."""
    most = float(utilities[weights > 0].max())
    if math.isinf(eta):
        return most
    return most + math.log(float(weights @ np.exp(eta * (utilities - most)))) / eta
