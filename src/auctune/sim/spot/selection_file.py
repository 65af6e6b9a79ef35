"""What a selector did, job by job, as parquet."""

from collections.abc import Sequence
from typing import BinaryIO

import numpy as np
import polars as pl

from auctune.numerics.arrays import Floats
from auctune.sim.spot.selection import Selection
from auctune.sim.spot.trials import Trials


def write_selection(
    selection: Selection,
    utility: Floats,
    names: Sequence[str],
    trials: Trials,
    file: BinaryIO,
) -> None:
    """Write a row for each job and policy.

    `weight` is that before the job, `ran` whether the policy was drawn or the heaviest, `regret`
    and `bound` those after the job, the same in all its rows.

    Args:
        selection: what was done.
        utility: [k, m] of each job under each policy, in money.
        names: [m] of the policies.
        trials: the jobs.
        file: where to.
    """
    num, width = utility.shape
    starts = trials.starts
    pl.DataFrame(
        {
            "job": np.repeat(np.arange(num, dtype=np.int32), width),
            "market": np.repeat(np.array([s.market for s in starts], dtype=np.int32), width),
            "start": np.repeat(np.array([s.slot for s in starts], dtype=np.int32), width),
            "policy": list(names) * num,
            "utility": utility.ravel(),
            "weight": selection.weights[:-1].ravel(),
            "ran": (selection.chosen[:, None] == np.arange(width)).ravel(),
            "regret": np.repeat(selection.regret, width),
            "bound": pl.Series(np.repeat(selection.bound, width)).fill_nan(None),
        }
    ).write_parquet(file)
