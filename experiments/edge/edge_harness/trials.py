"""Trials: a setting, a seed and a mechanism, and what came of them, as rows of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import polars as pl
from rich.console import Console
from rich.progress import Progress

from auctune.registry.policies import EDGE_PLAYERS
from auctune.sim.edge.comparison import EdgeBound, EdgePlayed, bound_of, play
from auctune.sim.edge.instance_file import EdgeInstance
from auctune.sim.edge.settings import EdgeSetting, make_instance
from edge_harness.options import SMALLER, Options

# Baselines with as many workers as serve them best of 8, 16, 32 and 64.
TESTBED: Mapping[str, str] = {
    "eris": "Eris",
    "eris:pricing=paper": "Eris, eq. 6",
    "tiresias:workers=32": "Tiresias",
    "tiresias:workers=32:by=remaining": "Tiresias, remaining",
    "antman:workers=32": "AntMan",
    "liquid": "Liquid",
}
SIMULATION: Mapping[str, str] = {
    "eris": "Eris",
    "eris:pricing=paper": "Eris, eq. 6",
    "tiresias:workers=32": "Tiresias",
    "tiresias:workers=32:by=remaining": "Tiresias, remaining",
    "antman:workers=64": "AntMan",
    "liquid": "Liquid",
}
# A job that runs, and is worth less than this share of its worth at its arrival, is late.
LATE = 0.1
SCHEMA: Mapping[str, pl.DataType] = {
    "setting": pl.String(),
    "seed": pl.Int64(),
    "mechanism": pl.String(),
    "welfare": pl.Float64(),
    "profit": pl.Float64(),
    "run": pl.Int64(),
    "rejected": pl.Int64(),
    "rejected_or_late": pl.Int64(),
    "bound": pl.Float64(),
    "reached": pl.Float64(),
}


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


def instance_of(setting: EdgeSetting, seed: int, options: Options) -> EdgeInstance:
    """The market and jobs of a seed; smaller in a quick run."""
    if options.quick:
        setting = replace(
            setting,
            num_sites=max(6, setting.num_sites // SMALLER),
            num_jobs=max(4, setting.num_jobs // SMALLER),
            slots=max(24, setting.slots // SMALLER),
            arrival_slots=max(8, setting.arrival_slots // SMALLER),
        )
    return make_instance(replace(setting, seed=seed))


@cache
def _bound(setting: EdgeSetting, seed: int, options: Options, kind: str) -> EdgeBound | None:
    """Return the bound of a seed; Figures 3 and 5 have the same ones, of a minute each."""
    return bound_of(instance_of(setting, seed, options), kind, options.time_limit)


def num_rejected_or_late(instance: EdgeInstance, played: EdgePlayed) -> int:
    """Return how many jobs do not run, or come to less than `LATE` of their worth at first."""
    outcomes = zip(instance.in_order(), played.decisions, strict=True)
    return sum((found.utility or 0.0) < LATE * job.utility(0) for job, found in outcomes)


def collect(
    points: Sequence[Point], options: Options, console: Console, bound: str
) -> pl.DataFrame:
    """A row a trial.

    Args:
        points: the settings.
        options: seeds, time limit, quick.
        console: for the progress bar.
        bound: "none", "lp" or "milp".
    """
    rows: list[dict[str, object]] = []
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("instances", total=len(points) * options.seeds)
        for one in points:
            for seed in range(options.seeds):
                instance = instance_of(one.setting, seed, options)
                most = _bound(one.setting, seed, options, bound)
                for label, name in one.labels.items():
                    played = play(label, EDGE_PLAYERS.parse(label, "mechanism"), instance)
                    rows.append(
                        {
                            "setting": one.label,
                            "seed": seed,
                            "mechanism": name,
                            "welfare": played.welfare,
                            "profit": played.profit,
                            "run": played.num_admitted,
                            "rejected": len(played.decisions) - played.num_admitted,
                            "rejected_or_late": num_rejected_or_late(instance, played),
                            "bound": None if most is None else most.value,
                            "reached": None if most is None else most.reached,
                        }
                    )
                progress.advance(bar)
    return pl.DataFrame(rows, schema=SCHEMA)
