"""Figure 4: threads done by each allocator, on the bundles of Tables 1 and 2.

Beside the bundle that the rule chooses stands the mean over all lengths of a unit of time that give
the same optimum: of a single bundle a little luck decides.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.timeshare import Allocator
from timeshare_harness.options import Figure, Options, main
from timeshare_harness.rivals import BEST, OTHERS, RIVALS, Family, explorations, families

NAME = "fig04_bundles"
TITLE = "Figure 4: threads done on the tables' bundles"
PAPERS: Mapping[str, tuple[str, str, str]] = {
    "UA": ("0", "6", "3"),
    "STF": ("0", "2", "5"),
    "LRF": ("2", "4", "-"),
    "ETF": ("2", "4", "-"),
    "LARA": ("4", "8", "6"),
}
CLAIRVOYANT = "clairvoyant"


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a bundle and allocator."""
    rows: list[Mapping[str, object]] = []
    for family in families(options):
        with console.status(f"{NAME}: {family.chosen.name}"):
            rows += _played(family)
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    write_chart(chart(frame), options.out, NAME)
    notes = ["done (mean over all units of time that fit)", f"data and charts: {options.out}"]
    show(console, TITLE, table(frame), notes)
    return frame


def _played(family: Family) -> list[Mapping[str, object]]:
    played = {label: _one(family, one) for label, one in {**RIVALS, **OTHERS}.items()}
    tried = {share: _one(family, one) for share, one in explorations().items()}
    best = max(tried, key=lambda share: np.mean(tried[share][1]))
    played[BEST] = tried[best]
    attainable = family.chosen.attainable().num_done
    return [
        {
            "bundle": family.chosen.name,
            "allocator": label,
            "explored": best if label == BEST else None,
            "finish": finish,
            "horizon": max(thread.deadline for thread in family.chosen.threads),
            "done": done,
            "attainable": attainable,
        }
        for label, (finish, done) in played.items()
    ]


def _one(family: Family, allocator: Allocator) -> tuple[Sequence[float], Sequence[int]]:
    """Units after which threads of the bundle are done, and how many are of each of its family."""
    finish = family.chosen.play(allocator).finish
    done = [bundle.play(allocator).num_done for bundle in family.all]
    return sorted(finish[np.isfinite(finish)].tolist()), done


def chart(frame: pl.DataFrame) -> AnyChart:
    """A panel a bundle: threads done by unit of time."""
    panels = []
    for name in frame["bundle"].unique(maintain_order=True):
        own = frame.filter((pl.col("bundle") == name) & pl.col("allocator").is_in(list(RIVALS)))
        curves = [
            Curve(
                row["allocator"],
                (0.0, *row["finish"], row["horizon"]),
                (*range(len(row["finish"]) + 1), len(row["finish"])),
            )
            for row in own.iter_rows(named=True)
        ]
        panels.append(CurvePanel(f"{name}, {own['attainable'][0]} attainable", "done", curves, "d"))
    return curves_chart(panels, x_title="units of time", steps=True)


def table(frame: pl.DataFrame) -> Rows:
    """A row an allocator, beside the paper's figures."""
    names = frame["bundle"].unique(maintain_order=True).to_list()
    cells = {(row["bundle"], row["allocator"]): row for row in frame.iter_rows(named=True)}
    attainable = [f"{cells[name, 'UA']['attainable']}" for name in names]
    heads = ("allocator", *(part for name in names for part in (f"{name}, paper", name)))
    best = ("4", "8", "6")
    clairvoyant = [part for pair in zip(best, attainable, strict=True) for part in pair]
    rows: list[tuple[str, ...]] = [(CLAIRVOYANT, *clairvoyant)]
    for allocator in (*RIVALS, BEST, *OTHERS):
        papers = PAPERS.get(allocator, ("-",) * len(names))
        line = [allocator]
        for paper, name in zip(papers, names, strict=True):
            line += [paper, _cell(cells[name, allocator])]
        rows.append(tuple(line))
    return Rows(heads, tuple(rows))


def _cell(row: Mapping[str, object]) -> str:
    finish, done = row["finish"], row["done"]
    assert isinstance(finish, list)
    assert isinstance(done, list)
    explored = row["explored"]
    words = "" if explored is None else f", explored {explored:g}"
    return f"{len(finish)} ({np.mean(done):.2f}{words})"


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
