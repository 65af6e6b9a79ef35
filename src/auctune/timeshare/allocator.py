"""The protocol of an allocator: what it observes, what it allocates, what comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from auctune.domain.errors import AuctuneError
from auctune.numerics.arrays import Bools, Floats
from auctune.timeshare.thread import LearningThread

# Sums of shares that are scaled to 1 miss it by rounding.
TOLERANCE = 1e-9


class InfeasibleSharesError(AuctuneError):
    """An allocator gives away what there is not."""


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """eta: shares >= 0 of the threads, whose sum is at most 1.

    Attributes:
        eta: [k] share of each thread.
    """

    eta: Floats

    def __post_init__(self) -> None:
        if self.eta.ndim != 1:
            raise InfeasibleSharesError(f"shares have {self.eta.ndim} dimensions; expected one")
        total = float(self.eta.sum())
        least = float(self.eta.min()) if len(self.eta) else 0.0
        # NaN passes no comparison.
        if not (least >= 0.0 and total <= 1.0 + TOLERANCE):
            raise InfeasibleSharesError(
                f"the least share is {least!r} and their sum {total!r}; expected >= 0 and <= 1"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """All threads of a bundle at the beginning of a unit of time.

    Attributes:
        time: tau, the unit that begins.
        samples: [k] n, batches that each thread has learned.
        batches_per_unit: [k] N > 0, batches that it would learn in a unit with the whole pool.
        loss: [k] mean over the batches of the unit before; read only where `fresh`.
        fresh: [k] whether it learned a batch in the unit before.
        done: [k] whether its observed loss has been at or under its threshold.
        received: [k] sum of its shares so far.
    """

    time: int
    samples: Floats
    batches_per_unit: Floats
    loss: Floats
    fresh: Bools
    done: Bools
    received: Floats


@dataclass(frozen=True, slots=True, eq=False)
class BundleOutcome:
    """A bundle that was played to its end.

    Attributes:
        done: [k] whether a thread's observed loss came to its threshold in time.
        finish: [k] the unit's end at which it did; infinite where it did not.
        samples: [k] batches learned.
        shares: [t, k] of each unit.
        losses: [t, k] mean loss of each unit; NaN where a thread learned no batch.
        switches: how often the pool turned to another thread, see `count_switches`.
    """

    done: Bools
    finish: Floats
    samples: Floats
    shares: Floats
    losses: Floats
    switches: int

    @property
    def num_done(self) -> int:
        """Threads that succeeded."""
        return int(self.done.sum())


def count_switches(learned: Bools) -> int:
    """Return how often a pool that trains one thread at a time turned to another one.

    Threads of a unit of time train one after the other. The first is one that trained in the unit
    before, if there is such a thread.

    Args:
        learned: [t, k] whether a thread learned in a unit.
    """
    busy = learned[learned.any(axis=1)]
    return int(busy.sum() - (busy[1:] & busy[:-1]).any(axis=1).sum())


class AllocatorRun(Protocol):
    """An allocator at work on one bundle. It has no clock and does no I/O."""

    def allocate(self, observation: Observation) -> Shares:
        """Return the shares of the unit that begins; asked once a unit, in order."""
        ...


class Allocator(Protocol):
    """Parameters of a way of sharing: a frozen dataclass that starts a run for each bundle."""

    @property
    def name(self) -> str:
        """As tables name it, parameters included."""
        ...

    def start(self, threads: Sequence[LearningThread]) -> AllocatorRun:
        """Return a run for one bundle from unit 0.

        Raises:
            InputError: if there are no threads, or two of one id.
        """
        ...
