"""Many allocators on the same bundles: threads done, beside the clairvoyant optimum."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import polars as pl

from auctune.numerics.arrays import Floats
from auctune.numerics.estimates import Estimate, mean_of, ratio_of
from auctune.sim.timeshare.recorded import RecordedBundle
from auctune.timeshare import Allocator, BundleOutcome

Advance = Callable[[], None]
"""Told of each bundle that was played by all."""


@dataclass(frozen=True, slots=True)
class AllocatorScore:
    """What an allocator makes of the bundles.

    Attributes:
        name: the allocator's.
        done: mean number of threads done.
        of_optimum: that over the optimum's; None where that does none.
        switches: mean number of turns.
        above: mean of how many more are done than by the first allocator.
    """

    name: str
    done: Estimate
    of_optimum: Estimate | None
    switches: Estimate
    above: Estimate


@dataclass(frozen=True, slots=True, eq=False)
class AllocatorComparison:
    """All that was played; j bundles, m allocators.

    Attributes:
        bundles: [j] names.
        allocators: [m] names.
        done, switches: [j, m] threads done, turns.
        optimum: [j] the most that could have been done.
    """

    bundles: tuple[str, ...]
    allocators: tuple[str, ...]
    done: Floats
    switches: Floats
    optimum: Floats

    def score(self, allocator: int) -> AllocatorScore:
        """Return the score of an allocator."""
        done = self.done[:, allocator]
        return AllocatorScore(
            self.allocators[allocator],
            mean_of(done),
            ratio_of(done, self.optimum),
            mean_of(self.switches[:, allocator]),
            mean_of(done - self.done[:, 0]),
        )


def compare_allocators(
    bundles: Sequence[RecordedBundle],
    allocators: Sequence[Allocator],
    advance: Advance | None = None,
) -> AllocatorComparison:
    """Play all allocators on all bundles; one of each at least."""
    done = np.zeros((len(bundles), len(allocators)))
    switches, optimum = np.zeros_like(done), np.zeros(len(bundles))
    for j, bundle in enumerate(bundles):
        optimum[j] = bundle.optimum().num_done
        for m, allocator in enumerate(allocators):
            outcome = bundle.play(allocator)
            done[j, m], switches[j, m] = outcome.num_done, outcome.switches
        if advance is not None:
            advance()
    names = tuple(allocator.name for allocator in allocators)
    return AllocatorComparison(
        tuple(bundle.name for bundle in bundles), names, done, switches, optimum
    )


def write_comparison(comparison: AllocatorComparison, file: BinaryIO) -> None:
    """Write a row for each bundle and allocator, as parquet."""
    num, width = comparison.done.shape
    pl.DataFrame(
        {
            "bundle": np.repeat(np.array(comparison.bundles), width),
            "allocator": list(comparison.allocators) * num,
            "done": comparison.done.ravel().astype(np.int32),
            "switches": comparison.switches.ravel().astype(np.int32),
            "optimum": np.repeat(comparison.optimum.astype(np.int32), width),
        }
    ).write_parquet(file)


def write_play(bundle: RecordedBundle, outcome: BundleOutcome, file: BinaryIO) -> None:
    """Write a row for each unit of time and thread, as parquet."""
    num_units, num_threads = outcome.shares.shape
    ids = [thread.id for thread in bundle.threads]
    pl.DataFrame(
        {
            "unit": np.repeat(np.arange(num_units, dtype=np.int32), num_threads),
            "thread": ids * num_units,
            "share": outcome.shares.ravel(),
            "loss": pl.Series(outcome.losses.ravel()).fill_nan(None),
        }
    ).write_parquet(file)
