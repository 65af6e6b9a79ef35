"""Exponentiated gradient with a rate that the utilities themselves set (AdaHedge).

The fixed rates of `auctune.numerics.experts` prepare for utilities that fill [0, 1]. Where the
candidates differ by little, as money scaled by its worst case does, they learn slowly. Here

    eta_k = ln M / (delta_1 + ... + delta_{k-1}),
    delta_k = (1 / eta_k) ln <w_k, exp(eta_k u_k)> - <w_k, u_k> >= 0,

so that the rate falls only as fast as the weighted mean has been worse than the mix that the
weights promise; it is infinite, and the weight all with the leaders, until there is such a gap.
After any number of rounds the weighted mean is behind the best candidate by at most
2 (delta_1 + ... + delta_K) and, for utilities in a range of width s <= 1,

    s (sqrt(K ln M) + 4/3 ln M + 2)

(de Rooij, van Erven, Grünwald and Koolen, "Follow the Leader If You Can, Hedge If You Must",
JMLR 2014, section 2). Neither K nor s need be known.
"""

import math

import numpy as np

from auctune.numerics.arrays import Floats
from auctune.numerics.experts import check_candidates, check_utilities


class AdaptiveGradient:
    """Weights whose rate adapts to how much the candidates differ."""

    def __init__(self, num_candidates: int) -> None:
        check_candidates(num_candidates)
        self._total = np.zeros(num_candidates)
        self._gap = 0.0
        self._num_rounds = 0

    @property
    def weights(self) -> Floats:
        """[M] of the coming round."""
        behind = self._total - self._total.max()
        eta = self._eta()
        raised = np.where(behind == 0.0, 1.0, 0.0) if math.isinf(eta) else np.exp(eta * behind)
        return np.asarray(raised / raised.sum())

    def update(self, utilities: Floats) -> None:
        """End a round."""
        given = check_utilities(utilities, len(self._total))
        weights, eta = self.weights, self._eta()
        self._gap += max(_mix(weights, given, eta) - float(weights @ given), 0.0)
        self._total = self._total + given
        self._num_rounds += 1

    def regret_bound(self) -> float:
        """For the rounds so far, of the weighted mean against the best candidate."""
        return 2.0 * self._gap

    def worst_regret_bound(self, width: float = 1.0) -> float:
        """The same, for any utilities in a range of this width."""
        ln = math.log(len(self._total))
        if ln == 0.0:
            return 0.0
        return width * (math.sqrt(self._num_rounds * ln) + 4.0 / 3.0 * ln + 2.0)

    def _eta(self) -> float:
        ln = math.log(len(self._total))
        return ln / self._gap if self._gap > 0 else math.inf


def _mix(weights: Floats, utilities: Floats, eta: float) -> float:
    """(1 / eta) ln <w, exp(eta u)>; with an infinite eta the best that has weight."""
    most = float(utilities[weights > 0].max())
    if math.isinf(eta):
        return most
    return most + math.log(float(weights @ np.exp(eta * (utilities - most)))) / eta
