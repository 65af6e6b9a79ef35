"""Baselines of Eris: Tiresias, AntMan and Liquid; each plays a whole instance, slot by slot.

A baseline has no prices of its own: its jobs are charged what their slots cost at the prices of
eq. 6, but no more than they are worth. Default numbers of workers are the best of 8, 16, 32 and 64
on the testbed, and so is Liquid's weight, of 0 to 0.75.

Workers are placed anew in each slot, and chunks with them. Pang et al. (TMC 2024, section VI-B)
place those of AntMan and Liquid once, at a job's arrival, and spread its data over them then.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from auctune.domain import InputError, Reason, round_money
from auctune.edge.decision import EdgeDecision, EdgePlan, SlotPlan
from auctune.edge.job import EdgeJob, check_most
from auctune.edge.ledger import EdgeLedger
from auctune.edge.market import EdgeMarket
from auctune.edge.prices import EdgePrices, PaperPrices, cost_of
from auctune.edge.search.problem import Subproblem, make_subproblem
from auctune.edge.search.search import chunks_of, write_plan
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.rng import stream

# A fixed number of workers for one job in one slot, as the baselines place them.
#
# Sites are taken by the unit price of a worker, sum_k w^k beta_r^k, the cheaper first; of equals
# the one that holds more. The server stands at the first of them where it fits beside a worker,
# and the chunks go to the workers: those that lie there first, then others, evenly as far as they
# reach.


@dataclass(slots=True, eq=False)
class RunningJob:
    """A job that a baseline runs.

    Attributes:
        job: which.
        remaining: [R] chunks not yet trained.
        num_workers: that it is to have.
        parts: what ran so far.
        cost: of that, at the prices of each slot before it was booked, money.
        served: worker-slots so far.
    """

    job: EdgeJob
    remaining: Ints
    num_workers: int
    parts: list[SlotPlan] = field(default_factory=list)
    cost: float = 0.0
    served: int = 0

    @property
    def is_done(self) -> bool:
        """Return whether all of its chunks are trained."""
        return not self.remaining.any()

    @property
    def plan(self) -> EdgePlan:
        return EdgePlan(tuple(self.parts))


def outcome(one: RunningJob | None, job_id: str) -> EdgeDecision:
    """Return the decision on a job, in hindsight: rejected if it did not finish."""
    if one is None or not one.is_done:
        return EdgeDecision(job_id, admitted=False, reason=Reason.NO_CAPACITY)
    utility = one.job.value(one.plan.finish)
    payment = round_money(min(one.cost, utility))
    return EdgeDecision(
        job_id,
        admitted=True,
        payment=payment,
        plan=one.plan,
        utility=utility,
        surplus=utility - float(payment),
    )


class SimulatedMarket:
    """The market as a baseline fills it, slot by slot.

    Args:
        market: the supply, empty.

    Attributes:
        ledger: what is sold.
    """

    def __init__(self, market: EdgeMarket) -> None:
        self.ledger = EdgeLedger(market)
        # One slot of it, so that nothing is computed of the others.
        self._slot = EdgeLedger(replace(market, slots=1))
        self._pricing = PaperPrices()

    def start(self, job: EdgeJob, num_workers: int) -> RunningJob:
        """Return a job that has not begun."""
        return RunningJob(job, chunks_of(self.ledger, job), num_workers)

    def run(self, one: RunningJob, slot: int, *, fewer: bool = False) -> bool:
        """Run a job in a slot with its workers, if they fit; or with fewer, where that will do.

        Returns:
            Whether it ran.
        """
        part = self.place(one, slot, fewer=fewer)
        if part is None:
            return False
        plan, prices = EdgePlan((part,)), self._pricing(self._slot)
        at_slot = EdgePrices(slot, prices.alpha, prices.beta)
        one.cost += cost_of(self.ledger, at_slot, one.job, plan)
        self.ledger.take(one.job, plan)
        for move in part.moves:
            one.remaining[self.ledger.index_of(move.origin)] -= move.chunks
        one.parts.append(part)
        one.served += sum(part.workers.values())
        return True

    def place(self, one: RunningJob, slot: int, *, fewer: bool = False) -> SlotPlan | None:
        """One slot of a job with its workers; None where they do not fit."""
        self._slot.used[0] = self.ledger.used[slot]
        self._slot.traffic[0] = self.ledger.traffic[slot]
        subproblem = make_subproblem(self._slot, self._pricing(self._slot), one.job, one.remaining)
        placement = _place_workers(subproblem, one.num_workers, fewer=fewer)
        if placement is None:
            return None
        server, able, room = placement
        trained = _fill(able, one.remaining, server, room, subproblem.chunk_mb)
        if not trained.any():
            return None
        taken = _from(trained, one.remaining)
        plan = write_plan(
            self.ledger, one.job, slot, np.array([server]), trained[None], taken[None]
        )
        return plan.slots[0]


def _place_workers(
    subproblem: Subproblem, num_workers: int, *, fewer: bool
) -> tuple[int, Ints, float] | None:
    """Site of the server, chunks [R] that the workers can train, MB of traffic remaining."""
    workers, chunks = subproblem.level_workers, subproblem.level_chunks
    price, levels = subproblem.worker_price[0], subproblem.levels[0]
    order = np.lexsort((-levels, price))
    beside = subproblem.levels_beside[0]
    standing = [site for site in order if beside[site] > 0] or [
        site for site in order if beside[site] == 0
    ]
    if not standing:
        return None
    server, wanted, room = int(standing[0]), num_workers, float(subproblem.room[0])
    steps = workers.tolist()
    able = np.zeros(len(price), dtype=np.int64)
    for site in (server, *(site for site in order if site != server)):
        if wanted < steps[1]:
            break
        most = int(beside[site] if site == server else levels[site])
        if site != server and subproblem.parameter_mb > 0:
            fits = int(room / subproblem.parameter_mb * (1 + 1e-9))
            most = min(most, bisect_right(steps, fits) - 1)
        level = min(most, bisect_right(steps, wanted) - 1)
        able[site] = chunks[level]
        wanted -= steps[level]
        if site != server:
            room -= subproblem.parameter_mb * steps[level]
    # Fewer than the next chunk needs are no workers short.
    short = wanted >= steps[1] and able.sum() < subproblem.data.sum()
    if not able.any() or (short and not fewer):
        return None
    return server, able, room


def _fill(able: Ints, remaining: Ints, server: int, room: float, chunk_mb: float) -> Ints:
    """[R] chunks that are trained: those at the workers' sites, then others as traffic allows."""
    trained = np.minimum(able, remaining)
    missing = int(min(able.sum(), remaining.sum()) - trained.sum())
    if chunk_mb > 0:
        missing = min(missing, int(room / chunk_mb * (1 + 1e-9)))
    for site in (server, *(site for site in range(len(able)) if site != server)):
        more = min(missing, int(able[site] - trained[site]))
        trained[site] += more
        missing -= more
    return trained


def _from(trained: Ints, remaining: Ints) -> Ints:
    """[R] where these chunks come from: most from where most remain."""
    taken: Ints = np.minimum(trained, remaining)
    missing = int(trained.sum() - taken.sum())
    rest: Floats = (remaining - taken).astype(np.float64)
    for site in np.argsort(-rest, kind="stable"):
        more = min(missing, int(remaining[site] - taken[site]))
        taken[site] += more
        missing -= more
    return taken


# Tiresias: two-dimensional least attained service, preemptive; Gu et al., NSDI 2019.
#
# In every slot the jobs with the least attained service (workers times slots) go first, in queues
# that a job leaves for the next one when its service passes a threshold; within a queue the
# earlier arrival goes first. Pang et al. (TMC 2024, section VI-B) write of the number of resources
# times the remaining workload instead: with `by="remaining"` the jobs with the fewest worker-slots
# to go are first. Each has a fixed number of workers. As they fit it: a job whose payoff turns
# negative, since what it has cost exceeds what it would still be worth, is dropped.


@dataclass(frozen=True, slots=True)
class Tiresias:
    """The scheduler.

    Attributes:
        workers: of every job.
        queue: of `attained`: worker-slots of service by which a job comes into the next queue;
            double for each one after it.
        by: what orders the jobs: the least attained service, or the least remaining one.
    """

    workers: int = 32
    queue: int = 16
    by: Literal["attained", "remaining"] = "attained"

    def __post_init__(self) -> None:
        for name in ("workers", "queue"):
            if getattr(self, name) < 1:
                raise InputError(name, f"{getattr(self, name)!r}", "a whole number >= 1")

    def play(self, market: EdgeMarket, jobs: Sequence[EdgeJob]) -> list[EdgeDecision]:
        simulated = SimulatedMarket(market)
        known = {job.id: simulated.start(job, self.workers) for job in jobs}
        waiting: list[RunningJob] = []
        for slot in range(market.slots):
            waiting += [known[job.id] for job in jobs if job.arrival == slot]
            waiting.sort(key=lambda one: (self._rank(one), one.job.arrival, one.job.id))
            for one in waiting:
                simulated.run(one, slot)
            waiting = [
                one for one in waiting if not one.is_done and one.cost <= one.job.value(slot + 1)
            ]
        return [outcome(_unless_a_loss(known[job.id]), job.id) for job in jobs]

    def _rank(self, one: RunningJob) -> float:
        if self.by == "remaining":
            return float(one.remaining.sum()) * one.job.epochs / one.job.chunks_per_worker_slot
        return (one.served // self.queue).bit_length()


def _unless_a_loss(one: RunningJob) -> RunningJob | None:
    return one if one.is_done and one.cost <= one.job.value(one.plan.finish) else None


# Liquid: network cost against the number of workers; Gu et al., TPDS 2022.
#
# At its arrival a job gets the number n of workers with the least
#
# weight * traffic(n) / B + (1 - weight) / n
#
# (what n workers send in a slot, and what n workers take of one worker's time), as Pang et al.
# (TMC 2024, section VI-B) fit it: min lambda cost + (1 - lambda) plan, with a plan that "mainly
# indicates the number of workers". It keeps that number, and waits, first come first served, while
# the workers do not fit.

# Each number of them is tried, for each job.
_MOST_WORKERS = 10_000


@dataclass(frozen=True, slots=True)
class Liquid:
    """The scheduler.

    Attributes:
        weight: of the network against time.
        most_workers: that a job may have.
    """

    weight: float = 0.1
    most_workers: int = 16

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise InputError("weight", f"{self.weight!r}", "a share from 0 to 1")
        if self.most_workers < 1:
            raise InputError("most_workers", f"{self.most_workers!r}", "a whole number >= 1")
        check_most(self.most_workers, "most_workers", _MOST_WORKERS)

    def play(self, market: EdgeMarket, jobs: Sequence[EdgeJob]) -> list[EdgeDecision]:
        simulated, empty = SimulatedMarket(market), SimulatedMarket(market)
        known: dict[str, RunningJob] = {}
        waiting: list[RunningJob] = []
        for slot in range(market.slots):
            for job in jobs:
                if job.arrival == slot:
                    known[job.id] = simulated.start(job, self._number(empty, job))
                    waiting.append(known[job.id])
            for one in sorted(waiting, key=lambda one: not one.parts):
                simulated.run(one, slot)
            waiting = [one for one in waiting if not one.is_done]
        return [outcome(known[job.id], job.id) for job in jobs]

    def _number(self, empty: SimulatedMarket, job: EdgeJob) -> int:
        """Return the best of the numbers that fit an empty market: no job waits for ever."""
        market = empty.ledger.market
        best, least = 1, float("inf")
        for count in range(1, self.most_workers + 1):
            part = empty.place(empty.start(job, count), job.arrival)
            if part is None:
                continue
            share = part.traffic_mb(job, market) / market.traffic_mb_per_slot
            score = self.weight * share + (1 - self.weight) / count
            if score < least:
                best, least = count, score
        return best


# AntMan: jobs with guaranteed resources, and opportunistic ones; Xiao et al., OSDI 2020.
#
# A guaranteed job waits, first come first served, until all its workers fit, and then has them
# until it is done. Opportunistic jobs share what is left of each slot, be it fewer workers. As
# Pang et al. (TMC 2024, section VI-B) fit it, a guaranteed job that has waited long becomes
# opportunistic. Who is guaranteed the paper does not say: a share of the jobs, drawn from a seed.


@dataclass(frozen=True, slots=True)
class AntMan:
    """The scheduler.

    Attributes:
        workers: of a guaranteed job; the most of an opportunistic one.
        guaranteed: share of the jobs.
        patience: slots that a guaranteed job waits.
        seed: of the draw of guaranteed jobs.
    """

    workers: int = 32
    guaranteed: float = 0.5
    patience: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise InputError("workers", f"{self.workers!r}", "a whole number >= 1")
        if not 0 <= self.guaranteed <= 1:
            raise InputError("guaranteed", f"{self.guaranteed!r}", "a share from 0 to 1")
        for name in ("patience", "seed"):
            if getattr(self, name) < 0:
                raise InputError(name, f"{getattr(self, name)!r}", "a whole number >= 0")

    def play(self, market: EdgeMarket, jobs: Sequence[EdgeJob]) -> list[EdgeDecision]:
        simulated = SimulatedMarket(market)
        known = {job.id: simulated.start(job, self.workers) for job in jobs}
        sure = {job.id for job in jobs if self._is_guaranteed(job)}
        waiting: list[RunningJob] = []
        for slot in range(market.slots):
            waiting += [known[job.id] for job in jobs if job.arrival == slot]
            # Who runs already keeps its workers.
            for one in sorted(waiting, key=lambda one: not one.parts):
                if one.job.id in sure and not simulated.run(one, slot) and not one.parts:
                    sure -= {one.job.id} if slot - one.job.arrival >= self.patience else set()
            for one in waiting:
                if one.job.id not in sure:
                    simulated.run(one, slot, fewer=True)
            waiting = [one for one in waiting if not one.is_done]
        return [outcome(known[job.id], job.id) for job in jobs]

    def _is_guaranteed(self, job: EdgeJob) -> bool:
        return bool(stream(self.seed, "antman", job.id).random() < self.guaranteed)
