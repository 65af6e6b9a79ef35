"""A setting with all that the paper leaves open, and how far AHAP is ahead in it.

Where jobs end in time, a value v that is higher by x makes every utility higher by x: v sets how
large the margins are, and the market how they compare. So v is the one at which AHAP's margin over
OD-Only is the paper's, and the other three say whether the setting is the paper's.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from auctune.numerics.rng import stream
from auctune.sim.spot.generator import (
    CountParams,
    DailyCycle,
    MarketGenerator,
    PriceParams,
    Wave,
)
from auctune.spot import (
    Ahanp,
    Ahap,
    OnDemandOnly,
    Policy,
    SpotFirst,
    SpotJob,
    UniformProgress,
    default_pool,
)
from auctune.spot.deadline import ProgressLine
from auctune.spot.forecasts import PerfectForecaster
from spot_harness.markets import CAP, HOUR, Markets, made_up, with_counts
from spot_harness.trials import Trials, same_job

PAPER = {"OD-Only": 0.490, "MSU": 0.548, "UP": 0.334, "AHANP": 0.232}
WORKLOAD, DEADLINE = 80.0, 10


@dataclass(frozen=True, slots=True)
class Readings:
    """What AHAP is compared with.

    Attributes:
        name: as tables show it.
        baselines: by the paper's name.
        ahanp_line: where AHANP reads the line of even progress.
    """

    name: str
    baselines: Mapping[str, Policy]
    ahanp_line: ProgressLine


OURS = Readings(
    "ours",
    {"OD-Only": OnDemandOnly(), "MSU": SpotFirst(), "UP": UniformProgress()},
    "slot_start",
)


def literal(switch: int, line: ProgressLine) -> Readings:
    """Return a reading of the paper's text: UP tops nothing up and has no safety net.

    Args:
        switch: the last slots, in which MSU turns to on-demand ("near the deadline").
        line: of AHANP.
    """
    baselines: Mapping[str, Policy] = {
        "OD-Only": OnDemandOnly(),
        "MSU": SpotFirst(switch=switch),
        "UP": UniformProgress(top_up=False, safety_net=False),
    }
    return Readings(f"literal: MSU's last {switch}, AHANP {line}", baselines, line)


LITERAL = literal(1, "slot_end")
ALL_LITERAL = tuple(
    literal(switch, line) for switch in (1, 2, 3) for line in ("slot_end", "slot_start")
)
_LEAST_VALUE, _MOST_VALUE = 1.0, 6.0


@dataclass(frozen=True, slots=True)
class OpenSetting:
    """What the paper does not say; prices are in units of the on-demand price.

    Attributes:
        price_mean, price_deviation: of spot prices, before the floor.
        price_hours: after which they return to their mean.
        price_changes: a day.
        empty, full: shares of slots without any spot GPU, and with the most there can be.
        count_hours: after which counts return to their mean.
        quick_share: of their variance that changes within the hour.
        daily: strength of their daily cycle.
        count_factor: counts are times this.
        n_max: the most GPUs of a job.
        hard_factor: g.
        value: v / L.
    """

    price_mean: float
    price_deviation: float
    price_hours: float
    price_changes: float
    empty: float
    full: float
    count_hours: float
    quick_share: float
    daily: float
    count_factor: float
    n_max: int
    hard_factor: float
    value: float = 1.5

    def markets(self, seed: int) -> Markets:
        """Markets like it."""
        counts = CountParams(
            cap=CAP,
            empty=self.empty,
            full=self.full,
            waves=(
                Wave(HOUR, self.quick_share),
                Wave(self.count_hours * HOUR, 1 - self.quick_share),
            ),
            daily=DailyCycle(self.daily, 14 * HOUR),
        )
        prices = PriceParams(
            floor=0.1,
            mean=self.price_mean,
            deviation=self.price_deviation,
            reversion_seconds=self.price_hours * HOUR,
            smoothing_seconds=0.25 * HOUR,
            changes_per_day=self.price_changes,
        )
        made = made_up("open", MarketGenerator(counts, prices), seed, 30, 4)
        return with_counts(made, self.count_factor)

    @property
    def job(self) -> SpotJob:
        """The paper's job."""
        return SpotJob(
            workload=WORKLOAD,
            deadline=DEADLINE,
            n_max=self.n_max,
            hard_factor=self.hard_factor,
            value=self.value * WORKLOAD,
        )


@dataclass(frozen=True, slots=True)
class Margins:
    """Mean utilities.

    Attributes:
        utility: of the best AHAP ("AHAP"), the best AHANP and the baselines.
        optimum: of the offline optimum.
        best: the best AHAP's name.
        readings: of the paper.
    """

    utility: Mapping[str, float]
    optimum: float
    best: str
    readings: Readings

    def lead(self, baseline: str) -> float:
        """By how much AHAP is ahead, 0.49 for 49%; infinite where the baseline has nothing."""
        other = self.utility[baseline]
        return self.utility["AHAP"] / other - 1 if other > 0 else math.inf

    @property
    def distance(self) -> float:
        """The largest gap between a margin here and in the paper."""
        return max(abs(self.lead(baseline) - paper) for baseline, paper in PAPER.items())


def play_margins(
    trials: Trials, pool: Sequence[Policy] | None = None, readings: Sequence[Readings] = (OURS,)
) -> list[Margins]:
    """Play everybody with perfect forecasts; the margins by each reading of the paper.

    Args:
        trials: the jobs.
        pool: AHAP and AHANP to choose the best of; by default the paper's 112.
        readings: of the baselines, and of AHANP's line.
    """
    chosen = default_pool() if pool is None else pool
    ahap = [policy for policy in chosen if isinstance(policy, Ahap)]
    ahanp = [policy for policy in chosen if isinstance(policy, Ahanp)]
    lines = {one.ahanp_line: [replace(p, line=one.ahanp_line) for p in ahanp] for one in readings}
    baselines = dict.fromkeys(policy for one in readings for policy in one.baselines.values())
    policies: list[Policy] = [
        *ahap,
        *(policy for own in lines.values() for policy in own),
        *baselines,
    ]
    played = trials.played(policies, trials.predicted(PerfectForecaster)).mean(axis=0)
    mean = dict(zip(policies, played.tolist(), strict=True))
    best = max(ahap, key=mean.__getitem__)
    optimum = float(trials.optimum().mean())
    return [
        Margins(
            {name: mean[policy] for name, policy in one.baselines.items()}
            | {"AHANP": max(mean[p] for p in lines[one.ahanp_line]), "AHAP": mean[best]},
            optimum,
            best.name,
            one,
        )
        for one in readings
    ]


def few_policies() -> Sequence[Policy]:
    """Those of the pool that follow their last plan alone: with perfect forecasts the best."""
    return [p for p in default_pool() if not (isinstance(p, Ahap) and p.commitment > 1)]


@dataclass(frozen=True, slots=True)
class Found:
    """A setting, and what was measured in it."""

    setting: OpenSetting
    margins: Margins


def value_for(value: float, found: Margins) -> float:
    """v / L at which AHAP would be ahead of OD-Only as in the paper, if all end in time.

    Args:
        value: v / L that was played.
        found: what came of it.
    """
    own, other = found.utility["AHAP"], found.utility["OD-Only"]
    more = (own - (1 + PAPER["OD-Only"]) * other) / PAPER["OD-Only"]
    return min(max(value + more / WORKLOAD, _LEAST_VALUE), _MOST_VALUE)


def draw_setting(random: np.random.Generator) -> OpenSetting:
    """Any setting that the paper does not exclude."""
    empty = float(random.uniform(0.02, 0.6))
    return OpenSetting(
        price_mean=float(random.uniform(0.4, 1.3)),
        price_deviation=float(random.uniform(0.02, 0.8)),
        price_hours=float(np.exp(random.uniform(0.0, 4.0))),
        price_changes=float(random.uniform(4, 48)),
        empty=empty,
        full=float(random.uniform(0.02, min(0.6, 0.95 - empty))),
        count_hours=float(np.exp(random.uniform(0.7, 4.0))),
        quick_share=float(random.uniform(0, 1)),
        daily=float(random.uniform(0, 1.5)),
        count_factor=float(random.choice([0.25, 0.5, 0.75, 1.0])),
        n_max=int(random.choice([8, 12, 16])),
        hard_factor=float(random.choice([1.0, 1.25, 1.5, 2.0])),
    )


def near(setting: OpenSetting, random: np.random.Generator, width: float) -> OpenSetting:
    """A setting beside another: each number towards one drawn anew."""
    other = draw_setting(random)

    def between(name: str) -> float:
        own, new = float(getattr(setting, name)), float(getattr(other, name))
        return own + width * (new - own)

    keep = random.uniform() > width
    empty = between("empty")
    return OpenSetting(
        price_mean=between("price_mean"),
        price_deviation=between("price_deviation"),
        price_hours=between("price_hours"),
        price_changes=between("price_changes"),
        empty=empty,
        full=min(between("full"), 0.95 - empty),
        count_hours=between("count_hours"),
        quick_share=between("quick_share"),
        daily=between("daily"),
        count_factor=setting.count_factor if keep else other.count_factor,
        n_max=setting.n_max if keep else other.n_max,
        hard_factor=setting.hard_factor if keep else other.hard_factor,
        value=setting.value,
    )


def at_its_value(
    setting: OpenSetting, num_jobs: int, seed: int, readings: Sequence[Readings]
) -> Found:
    """Measure at the v of `value_for`, by the reading that comes nearest to the paper."""

    def measured(one: OpenSetting) -> list[Margins]:
        trials = same_job(one.markets(seed), one.job, num_jobs, seed)
        return play_margins(trials, few_policies(), readings)

    # AHAP and OD-Only are the same by all readings.
    valued = replace(setting, value=value_for(setting.value, measured(setting)[0]))
    return Found(valued, min(measured(valued), key=lambda one: one.distance))


def search(
    num_drawn: int, num_near: int, num_jobs: int, seed: int, readings: Sequence[Readings]
) -> Iterator[Found]:
    """Settings drawn anywhere, then beside the best so far; each as it is found."""
    random = stream(seed, "margins")
    found: list[Found] = []
    for _ in range(num_drawn):
        found.append(at_its_value(draw_setting(random), num_jobs, seed, readings))
        yield found[-1]
    for step in range(num_near):
        found.sort(key=lambda one: one.margins.distance)
        width = 0.5 * (1 - step / num_near) + 0.03
        chosen = found[int(random.integers(min(5, len(found))))]
        found.append(at_its_value(near(chosen.setting, random, width), num_jobs, seed, readings))
        yield found[-1]
