"""The account of a job: what a slot with given instances does, starts of instances included.

What is held in a slot is one number, its state: by total the count of GPUs, whose cheapest split
into kinds follows from the slot's price; by instance on-demand GPUs * (N_max + 1) + spot GPUs.
`work_of` is the work of a slot by its state and the state before, as plans count it; `run_slot` is
the same slot as it runs, with starts that go on from slot to slot. Simulated jobs, pools of
policies and real runs all go by it.
"""

import math
from typing import NamedTuple

import numpy as np

from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel
from auctune.spot.grid import GROWN, KEPT, SHRUNK, UNCHANGED, WorkGrid, plan_grid, slot_works
from auctune.spot.job import InstanceStart, SpotJob
from auctune.spot.policy import IDLE, SpotAllocation

# Work that differs from a target by less than this share of the workload meets it: sums of tenths
# are not exact in binary.
TOLERANCE = 1e-9


class JobConstants(NamedTuple):
    """One job in one market's units.

    Attributes:
        workload, num_slots, hard_deadline, value: L, d, g d, v.
        n_min, n_max: bounds on the count.
        on_demand_price: p_o.
        share: [3] of a slot that is left for work, by the rows of `slot_works`.
        work: [3, n] by the same rows.
        step: of the work grid.
        units: [3, n] steps of the grid, by the same rows.
        by_instance: 1 for the account by instance, 0 for that by total.
        start: slots that an instance takes to start; 0 by total.
        lead: the most work that one more GPU adds to a slot.
        debt: steps of the grid by which starts can put the work that is counted below that done.
    """

    workload: float
    num_slots: int
    hard_deadline: float
    value: float
    n_min: int
    n_max: int
    on_demand_price: float
    share: Floats
    work: Floats
    step: float
    units: Ints
    by_instance: int
    start: float
    lead: float
    debt: int


def job_constants(
    job: SpotJob, on_demand_price: float, grid: WorkGrid | None = None
) -> JobConstants:
    """Return the terms of a job; `grid` is that of plans unless another is given."""
    grid = grid or plan_grid(job)
    overhead = job.overhead
    if isinstance(overhead, InstanceStart):
        start, share = float(overhead.exact), [float(1 - overhead.exact), 1.0, 1.0]
    else:
        start, share = 0.0, [overhead.mu1, overhead.mu2, 1.0]
    work = np.array([[float(work) for work in row] for row in slot_works(job)])
    return JobConstants(
        workload=float(job.workload),
        num_slots=job.deadline,
        hard_deadline=float(job.hard_deadline),
        value=float(job.value),
        n_min=job.n_min,
        n_max=job.n_max,
        on_demand_price=float(on_demand_price),
        share=np.array(share),
        work=work,
        step=grid.step,
        units=grid.units,
        by_instance=int(isinstance(overhead, InstanceStart)),
        start=start,
        lead=float(np.diff(work[UNCHANGED]).max()),
        debt=max(0, -int(grid.units[GROWN].min())),
    )


@kernel
def change(count: int, last: int) -> int:
    """Return the row of a slot that holds `count` > 0 GPUs after one that held `last`."""
    if count > last:
        return GROWN
    return SHRUNK if count < last else UNCHANGED


@kernel
def num_states(terms: JobConstants) -> int:
    """Return the number of states, those that cannot be held included."""
    return (terms.n_max + 1) ** 2 if terms.by_instance else terms.n_max + 1


@kernel
def state_of(terms: JobConstants, on_demand: int, spot: int) -> int:
    """Return the state of a slot with these GPUs."""
    return on_demand * (terms.n_max + 1) + spot if terms.by_instance else on_demand + spot


@kernel
def on_demand_of(terms: JobConstants, state: int) -> int:
    """Return the on-demand GPUs of a state; by total they do not matter, and 0 stands for all."""
    return state // (terms.n_max + 1) if terms.by_instance else 0


@kernel
def total_of(terms: JobConstants, state: int) -> int:
    """Return the GPUs of a state."""
    if terms.by_instance:
        return state // (terms.n_max + 1) + state % (terms.n_max + 1)
    return state


@kernel
def can_be_held(terms: JobConstants, state: int) -> bool:
    """Return whether a state keeps N_min and N_max."""
    total = total_of(terms, state)
    return total == 0 or terms.n_min <= total <= terms.n_max


@kernel
def kept_of(terms: JobConstants, last: int, state: int) -> int:
    """Return the GPUs of a state that were held in the slot before, by instance."""
    side = terms.n_max + 1
    return min(last // side, state // side) + min(last % side, state % side)


@kernel
def work_of(terms: JobConstants, state: int, last: int) -> float:
    """Return the work of a slot in a state after one in the state `last`.

    By total mu H(n). By instance H(n) less what those that are started cost: where a start goes on
    in the next slot, its work is counted off now, and the sum may be below 0.
    """
    if terms.by_instance:
        kept = terms.work[KEPT, kept_of(terms, last, state)]
        return float(terms.work[GROWN, total_of(terms, state)] + kept)
    return float(terms.work[change(state, last), state])


@kernel
def units_of(terms: JobConstants, state: int, last: int) -> int:
    """Return `work_of` in steps of the grid."""
    if terms.by_instance:
        kept = terms.units[KEPT, kept_of(terms, last, state)]
        return int(terms.units[GROWN, total_of(terms, state)] + kept)
    return int(terms.units[change(state, last), state])


@kernel
def remaining_work(terms: JobConstants, progress: float) -> float:
    """(L - Z)^+: work still to do; 0 within the tolerance."""
    rest = terms.workload - progress
    return rest if rest > TOLERANCE * terms.workload else 0.0


# The account by instance where a start goes on from slot to slot: `starting` is [2, n], for
# on-demand and spot the slots that each instance needs until it works, the oldest first.


@kernel
def start_instances(
    terms: JobConstants, starting: Floats, last: tuple[int, int], held: tuple[int, int]
) -> None:
    """Begin a slot: instances beyond those of the slot before are started."""
    for kind in range(2):
        for i in range(last[kind], held[kind]):
            starting[kind, i] = terms.start


@kernel
def work_while_starting(
    terms: JobConstants, starting: Floats, held: tuple[int, int], rest: float
) -> tuple[float, float]:
    """Return the work of a slot, and the time within it at which `rest` is done.

    The work is H of the instances that work, over time; the time is 1 if the rest is more.
    """
    work, since, finish, i, j = 0.0, 0.0, 1.0, 0, 0
    while since < 1.0:
        on_demand = starting[0, i] if i < held[0] else 1.0
        spot = starting[1, j] if j < held[1] else 1.0
        until, rate = min(on_demand, spot, 1.0), terms.work[UNCHANGED, i + j]
        if work < rest <= work + (until - since) * rate:
            finish = since + (rest - work) / rate
        work += (until - since) * rate
        since = until
        if on_demand <= spot:
            i += 1
        else:
            j += 1
    return work, finish


@kernel
def end_slot(starting: Floats, held: tuple[int, int]) -> float:
    """End a slot; return the slots that all instances held together still need to start."""
    owed = 0.0
    for kind in range(2):
        for i in range(held[kind]):
            starting[kind, i] = max(starting[kind, i] - 1.0, 0.0)
            owed += starting[kind, i]
    return owed


@kernel
def owed_by_on_demand(terms: JobConstants, starting: Floats, on_demand: int) -> float:
    """Return the work that on-demand GPUs will not do while they still start."""
    owed = 0.0
    for i in range(on_demand):
        owed += starting[0, i]
    return terms.lead * owed


@kernel
def effective_progress(terms: JobConstants, progress: float, owed: float) -> float:
    """Return the work done less what starts that go on will still cost: what plans count on."""
    return progress - terms.lead * owed


@kernel
def run_slot(
    terms: JobConstants,
    starting: Floats,
    last: tuple[int, int],
    held: tuple[int, int],
    rest: float,
) -> tuple[float, float, float, float]:
    """Work off one slot.

    Args:
        terms: the job.
        starting: [2, n] slots that each instance needs until it works, by instance; updated.
        last, held: (on-demand, spot) GPUs of the slot before and of this one.
        rest: work to do as it begins.

    Returns:
        The work done; the share of the slot left for it by overhead; the time within the slot at
        which `rest` is done, 1 if it is not; slots that instances still need to start.
    """
    count = held[0] + held[1]
    if terms.by_instance:
        start_instances(terms, starting, last, held)
        work, finish = work_while_starting(terms, starting, held, rest)
        share = work / terms.work[UNCHANGED, count] if count > 0 else 1.0
        return work, share, finish, end_slot(starting, held)
    if count == 0:
        return 0.0, 1.0, 1.0, 0.0
    row = change(count, last[0] + last[1])
    # The slot begins with its overhead; the work comes after it.
    finish = min(1.0 - terms.share[row] + rest / terms.work[UNCHANGED, count], 1.0)
    return terms.work[row, count], terms.share[row], finish, 0.0


class SlotWork(NamedTuple):
    """Work of a slot.

    Attributes:
        work: done in it.
        share: of that in what the instances would do without overhead.
        finish: time within it at which the rest of the work is done; 1 if it is not.
    """

    work: float
    share: float
    finish: float


class HeldInstances:
    """What a job holds from slot to slot, and what the changes cost.

    Attributes:
        last: held in the newest slot.
        starting: [2, n] slots that each instance needs until it works.
        owed: slots that its instances still need to start, all together.
    """

    def __init__(self, terms: JobConstants) -> None:
        self._terms = terms
        self.starting = np.zeros((2, terms.n_max))
        self.last = IDLE
        self.owed = 0.0

    def run_slot(self, allocation: SpotAllocation, rest: float = math.inf) -> SlotWork:
        """Hold instances for a slot that begins with `rest` of the work to do."""
        last, self.last = self.last, allocation
        work, share, finish, self.owed = run_slot(
            self._terms,
            self.starting,
            (last.on_demand, last.spot),
            (allocation.on_demand, allocation.spot),
            rest,
        )
        return SlotWork(work, share, finish)

    def lose_spot(self, count: int) -> None:
        """Drop the newest spot instances, which were preempted within the newest slot.

        By total nothing changes: that account goes by what slots begin with.
        """
        if not self._terms.by_instance:
            return
        on_demand, spot = self.last.on_demand, self.last.spot - count
        self.last = SpotAllocation(on_demand, spot)
        self.owed = float(self.starting[0, :on_demand].sum() + self.starting[1, :spot].sum())

    def overtime_starts(self) -> float:
        """Return the slots after d that starts cost the N_max on-demand GPUs; 0 by total."""
        terms, on_demand = self._terms, self.last.on_demand
        if not terms.by_instance:
            return 0.0
        owed = owed_by_on_demand(terms, self.starting, on_demand)
        most, kept = terms.work[UNCHANGED, terms.n_max], terms.work[UNCHANGED, on_demand]
        return float((owed + terms.start * (most - kept)) / most)
