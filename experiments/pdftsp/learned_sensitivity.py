"""How welfare depends on the constants of learned prices: each halved and doubled, the others kept.

Differences of welfare over the bound on the same days, in points, with Student's t intervals: on
days with one day of history, in bursts and even ones, and on a first day in bursts. What needs
several days of history is left out: `harmonics`, `least_rate`, `max_days`. No constant was chosen
on these days.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import polars as pl
from rich.console import Console

from auctune.auction import Pdftsp, PdftspParams
from auctune.auction.pricing import LearnedParams
from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.numerics.estimates import Estimate, mean_of
from auctune.sim.engine import simulate, warm_up
from auctune.sim.metrics import measure
from harness.jobs import Result, run_jobs
from harness.market import Setting, draw, setting
from harness.options import Options
from harness.output import Figure, Rows, main, show, write_chart, write_data
from harness.trials import BoundOf

NAME = "learned_sensitivity"
SETTINGS = (
    setting("bursts", {"arrivals": "bursty"}),
    replace(setting("first day, 80 bids a slot", {"rate": "80"}), before=None),
)
# Days that no other figure plays.
_FIRST_SEED = 5_000
_LEFT_OUT = ("harmonics", "least_rate", "max_days")
# What cannot be doubled.
_HIGHEST = {"fresh": 1.0, "max_persistence": 0.99}


@dataclass(frozen=True, slots=True)
class Variant:
    """Learned prices with one constant changed.

    Attributes:
        constant: its name; empty: none is.
        value: of it.
    """

    constant: str = ""
    value: Any = None

    @property
    def params(self) -> LearnedParams:
        return replace(LearnedParams(), **({self.constant: self.value} if self.constant else {}))


@dataclass(frozen=True, slots=True)
class VariantTrial:
    """Learned prices on the day of a seed."""

    setting: Setting
    seed: int
    variant: Variant

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        return 8.0

    def key(self) -> dict[str, object]:
        """The market, the seed and the constants."""
        return {**self.setting.key(), "seed": self.seed, "params": repr(self.variant.params)}

    def run(self) -> Result:
        """Its welfare."""
        day = draw(self.setting, self.seed)

        def made() -> Pdftsp:
            cluster, params = day.market.cluster, self.variant.params
            return Pdftsp(cluster, PdftspParams(), history=[day.before], learned=params)

        warm_up(day.market, made)
        return {"welfare": measure(simulate(day.market, made())).welfare}


def variants() -> Iterator[Variant]:
    """Each constant halved and doubled, as far as that can be."""
    for one in fields(LearnedParams):
        if one.name in _LEFT_OUT:
            continue
        value = getattr(LearnedParams(), one.name)
        for factor in (0.5, 2.0):
            yield Variant(one.name, _times(one.name, value, factor))


def _times(name: str, value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_times(name, part, factor) for part in value)
    if isinstance(value, int):
        return max(1, round(value * factor))
    return min(value * factor, _HIGHEST.get(name, value * factor))


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the table; its data."""
    settings = options.settings(SETTINGS)
    seeds = range(_FIRST_SEED, _FIRST_SEED + options.seeds)
    tried = [Variant(), *variants()]
    if options.quick:
        tried = tried[:3]
    trials = [VariantTrial(one, seed, v) for one in settings for seed in seeds for v in tried]
    bounds = [BoundOf(one, seed) for one in settings for seed in seeds]
    jobs: list[VariantTrial | BoundOf] = [*trials, *bounds]
    results = run_jobs(
        jobs, options.cache, workers=options.workers, console=console, fresh=options.fresh
    )
    by_job = dict(zip(jobs, results, strict=True))
    rows = [
        {
            "setting": trial.setting.label,
            "seed": trial.seed,
            "constant": trial.variant.constant,
            "value": _text(trial.variant.value),
            "ratio": by_job[trial]["welfare"] / by_job[BoundOf(trial.setting, trial.seed)]["value"],
        }
        for trial in trials
    ]
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    panel = Panel("welfare / bound, points more", _intervals(frame), "dots", "+.1f")
    write_chart(estimates_chart([panel], axis="constant"), options.out, NAME)
    show(console, "Constants of learned prices", table(frame), notes(frame))
    return frame


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(_text(part) for part in value)
    return "" if value is None else f"{value:g}"


def differences(frame: pl.DataFrame) -> dict[tuple[str, str], dict[str, Estimate]]:
    """(constant, value) and setting to what it has more than the defaults, in points."""
    days = ["setting", "seed"]
    usual = frame.filter(pl.col("constant") == "").select(*days, usual="ratio")
    changed = frame.filter(pl.col("constant") != "").join(usual, on=days, maintain_order="left")
    more = changed.with_columns(more=100 * (pl.col("ratio") - pl.col("usual")))
    found: dict[tuple[str, str], dict[str, Estimate]] = {}
    for key, rows in more.group_by("constant", "value", "setting", maintain_order=True):
        constant, value, where = (str(part) for part in key)
        found.setdefault((constant, value), {})[where] = mean_of(rows["more"].to_numpy())
    return found


def _intervals(frame: pl.DataFrame) -> list[Interval]:
    return [
        Interval(f"{constant} = {value}", where, one.value, one.low, one.high)
        for (constant, value), by_setting in differences(frame).items()
        for where, one in by_setting.items()
    ]


def table(frame: pl.DataFrame) -> Rows:
    """A row for each constant changed: points of the bound that it has more."""
    settings = list(dict.fromkeys(frame["setting"]))
    usual = LearnedParams()
    rows = [
        (
            f"`{constant}`",
            _text(getattr(usual, constant)),
            value,
            *(by_setting[one].text("+.2f") for one in settings),
        )
        for (constant, value), by_setting in differences(frame).items()
    ]
    return Rows(("constant", "default", "tried", *settings), tuple(rows))


def notes(frame: pl.DataFrame) -> list[str]:
    """What must be said beside the table."""
    usual = frame.filter(pl.col("constant") == "").group_by("setting", maintain_order=True)
    shares = ", ".join(
        f"{one} {share:.1%}" for one, share in usual.agg(pl.mean("ratio")).iter_rows()
    )
    every = [one for found in differences(frame).values() for one in found.values()]
    better, worse = sum(one.low > 0 for one in every), sum(one.high < 0 for one in every)
    return [
        "points of welfare / bound more than with the defaults, means of "
        f"{frame['seed'].n_unique()} days of each kind ± 95% confidence, the same days for all",
        f"the defaults have {shares}",
        f"of {len(every)} differences {better} are above 0 and {worse} below 0 beyond their "
        f"intervals, where {0.025 * len(every):.1f} of each are to be expected by chance",
    ]


FIGURE = Figure(NAME, run, table, notes)

if __name__ == "__main__":
    main(FIGURE, __doc__)
