"""The oracle of renting by deadline: every allocation, by the definitions, in exact fractions.

It shares no code with what it checks.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from auctune.spot import LinearScaling, SpotJob, TableScaling

Held = tuple[int, int]


def exact(value: float) -> Fraction:
    return Fraction(repr(float(value)))


def throughput(job: SpotJob, count: int) -> Fraction:
    if count == 0:
        return Fraction(0)
    if isinstance(job.scaling, TableScaling):
        return exact(job.scaling.table[count - 1])
    assert isinstance(job.scaling, LinearScaling)
    return exact(job.scaling.a) * count + exact(job.scaling.c)


def share(job: SpotJob, count: int, last: int) -> Fraction:
    if count > last:
        return exact(job.overhead.mu1)
    return exact(job.overhead.mu2) if count < last else Fraction(1)


def value_at(job: SpotJob, finish: Fraction) -> Fraction:
    soft, hard = Fraction(job.deadline), exact(job.hard_factor) * job.deadline
    if finish <= soft:
        return exact(job.value)
    if finish > hard:
        return Fraction(0)
    return exact(job.value) * (1 - (finish - soft) / (hard - soft))


def worth(job: SpotJob, on_demand: Fraction, rest: Fraction) -> Fraction:
    """V(d + delta) - p_o N_max delta."""
    delta = max(rest, Fraction(0)) / (exact(job.overhead.mu1) * throughput(job, job.n_max))
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
    progress: float = 0.0,
    last: int = 0,
) -> tuple[Fraction, Fraction]:
    """Work done and money spent by an allocation."""
    done, cost = exact(progress), Fraction(0)
    for (dear, cheap), price in zip(held, prices, strict=True):
        count = dear + cheap
        done += share(job, count, last) * throughput(job, count)
        cost += dear * exact(on_demand) + cheap * exact(price)
        last = count
    return done, cost


def best_value(
    job: SpotJob,
    prices: Sequence[float],
    available: Sequence[int],
    on_demand: float,
    *,
    slot: int = 0,
    progress: float = 0.0,
    last: int = 0,
) -> Fraction:
    """The most that the slots from `slot` on can bring, with a target of L e / d at their end."""
    end = slot + len(prices)
    target = exact(job.workload) * end / job.deadline
    return max(
        worth(job, exact(on_demand), target - done) - cost
        for done, cost in (
            outcome(job, prices, on_demand, held, progress, last) for held in _ways(job, available)
        )
    )


def _ways(job: SpotJob, available: Sequence[int]) -> Iterator[tuple[Held, ...]]:
    return product(*(all_held(job, count) for count in available))


def best_expected(
    job: SpotJob,
    scenarios: Sequence[Sequence[tuple[float, int]]],
    weights: Sequence[Fraction],
    persistence: Fraction,
    on_demand: float,
    late: Fraction,
    dear: Fraction,
    *,
    progress: Fraction,
    last: int,
    scenario: int | None = None,
) -> Fraction:
    """The most that can be expected of slots that bring one (price, count) of their scenarios each.

    The first row is the next slot; `scenario` is what the slot before it had. Being late costs
    `late`, and each unit of cost `dear` more.
    """
    if not scenarios:
        rest = exact(job.workload) - progress
        delta = max(rest, Fraction(0)) / (exact(job.overhead.mu1) * throughput(job, job.n_max))
        extra = dear * exact(on_demand) * job.n_max * delta + (late if rest > 0 else 0)
        return worth(job, exact(on_demand), rest) - extra
    total = Fraction(0)
    for i, (price, available) in enumerate(scenarios[0]):
        chance = weights[i]
        if scenario is not None:
            chance = persistence * (i == scenario) + (1 - persistence) * chance
        if chance == 0:
            continue
        values = []
        for dearer, cheaper in all_held(job, available):
            count = dearer + cheaper
            cost = dearer * exact(on_demand) + cheaper * exact(price)
            done = progress + share(job, count, last) * throughput(job, count)
            then = best_expected(
                job,
                scenarios[1:],
                weights,
                persistence,
                on_demand,
                late,
                dear,
                progress=done,
                last=count,
                scenario=i,
            )
            values.append(then - (1 + dear) * cost)
        total += chance * max(values)
    return total
