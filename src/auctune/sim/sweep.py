"""Entries tried at several settings on the same seeds: means, ratios and paired differences.

A trial is a row: `setting`, `seed`, `entry`, then figures of what came of it. Rows of one
setting and seed are of the same bids, jobs or bundles, so entries are compared by the
differences on each of them. Where seeds are not independent, a column `block` says which belong
together: figures are first averaged over the seeds of a block.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from auctune.charts.estimates import Interval
from auctune.numerics.estimates import Estimate, mean_of, ratio_of
from auctune.sim.figures import Rows

Cells = Mapping[tuple[str, str], Estimate]
"""By setting and entry, in the order of the trials; cells without a figure are not there."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """All trials.

    Attributes:
        frame: a row a trial.
    """

    frame: pl.DataFrame

    @cached_property
    def settings(self) -> list[str]:
        """In the order of the trials."""
        return self.frame["setting"].unique(maintain_order=True).to_list()

    @cached_property
    def entries(self) -> list[str]:
        """In the order of the trials."""
        return self.frame["entry"].unique(maintain_order=True).to_list()

    def means(self, column: str) -> Cells:
        """Return the means over seeds."""
        return {
            cell: mean_of(by_block[column].to_numpy())
            for cell, by_block in self._by_block(self.frame, column)
        }

    def ratios(self, column: str, over: str) -> Cells:
        """Return the means of one column over those of another; none where that is not above 0."""
        found = {
            cell: ratio_of(by_block[column].to_numpy(), by_block[over].to_numpy())
            for cell, by_block in self._by_block(self.frame, column, over)
        }
        return {cell: ratio for cell, ratio in found.items() if ratio is not None}

    def leads(self, column: str, own: str) -> Cells:
        """Return the means of how much more an entry has than each other on the same seeds."""
        is_own = pl.col("entry") == own
        ours = self.frame.filter(is_own).select("setting", "seed", own=column)
        paired = self.frame.filter(~is_own).join(
            ours, on=["setting", "seed"], maintain_order="left"
        )
        ahead = paired.with_columns(lead=pl.col("own") - pl.col(column))
        return {
            cell: mean_of(by_block["lead"].to_numpy())
            for cell, by_block in self._by_block(ahead, "lead")
        }

    def _by_block(
        self, frame: pl.DataFrame, *columns: str
    ) -> list[tuple[tuple[str, str], pl.DataFrame]]:
        """A frame of a row a block for each cell that has figures."""
        block = "block" if "block" in frame.columns else "seed"
        cells = ["setting", "entry"]
        by_block = (
            frame.drop_nulls(columns)
            .group_by(*cells, block, maintain_order=True)
            .agg(pl.mean(*columns))
        )
        return [
            ((str(setting), str(entry)), rows)
            for (setting, entry), rows in by_block.group_by(*cells, maintain_order=True)
        ]


def table_of(axis: str, settings: Sequence[str], lines: Mapping[str, Callable[[str], str]]) -> Rows:
    """A column a setting; a line for each name, whose cells are written by its function."""
    rows = ((head, *(cell(setting) for setting in settings)) for head, cell in lines.items())
    return Rows((axis, *settings), tuple(rows))


def cell_text(cells: Cells, entry: str, form: str, factor: float = 1.0) -> Callable[[str], str]:
    """Return how a line of `table_of` writes the cells of an entry: "value ±half", or "-"."""

    def text(setting: str) -> str:
        one = cells.get((setting, entry))
        return "-" if one is None else one.text(form, factor)

    return text


def lead_text(own: float, other: float, form: str) -> str:
    """Return by which share `own` is more than another, in a form such as `+.0%`, or "-"."""
    return f"{own / other - 1:{form}}" if other > 0 else "-"


def intervals(cells: Cells, name_of: Callable[[str], str] = str) -> list[Interval]:
    """Return cells as a chart shows them, entries by `name_of`."""
    return [
        Interval(setting, name_of(entry), one.value, one.low, one.high)
        for (setting, entry), one in cells.items()
    ]
