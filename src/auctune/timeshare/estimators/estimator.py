"""How the rest of auctune sees a way of foretelling needs."""

from typing import NamedTuple, Protocol

from auctune.timeshare.arrays import Bools, Floats
from auctune.timeshare.estimators.need import Need


class Needs(NamedTuple):
    """Needs of the threads of a bundle, in batches; see `Need`.

    Attributes:
        batches, low, high: [k].
    """

    batches: Floats
    low: Floats
    high: Floats


class LossEstimator(Protocol):
    """An estimator at work on one thread."""

    def observe(self, samples: float, loss: float) -> None:
        """Learn from a unit of time.

        A loss that is zero or less says that any threshold is reached, one that is not finite that
        none is within reach until another comes; neither enters the fit.

        Args:
            samples: batches learned up to its end, > 0 and more than before.
            loss: mean over its batches.
        """
        ...

    def need(self, threshold: float) -> Need:
        """Batches until the loss is at or under a threshold > 0."""
        ...

    def copy(self) -> "LossEstimator":
        """Another one that has seen the same."""
        ...


class EstimatorBank(Protocol):
    """An estimator at work on all threads of a bundle."""

    def observe(self, samples: Floats, loss: Floats, fresh: Bools) -> None:
        """Learn from a unit of time; all arrays [k].

        Args:
            samples: batches learned up to its end.
            loss: mean over its batches, read where `fresh`.
            fresh: threads that learned a batch in it.
        """
        ...

    def needs(self, thresholds: Floats) -> Needs:
        """Needs of all threads, [k]. The arrays are the bank's own, written anew at each call."""
        ...


class Estimator(Protocol):
    """Parameters of a way of foretelling: a frozen dataclass."""

    @property
    def name(self) -> str:
        """As tables name it."""
        ...

    def start(self) -> LossEstimator:
        """At work on one thread, that has learned nothing."""
        ...

    def start_bank(self, num_threads: int) -> EstimatorBank:
        """At work on so many."""
        ...
