"""What an allocator sees when a unit of time begins."""

from dataclasses import dataclass

from auctune.timeshare.arrays import Bools, Floats


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
