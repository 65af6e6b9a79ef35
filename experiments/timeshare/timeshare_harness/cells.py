"""What several tables and charts show alike."""

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from auctune.charts.estimates import Panel, estimates_chart
from auctune.charts.theme import AnyChart
from auctune.sim.sweep import Sweep, intervals
from timeshare_harness.entries import BEST, ENTRIES, OWN, SWITCHING

Line = Callable[[str], str]
"""Writes the cell of a setting."""


def done_lines(sweep: Sweep, names: Sequence[str]) -> dict[str, Line]:
    """A line an allocator: threads done, and how long was explored where that was chosen.

    In brackets is auctune's own lead, the mean of paired differences with its interval; auctune's
    own allocator has the interval of what it does in its place.
    """
    done, leads = sweep.means("done"), sweep.leads("done", OWN)
    lengths = sweep.frame.unique(["setting", "entry"]).drop_nulls("explored")
    explored = {
        (row["setting"], row["entry"]): f", explored {row['explored']:g}"
        for row in lengths.iter_rows(named=True)
    }

    def line(name: str) -> Line:
        def text(setting: str) -> str:
            cell = setting, name
            if cell not in done:
                return "-"
            if name == OWN:
                return done[cell].text(".2f")
            lead = f"{OWN} {leads[cell].text('+.2f')}"
            return f"{done[cell].value:.2f} ({lead}{explored.get(cell, '')})"

        return text

    return {name: line(name) for name in names}


def mean_line(sweep: Sweep, column: str, form: str, name: str = OWN) -> Line:
    """A line of means of a column, without intervals."""
    means = sweep.means(column)
    return lambda setting: f"{means[setting, name].value:{form}}"


def switch_lines(sweep: Sweep) -> Mapping[str, Line]:
    """Lines of how often the pool changes hands."""
    return {f"switches of {name}": mean_line(sweep, "switches", ".0f", name) for name in SWITCHING}


def bound_chart(frame: pl.DataFrame, axis: str) -> AnyChart:
    """Threads done over those of a clairvoyant, by setting."""
    own = frame.filter(pl.col("entry").is_in([*ENTRIES, BEST]))
    ratios = intervals(Sweep(own).ratios("done", "optimum"))
    return estimates_chart([Panel("done / clairvoyant bound", ratios, "dots", ".0%")], axis=axis)
