"""Figure 11: LARA on the mixed bundle by the length of its exploration and by gamma.

Exploration is in equal batches of each thread, for a share of the bundle's time; the paper's 4,000
to 6,000 batches of each thread are 0.45 to 0.68 of it, and gamma is varied there with 6,000. A cell
is the mean of threads done over calibrated bundles.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl
from rich.console import Console

from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.timeshare.table_bundles import MIXED, calibrated_bundle
from auctune.timeshare import Exploration, Planner, lara
from timeshare_harness.options import Figure, Options, main

NAME = "fig11_sensitivity"
TITLE = "Figure 11: LARA by exploration and by gamma"
USUAL_SHARE, PAPERS_SHARE = 0.1, 0.68
EXPLORATIONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.45, 0.57, 0.68)
GAMMAS = (0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
VARIED = {"exploration": "gamma 0.9, explored"} | {
    f"gamma-{share:g}": f"explored {share:g}, gamma" for share in (USUAL_SHARE, PAPERS_SHARE)
}


def planners() -> list[tuple[str, float, Planner]]:
    """What is varied, its value, and LARA with it."""
    made = [("exploration", share, lara(Exploration(share=share))) for share in EXPLORATIONS]
    for share in (USUAL_SHARE, PAPERS_SHARE):
        made += [(f"gamma-{share:g}", g, lara(Exploration(share=share), g)) for g in GAMMAS]
    return made


def run(options: Options, console: Console) -> pl.DataFrame:
    """Compute, write and show the figure; its data: a row a bundle and value."""
    rows: list[Mapping[str, object]] = []
    curves, num = options.curves_of(MIXED.name), max(2, options.bundles // 4)
    for number, name in enumerate(MIXED.names()):
        with console.status(f"{NAME}: {name}"):
            bundles = [
                calibrated_bundle(MIXED, curves, number, seed=options.seed, index=index)
                for index in range(num)
            ]
            for varied, value, planner in planners():
                done = [bundle.play(planner).num_done for bundle in bundles]
                named = {"bundle": name, "varied": varied, "value": value}
                rows.append({**named, "bundles": len(done), "done": float(np.mean(done))})
    frame = write_data(pl.DataFrame(rows), options.out, NAME)
    for varied in ("exploration", "gamma"):
        write_chart(chart(frame, varied), options.out, f"{NAME}-{varied}")
    show(console, TITLE, table(frame), [f"data and charts: {options.out}"])
    return frame


def chart(frame: pl.DataFrame, varied: str) -> AnyChart:
    """Threads done by exploration, or by gamma."""
    panels = []
    for name, title in VARIED.items():
        if not name.startswith(varied):
            continue
        own = frame.filter(pl.col("varied") == name)
        curves = [
            Curve(bundle, rows["value"].to_list(), rows["done"].to_list())
            for bundle in own["bundle"].unique(maintain_order=True)
            for rows in [own.filter(pl.col("bundle") == bundle)]
        ]
        panels.append(CurvePanel(title, "done", curves))
    title = "share of the time explored" if varied == "exploration" else "gamma"
    return curves_chart(panels, x_title=title, height=150)


def table(frame: pl.DataFrame) -> Rows:
    """A row a value, a column a bundle."""
    bundles = frame["bundle"].unique(maintain_order=True).to_list()
    rows: list[tuple[str, ...]] = []
    for name, title in VARIED.items():
        own = frame.filter(pl.col("varied") == name)
        done = {(row["bundle"], row["value"]): row["done"] for row in own.iter_rows(named=True)}
        values = own["value"].unique(maintain_order=True)
        rows += [
            (f"{title}: {v:g}", *(f"{done[bundle, v]:.2f}" for bundle in bundles)) for v in values
        ]
    return Rows(("LARA", *bundles), tuple(rows))


FIGURE = Figure(NAME, run, table)

if __name__ == "__main__":
    main(FIGURE, __doc__)
