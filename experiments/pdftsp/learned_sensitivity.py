"""How welfare depends on the constants of learned prices: each halved and doubled, the others kept.

Differences of welfare over the bound on the same days, in points, with Student's t intervals: in
bursts with one day of history, and on a busy first day. What needs several days of history is left
out: `harmonics`, `least_rate`, `max_days`. No constant was chosen on these days.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import polars as pl
from rich.console import Console

from auctune.auction import Pdftsp, PdftspParams
from auctune.auction.pricing import LearnedParams
from auctune.charts.estimates import Interval, Panel, estimates_chart
from auctune.sim.engine import simulate, warm_up
from auctune.sim.jobs import run_jobs
from auctune.sim.metrics import measure
from auctune.sim.sweep import Sweep, cell_text, table_of
from harness.market import Setting, draw, setting
from harness.options import Options
from harness.output import Figure, Rows, main, show, write_chart, write_data
from harness.trials import CODE, BoundOf

NAME = "learned_sensitivity"
DEFAULTS = "defaults"
SETTINGS = (
    setting("bursts", {"arrivals": "bursty"}),
    replace(setting("first day, 80 bids a slot", {"rate": "80"}), before=None),
)
# Days that no other figure plays.
_FIRST_SEED = 5_000
_LEFT_OUT = ("harmonics", "least_rate", "max_days")
# What cannot be doubled.
_HIGHEST = {"recent_share": 1.0, "max_persistence": 0.99}


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
    def label(self) -> str:
        """As data name it."""
        if not self.constant:
            return DEFAULTS
        usual = getattr(LearnedParams(), self.constant)
        return f"`{self.constant}`: {_text(usual)} → {_text(self.value)}"

    @property
    def params(self) -> LearnedParams:
        return replace(LearnedParams(), **({self.constant: self.value} if self.constant else {}))


@dataclass(frozen=True, slots=True)
class VariantTrial:
    """Learned prices on the day of a seed."""

    setting: Setting
    seed: int
    variant: Variant
    code = CODE

    @property
    def cost(self) -> float:
        """Seconds, roughly."""
        return 8.0

    def key(self) -> dict[str, object]:
        """The market, the seed and the constants."""
        return {**self.setting.key(), "seed": self.seed, "params": repr(self.variant.params)}

    def run(self) -> Mapping[str, Any]:
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
            "entry": trial.variant.label,
            "ratio": by_job[trial]["welfare"] / by_job[BoundOf(trial.setting, trial.seed)]["value"],
        }
        for trial in trials
    ]
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    panel = Panel("points lost", _intervals(frame), "dots", "+.1f")
    write_chart(estimates_chart([panel], axis="constant"), options.out, NAME)
    show(console, "Constants of learned prices", table(frame), notes(frame))
    return frame


def _text(value: Any) -> str:
    return ", ".join(_text(part) for part in value) if isinstance(value, tuple) else f"{value:g}"


def _intervals(frame: pl.DataFrame) -> list[Interval]:
    """Each change on the axis, each setting a series."""
    return [
        Interval(change, where, 100 * one.value, 100 * one.low, 100 * one.high)
        for (where, change), one in Sweep(frame).leads("ratio", DEFAULTS).items()
    ]


def table(frame: pl.DataFrame) -> Rows:
    """A row a change: by how many points of the bound the defaults have more."""
    sweep = Sweep(frame)
    leads = sweep.leads("ratio", DEFAULTS)
    lines = {
        change: cell_text(leads, change, "+.2f", 100)
        for change in sweep.entries
        if change != DEFAULTS
    }
    return table_of("change", sweep.settings, lines)


def notes(frame: pl.DataFrame) -> list[str]:
    """What must be said beside the table."""
    sweep = Sweep(frame)
    usual, leads = sweep.means("ratio"), sweep.leads("ratio", DEFAULTS).values()
    shares = ", ".join(f"{one} {usual[one, DEFAULTS].value:.1%}" for one in sweep.settings)
    better, worse = sum(one.high < 0 for one in leads), sum(one.low > 0 for one in leads)
    return [
        "points of welfare / bound that the defaults have more, means of "
        f"{frame['seed'].n_unique()} days of each kind ± 95% confidence, the same days for all; "
        f"the defaults have {shares}",
        f"of {len(leads)} changes {better} are better and {worse} worse beyond their intervals, "
        f"where {0.025 * len(leads):.1f} of each are to be expected by chance",
    ]


FIGURE = Figure(NAME, run, table, notes)

if __name__ == "__main__":
    main(FIGURE, __doc__)
