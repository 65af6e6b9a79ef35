"""What came of a bundle."""

from dataclasses import dataclass

from auctune.timeshare.arrays import Bools, Floats


@dataclass(frozen=True, slots=True, eq=False)
class BundleOutcome:
    """A bundle that was played to its end.

    Attributes:
        done: [k] whether a thread's observed loss came to its threshold in time.
        finish: [k] the unit's end at which it did; infinite where it did not.
        samples: [k] batches learned.
        shares: [t, k] of each unit.
        losses: [t, k] mean loss of each unit; NaN where a thread learned no batch.
        switches: how often a thread learned that had not learned in the unit before.
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
