"""Trials: a setting, a seed and a mechanism, and what came of them, as rows of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import polars as pl
from rich.console import Console

from auctune.registry.policies import EDGE_ENTRIES
from auctune.sim.edge.comparison import EdgePlayed, bound_of, play
from auctune.sim.edge.instance_file import EdgeInstance
from auctune.sim.edge.settings import EdgeSetting, make_instance
from auctune.sim.jobs import run_jobs
from edge_harness.options import SMALLER, Options

# Baselines with as many workers as serve them best of 8, 16, 32 and 64; Liquid also with its best
# weight, chosen on seeds 200 to 209 of the testbed, and 200 and 201 of the simulation.
TESTBED: Mapping[str, str] = {
    "eris": "Eris",
    "eris:pricing=paper": "Eris, eq. 6",
    "tiresias:workers=32": "Tiresias",
    "tiresias:workers=32:by=remaining": "Tiresias, remaining",
    "antman:workers=32": "AntMan",
    "liquid:weight=0.1:most_workers=16": "Liquid",
}
SIMULATION: Mapping[str, str] = {
    "eris": "Eris",
    "eris:pricing=paper": "Eris, eq. 6",
    "tiresias:workers=32": "Tiresias",
    "tiresias:workers=32:by=remaining": "Tiresias, remaining",
    "antman:workers=64": "AntMan",
    "liquid:weight=0:most_workers=64": "Liquid",
}
CODE = ("auctune.edge",)
# A job that runs, and is worth less than this share of its worth at its arrival, is late.
LATE = 0.1


@dataclass(frozen=True, slots=True)
class Point:
    """A setting of a figure.

    Attributes:
        label: as the axis shows it.
        setting: but for its seed.
        labels: mechanisms, by the names that the legend shows.
    """

    label: str
    setting: EdgeSetting
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of an instance, which figures share.

    Attributes:
        setting: with its seed.
        kind: "lp" or "milp".
        time_limit: seconds for HiGHS.
    """

    setting: EdgeSetting
    kind: str
    time_limit: float
    code = CODE

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        return self.time_limit

    def key(self) -> Mapping[str, object]:
        """All of it."""
        return asdict(self)

    def run(self) -> Mapping[str, object]:
        """The bound, and the welfare of the best decisions found."""
        found = bound_of(make_instance(self.setting), self.kind, self.time_limit)
        assert found is not None
        return {"bound": found.value, "reached": found.reached}


@dataclass(frozen=True, slots=True)
class Trial:
    """A mechanism on an instance.

    Attributes:
        setting: with its seed.
        label: of the mechanism.
    """

    setting: EdgeSetting
    label: str
    code = CODE

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        return 0.1 * self.setting.num_jobs

    def key(self) -> Mapping[str, object]:
        """All of it."""
        return asdict(self)

    def run(self) -> Mapping[str, object]:
        """What came of it."""
        instance = make_instance(self.setting)
        played = play(self.label, EDGE_ENTRIES.parse(self.label, "mechanism"), instance)
        return {
            "welfare": played.welfare,
            "profit": played.profit,
            "run": played.num_admitted,
            "rejected": len(played.decisions) - played.num_admitted,
            "rejected_or_late": num_rejected_or_late(instance, played),
        }


def setting_of(setting: EdgeSetting, seed: int, options: Options) -> EdgeSetting:
    """The setting of a seed; smaller in a quick run."""
    if options.quick:
        setting = replace(
            setting,
            num_sites=max(6, setting.num_sites // SMALLER),
            num_jobs=max(4, setting.num_jobs // SMALLER),
            slots=max(24, setting.slots // SMALLER),
            arrival_slots=max(8, setting.arrival_slots // SMALLER),
        )
    return replace(setting, seed=seed)


def instance_of(setting: EdgeSetting, seed: int, options: Options) -> EdgeInstance:
    """The market and jobs of a seed; smaller in a quick run."""
    return make_instance(setting_of(setting, seed, options))


def num_rejected_or_late(instance: EdgeInstance, played: EdgePlayed) -> int:
    """Return how many jobs do not run, or come to less than `LATE` of their worth at first."""
    outcomes = zip(instance.in_order(), played.decisions, strict=True)
    return sum((found.utility or 0.0) < LATE * job.utility(0) for job, found in outcomes)


def collect(
    points: Sequence[Point], options: Options, console: Console, bound: str
) -> pl.DataFrame:
    """A row a trial, beside the bound of its instance.

    Args:
        points: the settings.
        options: seeds, time limit, quick.
        console: for the progress bar.
        bound: "none", "lp" or "milp".
    """
    trials = [
        (one, seed, name, Trial(setting_of(one.setting, seed, options), label))
        for one in points
        for seed in range(options.seeds)
        for label, name in one.labels.items()
    ]
    bounds = [
        Bound(trial.setting, bound, options.time_limit) for *_, trial in trials if bound != "none"
    ]
    kept, fresh = options.cache, options.fresh
    played = run_jobs(
        [trial for *_, trial in trials],
        kept,
        workers=options.workers,
        console=console,
        fresh=fresh,
    )
    # One after the other: what HiGHS proves within its time depends on what runs beside it.
    most = run_jobs(bounds, kept, workers=1, console=console, fresh=fresh) or [{}] * len(trials)
    rows = [
        {"setting": one.label, "seed": seed, "entry": name, **figures, **bounded}
        for (one, seed, name, _), figures, bounded in zip(trials, played, most, strict=True)
    ]
    return pl.DataFrame(rows)
