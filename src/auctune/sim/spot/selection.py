"""Online selection of a policy over many jobs, and the learners that may do it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.experts import (
    AdaptiveGradient,
    Anytime,
    ExponentiatedGradient,
    FixedShare,
    KnownRounds,
    SlidingWindow,
    UtilityScale,
    Weights,
    draw,
    heaviest,
)
from auctune.numerics.rng import stream
from auctune.sim.spot.trials import Trials
from auctune.spot import least_utility

LearnerName = Literal["known", "anytime", "adaptive", "share", "window"]

LEARNERS: tuple[LearnerName, ...] = ("adaptive", "known", "anytime", "share", "window")


class Learner(Protocol):
    """Weights that learn, and a bound on their regret."""

    def start(self, num_policies: int) -> Weights:
        """Before the first job."""
        ...

    def bound(self, weights: Weights, num_policies: int, num_jobs: int) -> float | None:
        """Return the bound of the regret after `num_jobs` jobs, or None if none is stated."""
        ...


@dataclass(frozen=True, slots=True)
class Gradient:
    """Exponentiated gradient, at a rate for K jobs or for any number."""

    rate: KnownRounds | Anytime

    def start(self, num_policies: int) -> Weights:
        return ExponentiatedGradient(num_policies, self.rate)

    def bound(self, weights: Weights, num_policies: int, num_jobs: int) -> float:
        if isinstance(self.rate, KnownRounds):
            num_jobs = self.rate.num_rounds
        return self.rate.regret_bound(num_policies, num_jobs)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """AdaHedge: its bound is made of what the jobs were like."""

    def start(self, num_policies: int) -> Weights:
        return AdaptiveGradient(num_policies)

    def bound(self, weights: Weights, num_policies: int, num_jobs: int) -> float:
        assert isinstance(weights, AdaptiveGradient)
        return weights.regret_bound()


@dataclass(frozen=True, slots=True)
class Share:
    """Fixed share, tuned for K jobs and S changes; its bound is against so many changes."""

    num_jobs: int
    num_changes: int

    def start(self, num_policies: int) -> Weights:
        return FixedShare.tuned(num_policies, self.num_jobs, self.num_changes)

    def bound(self, weights: Weights, num_policies: int, num_jobs: int) -> float:
        assert isinstance(weights, FixedShare)
        return weights.regret_bound(num_jobs, min(self.num_changes, num_jobs - 1))


@dataclass(frozen=True, slots=True)
class Window:
    """Sliding window of jobs, at the rate that would suit as many jobs as it remembers."""

    length: int

    def start(self, num_policies: int) -> Weights:
        # One policy has nothing to learn, at any rate above 0.
        eta = KnownRounds(self.length).eta(num_policies, 1) or 1.0
        return SlidingWindow(num_policies, eta, self.length)

    def bound(self, weights: Weights, num_policies: int, num_jobs: int) -> None:
        return


def make_learner(name: LearnerName, num_jobs: int, num_changes: int, window: int) -> Learner:
    """Return a learner by its name.

    Args:
        name: one of `LEARNERS`.
        num_jobs: K, for who must know it.
        num_changes: S, for `share`.
        window: jobs remembered, for `window`.

    Raises:
        InputError: naming what a learner cannot use.
    """
    if name == "share":
        made: Learner = Share(num_jobs, num_changes)
    elif name == "window":
        made = Window(window)
    elif name == "adaptive":
        made = Adaptive()
    else:
        made = Gradient(KnownRounds(num_jobs) if name == "known" else Anytime())
    made.start(2)
    return made


# Selecting among policies while jobs come one after the other (Kong et al., arXiv 2512.20967,
# Algorithm 2).
#
# After each job every policy is known by what it would have made of it. Utilities are scaled by
# bounds fixed before the first job, u = (U - U_min) / (v - U_min), and a learner of
# `auctune.numerics` weighs the policies. Each job is run by one drawn from the weights, or by the
# heaviest; or its utility is the weighted mean, of which alone regret has a bound:
#
# regret after k jobs = max over m of sum (u_m - <w, u>) of the best fixed policy,
#
# or of the best sequence with at most S changes, where the market drifts.

Choice = Literal["draw", "heaviest", "mean"]

CHOICES: tuple[Choice, ...] = ("draw", "heaviest", "mean")


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """What a selector made of k jobs and m policies.

    Attributes:
        weights: [k + 1, m] before each job, and after the last.
        chosen: [k] the policy that ran each job; -1 where the weighted mean counts.
        money: [k] utility of each job as it was run, in units of the on-demand price.
        regret: [k] of the weighted mean after each job, against the best fixed policy so far or
            the best sequence, in scaled utility.
        bound: [k] on it; not a number where none is stated.
        best: [k] the policies of the best sequence over all jobs; all the same where it is fixed.
    """

    weights: Floats
    chosen: Ints
    money: Floats
    regret: Floats
    bound: Floats
    best: Ints


def scale_of(trials: Trials) -> UtilityScale:
    """Return the bounds of any job's utility, fixed before the first."""
    price, jobs = trials.highest_price, trials.jobs
    least = min(least_utility(job, price) for job in jobs)
    return UtilityScale(least, float(max(job.value for job in jobs)))


def select(
    utility: Floats,
    scale: UtilityScale,
    learner: Learner,
    choice: Choice,
    *,
    num_changes: int = 0,
    seed: int = 0,
) -> Selection:
    """Go through the jobs one by one.

    Args:
        utility: [k, m] of each job under each policy, in money.
        scale: its bounds.
        learner: how to weigh.
        choice: how a job is run.
        num_changes: S of the best sequence that regret is measured against; 0: the best fixed.
        seed: of draws.
    """
    num_jobs, num_policies = utility.shape
    scaled = scale.scaled(utility)
    state = learner.start(num_policies)
    weights = np.empty((num_jobs + 1, num_policies))
    chosen = np.full(num_jobs, -1, dtype=np.int64)
    bound = np.full(num_jobs, np.nan)
    for k in range(num_jobs):
        weights[k] = state.weights
        if choice != "mean":
            random = stream(seed, "selected", k)
            chosen[k] = draw(weights[k], random) if choice == "draw" else heaviest(weights[k])
        state.update(scaled[k])
        limit = learner.bound(state, num_policies, k + 1)
        bound[k] = np.nan if limit is None else limit
    weights[-1] = state.weights
    mean = np.einsum("km,km->k", weights[:-1], utility)
    rows = np.arange(num_jobs)
    reached, best = best_sequence(scaled, num_changes)
    return Selection(
        weights=weights,
        chosen=chosen,
        money=mean if choice == "mean" else utility[rows, chosen],
        regret=reached - np.cumsum(np.einsum("km,km->k", weights[:-1], scaled)),
        bound=bound,
        best=best,
    )


def best_sequence(utility: Floats, num_changes: int) -> tuple[Floats, Ints]:
    """Return the best sequences of policies with at most S changes.

    Args:
        utility: [k, m].
        num_changes: S.

    Returns:
        [k] the most utility of the first jobs together, each with a sequence of its own; [k] the
        policies of the sequence over all jobs.
    """
    num_jobs, num_policies = utility.shape
    reach = np.full((num_changes + 1, num_policies), -np.inf)
    reach[0] = 0.0
    # came[k, s, m]: whether the policy of job k - 1 was another one.
    came = np.zeros((num_jobs, num_changes + 1, num_policies), dtype=bool)
    before = np.zeros((num_jobs, num_changes + 1), dtype=np.int64)
    most = np.empty(num_jobs)
    for k in range(num_jobs):
        before[k] = reach.argmax(axis=1)
        changed = np.full_like(reach, -np.inf)
        changed[1:] = reach.max(axis=1)[:-1, None]
        came[k] = changed > reach
        reach = np.maximum(reach, changed) + utility[k]
        most[k] = reach.max()
    left, policy = np.unravel_index(int(reach.argmax()), reach.shape)
    return most, _trace_back(came, before, int(left), int(policy))


def _trace_back(came: Ints, before: Ints, left: int, policy: int) -> Ints:
    path = np.empty(len(came), dtype=np.int64)
    for k in range(len(came) - 1, -1, -1):
        path[k] = policy
        if came[k, left, policy]:
            left -= 1
            policy = int(before[k, left])
    return path


def share_of_best(selection: Selection, utility: Floats) -> float | None:
    """Money of the jobs as they were run, over that of the best fixed policy or sequence.

    None where the latter is not above 0.
    """
    best = float(utility[np.arange(len(utility)), selection.best].sum())
    return float(selection.money.sum()) / best if best > 0 else None


@dataclass(frozen=True, slots=True)
class PolicyGroup:
    """Policies that came to the same in every job: no learner can tell them apart.

    Attributes:
        first: the first of them.
        members: all of them, rising.
    """

    first: int
    members: tuple[int, ...]


def heaviest_ever(selection: Selection, utility: Floats, most: int) -> list[PolicyGroup]:
    """Groups of like policies, that with the most weight over all jobs first.

    Args:
        selection: with the weights.
        utility: [k, m] of each job under each policy.
        most: groups at most.
    """
    total = selection.weights.sum(axis=0)
    groups: dict[bytes, list[int]] = {}
    for policy in range(utility.shape[1]):
        groups.setdefault(utility[:, policy].tobytes(), []).append(policy)
    likes = [PolicyGroup(members[0], tuple(members)) for members in groups.values()]
    likes.sort(key=lambda group: -float(total[list(group.members)].sum()))
    return likes[:most]


def weight_of(selection: Selection, group: PolicyGroup) -> Floats:
    """[k + 1] of all policies of a group together."""
    return np.asarray(selection.weights[:, list(group.members)].sum(axis=1))


def name_of(group: PolicyGroup, names: Sequence[str]) -> str:
    """Return the first one's name, and how many there are beside it."""
    others = len(group.members) - 1
    return names[group.first] + (f" and {others} alike" if others else "")
