"""Many policies on the same trials: money, deadlines, and the share of the offline optimum."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import polars as pl

from auctune.numerics.arrays import Floats
from auctune.sim.spot.estimate import Estimate, mean_of, ratio_of
from auctune.sim.spot.trials import Trials
from auctune.spot import BatchOutcome, Policy, offline_optimum, play_batch

# A finish so little after the deadline is rounding.
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Standing:
    """What a policy makes of the trials.

    Attributes:
        name: the policy's.
        utility, cost: means, in units of the on-demand price.
        on_time: share of the trials done by the soft deadline.
        of_optimum: mean utility over the optimum's; none where that is not above 0.
    """

    name: str
    utility: Estimate
    cost: Estimate
    on_time: Estimate
    of_optimum: Estimate | None


@dataclass(frozen=True, slots=True, eq=False)
class Rivalry:
    """All that was played; j trials, m policies.

    Attributes:
        trials: on which.
        names: [m] of the policies.
        outcome: [j, m].
        optimum: [j] the most utility there was to have.
    """

    trials: Trials
    names: tuple[str, ...]
    outcome: BatchOutcome
    optimum: Floats

    def standing(self, policy: int) -> Standing:
        """Of one policy."""
        utility = self.outcome.utility[:, policy]
        late = self.outcome.finish[:, policy] > self.trials.job.deadline + _SLACK
        return Standing(
            self.names[policy],
            mean_of(utility),
            mean_of(self.outcome.cost[:, policy]),
            mean_of((~late).astype(np.float64)),
            ratio_of(utility, self.optimum),
        )

    def ranked(self) -> list[int]:
        """Policies from the highest mean utility down; of equals the first first."""
        mean = self.outcome.utility.mean(axis=0)
        return [int(index) for index in np.argsort(-mean, kind="stable")]


def play_all(trials: Trials, policies: Sequence[Policy]) -> Rivalry:
    """Play all policies, and find the optimum of each trial."""
    # Before what may take long: it is the larger program, and refused where it has no room.
    optimum = optimum_of(trials)
    outcome = play_batch(policies, trials.jobs, trials.markets, trials.forecasts)
    return Rivalry(trials, tuple(policy.name for policy in policies), outcome, optimum)


def optimum_of(trials: Trials) -> Floats:
    """[j] the most utility that there is to have."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = threads.map(offline_optimum, trials.jobs, trials.markets)
        return np.array([optimum.utility for optimum in found])


def write_rivalry(rivalry: Rivalry, file: BinaryIO) -> None:
    """Write a row for each trial and policy, as parquet."""
    trials, outcome = rivalry.trials, rivalry.outcome
    num, width = trials.num_trials, len(rivalry.names)
    starts = trials.starts
    pl.DataFrame(
        {
            "trial": np.repeat(np.arange(num, dtype=np.int32), width),
            "market": np.repeat(np.array([s.market for s in starts], dtype=np.int32), width),
            "start": np.repeat(np.array([s.slot for s in starts], dtype=np.int32), width),
            "workload": np.repeat([job.workload for job in trials.jobs], width),
            "n_min": np.repeat(np.array([j.n_min for j in trials.jobs], dtype=np.int32), width),
            "n_max": np.repeat(np.array([j.n_max for j in trials.jobs], dtype=np.int32), width),
            "policy": list(rivalry.names) * num,
            "value": outcome.value.ravel(),
            "cost": outcome.cost.ravel(),
            "finish": outcome.finish.ravel(),
            "utility": outcome.utility.ravel(),
            "optimum": np.repeat(rivalry.optimum, width),
        }
    ).write_parquet(file)
