"""AHANP: renting without a forecast (Kong et al., arXiv 2512.20967, Algorithm 3).

With z = Z / Z_exp(t) (1 at t = 0), p = p_t / sigma, a = A_t / A_{t-1} (1 at t = 0 and where
A_{t-1} = 0), the first that holds gives the total:

    z >= 1, A_t = 0          0
    z >= 1, a <= drop        shrink * n_{t-1}, at least N_min
    z >= 1, p > 1            n_{t-1}
    z >= 1                   min(A_t, N_max), or 0 where that is under N_min
    z < 1                    growth * n_{t-1}, within N_min and N_max

Products are rounded half up. Spot first, on-demand for the rest. The paper names neither `drop`
nor `shrink` and `growth`; a half, a half and two fit its words.
"""

from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_finite, check_positive
from auctune.numerics.jit import kernel
from auctune.spot.account import JobConstants, effective_progress
from auctune.spot.deadline import (
    ProgressLine,
    check_line,
    is_ahead,
    line_code,
    spot_first,
    usable_spot,
)
from auctune.spot.policies.baselines import StatelessPolicy
from auctune.spot.policy import SpotObservation


@kernel
def scaled_count(terms: JobConstants, factor: float, count: int) -> int:
    """factor * n, rounded half up, within N_min and N_max."""
    scaled = int(np.floor(factor * count + 0.5))
    return min(max(scaled, terms.n_min), terms.n_max)


@kernel
def react(
    terms: JobConstants,
    sigma: float,
    drop: float,
    shrink: float,
    growth: float,
    line: int,
    slot: int,
    progress: float,
    last: int,
    price: float,
    available: int,
    available_before: int,
) -> tuple[int, int]:
    """Return the (on-demand, spot) GPUs of a slot."""
    compared = slot > 0 and available_before > 0
    if not is_ahead(terms, progress, slot, line):
        count = scaled_count(terms, growth, last)
    elif available == 0:
        count = 0
    elif compared and available <= drop * available_before:
        count = scaled_count(terms, shrink, last)
    elif price > sigma:
        count = last
    else:
        count = usable_spot(terms, available)
    return spot_first(count, available)


_DEFAULTS = {"drop": 0.5, "shrink": 0.5, "growth": 2.0}
_LINE: ProgressLine = "slot_start"


@dataclass(frozen=True, slots=True)
class Ahanp(StatelessPolicy):
    """AHANP. It needs no forecast.

    Attributes:
        sigma: the price, in units of the on-demand price, up to which spot is cheap.
        drop: the share of the last availability at or under which it has collapsed.
        shrink: the share of the GPUs that is kept then.
        growth: by which they are multiplied when behind.
        line: where the line of even progress is read in a slot, at its end or at its start.
    """

    sigma: float = 0.6
    drop: float = _DEFAULTS["drop"]
    shrink: float = _DEFAULTS["shrink"]
    growth: float = _DEFAULTS["growth"]
    line: ProgressLine = _LINE

    def __post_init__(self) -> None:
        check_positive(self.sigma, "sigma", "a number > 0")
        check_finite(self.drop, "drop", "a number >= 0")
        if not 0 <= self.shrink <= 1:
            raise InputError("shrink", f"{self.shrink!r}", "a number within 0 and 1")
        if not 1 <= self.growth < np.inf:
            raise InputError("growth", f"{self.growth!r}", "a number >= 1")
        check_line(self.line)

    @property
    def name(self) -> str:
        others = {"drop": self.drop, "shrink": self.shrink, "growth": self.growth}
        parts = [f",{key}={value:g}" for key, value in others.items() if value != _DEFAULTS[key]]
        parts += [f",line={self.line}"] if self.line != _LINE else []
        return f"ahanp(sigma={self.sigma:g}{''.join(parts)})"

    def decide(self, terms: JobConstants, observation: SpotObservation) -> tuple[int, int]:
        return react(
            terms,
            self.sigma * observation.on_demand_price,
            self.drop,
            self.shrink,
            self.growth,
            line_code(self.line),
            observation.slot,
            effective_progress(terms, observation.progress, observation.owed),
            observation.last.total,
            observation.price,
            observation.available,
            observation.available_before,
        )
