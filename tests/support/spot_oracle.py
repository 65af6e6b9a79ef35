"""The oracle of renting by deadline: every allocation, by the definitions, in exact fractions.

It shares no code with what it checks.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product

from auctune.spot import InstanceStart, LinearScaling, SpotJob, TableScaling
from auctune.spot.account import JobConstants

Held = tuple[int, int]


def exact(value: float) -> Fraction:
    return Fraction(repr(float(value)))


def on_grid(terms: JobConstants, units: int) -> Fraction:
    """Return the work of so many units of an exact grid.

    As a rounded float, it would leave a job that just ends in time late, and without its value.
    """
    return Fraction(units * terms.step).limit_denominator(10_000)


def start_of(overhead: InstanceStart) -> Fraction:
    """The ratio of two times that a float stands for."""
    return Fraction(overhead.slots).limit_denominator(10_000)


def throughput(job: SpotJob, count: int) -> Fraction:
    if count == 0:
        return Fraction(0)
    if isinstance(job.scaling, TableScaling):
        return exact(job.scaling.table[count - 1])
    assert isinstance(job.scaling, LinearScaling)
    return exact(job.scaling.a) * count + exact(job.scaling.c)


def held_together(job: SpotJob, count: int) -> Fraction:
    """H(n) of those that work: fewer than N_min do nothing."""
    return throughput(job, count) if count >= job.n_min else Fraction(0)


def slot_work(job: SpotJob, held: Held, last: Held) -> Fraction:
    """Work of a slot, where no start lasts longer than a slot."""
    count, before = sum(held), sum(last)
    if isinstance(job.overhead, InstanceStart):
        start = start_of(job.overhead)
        kept = sum(min(now, then) for now, then in zip(held, last, strict=True))
        return start * held_together(job, kept) + (1 - start) * held_together(job, count)
    share = Fraction(1)
    if count != before:
        share = exact(job.overhead.mu1 if count > before else job.overhead.mu2)
    return share * throughput(job, count)


class Instances:
    """Instances by kind, with the slots that each needs until it works, the oldest first."""

    def __init__(self, job: SpotJob, last: Held) -> None:
        assert isinstance(job.overhead, InstanceStart)
        self.job, self.start = job, start_of(job.overhead)
        self.needs = [[Fraction(0)] * count for count in last]

    def run_slot(self, held: Held, length: Fraction = Fraction(1)) -> Fraction:
        """Hold these for a slot, or the first part of one; the work that is done."""
        for kind, count in enumerate(held):
            kept = self.needs[kind][:count]
            self.needs[kind] = kept + [self.start] * (count - len(kept))
        both = [need for needs in self.needs for need in needs]
        times = sorted({Fraction(0), length, *(need for need in both if need < length)})
        work = sum(
            (
                (until - since) * held_together(self.job, sum(need <= since for need in both))
                for since, until in pairwise(times)
            ),
            Fraction(0),
        )
        self.needs = [[max(need - 1, Fraction(0)) for need in needs] for needs in self.needs]
        return work


def value_at(job: SpotJob, finish: Fraction) -> Fraction:
    soft, hard = Fraction(job.deadline), exact(job.hard_factor) * job.deadline
    if finish <= soft:
        return exact(job.value)
    if finish > hard:
        return Fraction(0)
    return exact(job.value) * (1 - (finish - soft) / (hard - soft))


def ending(job: SpotJob, rest: Fraction, kept: Sequence[Fraction] = ()) -> Fraction:
    """delta; by instance `kept` has what each on-demand GPU that is held still needs to start."""
    if rest <= 0:
        return Fraction(0)
    most = throughput(job, job.n_max)
    if isinstance(job.overhead, InstanceStart):
        lead = max(
            held_together(job, n) - held_together(job, n - 1) for n in range(1, job.n_max + 1)
        )
        lost = start_of(job.overhead) * (most - held_together(job, len(kept)))
        return (rest + lead * sum(kept) + lost) / most
    return rest / (exact(job.overhead.mu1) * most)


def worth(
    job: SpotJob, on_demand: Fraction, rest: Fraction, kept: Sequence[Fraction] = ()
) -> Fraction:
    """V(d + delta) - p_o N_max delta."""
    delta = ending(job, rest, kept)
    return value_at(job, job.deadline + delta) - on_demand * job.n_max * delta


def all_held(job: SpotJob, available: int) -> list[Held]:
    return [
        (on_demand, spot)
        for on_demand in range(job.n_max + 1)
        for spot in range(available + 1)
        if on_demand + spot == 0 or job.n_min <= on_demand + spot <= job.n_max
    ]


def outcome(
    job: SpotJob,
    prices: Sequence[float],
    on_demand: float,
    held: Sequence[Held],
    progress: Fraction = Fraction(0),
    last: Held = (0, 0),
) -> tuple[Fraction, Fraction, Sequence[Fraction]]:
    """Work done and money spent by an allocation, and the on-demand GPUs at its end."""
    done, cost = progress, Fraction(0)
    by_instance = isinstance(job.overhead, InstanceStart)
    instances = Instances(job, last) if by_instance else None
    for now, price in zip(held, prices, strict=True):
        done += slot_work(job, now, last) if instances is None else instances.run_slot(now)
        cost += now[0] * exact(on_demand) + now[1] * exact(price)
        last = now
    return done, cost, () if instances is None else instances.needs[0]


def best_value(
    job: SpotJob,
    prices: Sequence[float],
    available: Sequence[int],
    on_demand: float,
    *,
    slot: int = 0,
    progress: Fraction = Fraction(0),
    last: Held = (0, 0),
) -> Fraction:
    """The most that the slots from `slot` on can bring, with a target of L e / d at their end."""
    end = slot + len(prices)
    target = exact(job.workload) * end / job.deadline
    return max(
        worth(job, exact(on_demand), target - done, kept) - cost
        for done, cost, kept in (
            outcome(job, prices, on_demand, held, progress, last) for held in _ways(job, available)
        )
    )


def _ways(job: SpotJob, available: Sequence[int]) -> Iterator[tuple[Held, ...]]:
    return product(*(all_held(job, count) for count in available))


def best_expected(
    job: SpotJob,
    scenarios: Sequence[Sequence[tuple[float, int]]],
    transition: Sequence[Sequence[Fraction]],
    scenario: int,
    on_demand: float,
    late: Fraction,
    dear: Fraction,
    *,
    progress: Fraction,
    last: Held,
) -> Fraction:
    """The most that can be expected of slots that bring one (price, count) of their scenarios each.

    The first row is the next slot; `scenario` is the row of the transitions that the slot before
    it has. Being late costs `late`, and each unit of cost `dear` more.
    """
    if not scenarios:
        rest = exact(job.workload) - progress
        kept = [Fraction(0)] * last[0]
        delta = ending(job, rest, kept)
        extra = dear * exact(on_demand) * job.n_max * delta + (late if rest > 0 else 0)
        return worth(job, exact(on_demand), rest, kept) - extra
    total = Fraction(0)
    for i, (price, available) in enumerate(scenarios[0]):
        chance = transition[scenario][i]
        if chance == 0:
            continue
        values = []
        for dearer, cheaper in all_held(job, available):
            cost = dearer * exact(on_demand) + cheaper * exact(price)
            done = progress + slot_work(job, (dearer, cheaper), last)
            then = best_expected(
                job,
                scenarios[1:],
                transition,
                i,
                on_demand,
                late,
                dear,
                progress=done,
                last=(dearer, cheaper),
            )
            values.append(then - (1 + dear) * cost)
        total += chance * max(values)
    return total
