"""A mixture of laws that bend differently: auctune's own estimator.

Training losses rarely follow l = a s^-b for long: the curve of ln l over ln s bends down while a
model still learns quickly and up when it comes to its end, and a power law fitted to what was seen
says too much or too little. Each member is a law

    ln l = A - B phi_p(u),   phi_p(u) = (e^(p u) - 1) / p,   u = ln(s / s_0),   0 <= p <= 1,

p = 0 the power law, p = 1 an exponential decay, between them the stretched ones. All are fitted by
weighted least squares in centred moments, O(1) a step, with weights that fall with data and not
with units of time: (s_i / s)^kappa for some kappa. Beyond that

- a unit counts by its batches, at the middle of them, and less when it is an outlier (Huber): a
  share decides how much a loss is worth;
- members are weighted by 1 / E, E the mean squared error with which they foretold the next unit;
- the need is the weighted median of the members' crossings, `low` and `high` the outer deciles;
- a thread is done when a loss is *observed* at or under eps, and the least of noisy losses lies
  under their mean: the level looked for is that of eps e^(tau sigma), sigma the noise of a unit.
"""

from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_count, check_finite, check_positive
from auctune.timeshare.arrays import Bools, Floats
from auctune.timeshare.estimators.estimator import Needs
from auctune.timeshare.estimators.mixture_crossings import foretell_all
from auctune.timeshare.estimators.mixture_moments import HEAD, THRESHOLD, observe_all
from auctune.timeshare.estimators.need import Need


@dataclass(frozen=True, slots=True)
class Mixture:
    """The mixture.

    Attributes:
        num_laws: laws with p = 0 to 1 in even steps, two at least.
        kappas: how fast weights fall with data; each law is fitted with each.
        clip: standard deviations beyond which a unit counts less.
        tau: standard deviations by which the least of the losses to come lies under their mean.
    """

    num_laws: int = 3
    kappas: tuple[float, ...] = (6.0,)
    clip: float = 2.0
    tau: float = 1.0

    def __post_init__(self) -> None:
        check_count(self.num_laws, "num_laws", 2)
        if not self.kappas:
            raise InputError("kappas", "is empty", "one at least")
        for index, kappa in enumerate(self.kappas):
            check_finite(kappa, f"kappas[{index}]", "a number >= 0")
        check_positive(self.clip, "clip", "a number > 0")
        check_finite(self.tau, "tau", "a number >= 0")

    @property
    def name(self) -> str:
        """Ours."""
        return "mixture"

    def start(self) -> "MixtureRun":
        """For one thread."""
        return MixtureRun(self)

    def start_bank(self, num_threads: int) -> "MixtureBank":
        """For many."""
        return MixtureBank(self, num_threads)


class MixtureBank:
    """The mixture at work on all threads of a bundle."""

    def __init__(self, params: Mixture, num_threads: int) -> None:
        self._params, self._kappas = params, np.array(params.kappas)
        num_groups, num_laws = len(params.kappas), params.num_laws
        self._heads = np.zeros((num_threads, HEAD))
        self._heads[:, THRESHOLD] = np.nan
        self._groups = np.zeros((num_threads, num_groups, 2))
        self._members = np.zeros((num_threads, num_groups, num_laws, 4))
        self._needs = Needs(*(np.empty(num_threads) for _ in range(3)))

    def observe(self, samples: Floats, loss: Floats, fresh: Bools) -> None:
        """Learn from a unit of time."""
        observe_all(
            self._heads,
            self._groups,
            self._members,
            self._kappas,
            self._params.clip,
            samples,
            loss,
            fresh,
        )

    def needs(self, thresholds: Floats) -> Needs:
        """Needs of all threads."""
        tau, needs = self._params.tau, self._needs
        foretell_all(
            self._heads,
            self._groups,
            self._members,
            tau,
            thresholds,
            needs.batches,
            needs.low,
            needs.high,
        )
        return needs

    def copy(self) -> "MixtureBank":
        """Another one that has seen the same."""
        twin = MixtureBank(self._params, len(self._heads))
        pairs = (
            (twin._heads, self._heads),
            (twin._groups, self._groups),
            (twin._members, self._members),
        )
        for mine, seen in (*pairs, *zip(twin._needs, self._needs, strict=True)):
            mine[...] = seen
        return twin


class MixtureRun:
    """The mixture at work on one thread: a bank of one."""

    def __init__(self, params: Mixture) -> None:
        self._bank = MixtureBank(params, 1)

    def observe(self, samples: float, loss: float) -> None:
        """Learn from a unit of time."""
        self._bank.observe(np.array([samples]), np.array([loss]), np.array([True]))

    def need(self, threshold: float) -> Need:
        """Batches until the loss is at or under a threshold."""
        batches, low, high = self._bank.needs(np.array([threshold]))
        return Need(float(batches[0]), float(low[0]), float(high[0]))

    def copy(self) -> "MixtureRun":
        """Another one that has seen the same."""
        twin = object.__new__(MixtureRun)
        twin._bank = self._bank.copy()
        return twin
