"""Tables 1 and 2: what a bundle asks for, beside the paper's."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from rich.console import Console

from auctune.charts.curves import Curve, CurvePanel, curves_chart
from auctune.charts.theme import AnyChart
from auctune.sim.figures import Rows, show, write_chart, write_data
from auctune.sim.timeshare.recorded import RecordedBundle, RecordedCurve
from auctune.sim.timeshare.table_bundles import BundleTable, calibrated_bundle
from timeshare_harness.options import Figure, Options


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table of the paper.

    Attributes:
        name: of its files.
        title: of its table.
        bundle: what is kept of it.
        models: of its threads.
        rates: their N, batches a second.
        thresholds: their eps, in its words, for each set.
    """

    name: str
    title: str
    bundle: BundleTable
    models: tuple[str, ...]
    rates: tuple[int, ...]
    thresholds: tuple[tuple[str, ...], ...]


def settings_figure(paper: PaperTable) -> Figure:
    """The table made again."""

    def run(options: Options, console: Console) -> pl.DataFrame:
        curves = options.curves_of(paper.bundle.name)
        rows = [
            row
            for index in range(len(paper.thresholds))
            for row in _rows(
                paper,
                calibrated_bundle(paper.bundle, curves, index, seed=options.seed),
                curves,
                index,
            )
        ]
        frame = write_data(pl.DataFrame(rows), options.out, paper.name)
        write_chart(_chart(curves), options.out, paper.name)
        show(console, paper.title, _table(frame), [f"data and charts: {options.out}"])
        return frame

    return Figure(paper.name, run, _table)


def _rows(
    paper: PaperTable, bundle: RecordedBundle, curves: Sequence[RecordedCurve], index: int
) -> list[dict[str, object]]:
    chosen = bundle.attainable().chosen
    assert chosen is not None
    return [
        {
            "bundle": bundle.name,
            "thread": curves[k].name,
            "model": paper.models[k],
            "deadline": thread.deadline,
            "paper_rate": paper.rates[k],
            "rate": bundle.rates[k],
            "unit_seconds": bundle.rates[k] / curves[k].batches_per_second,
            "paper_threshold": paper.thresholds[index][k],
            "threshold": thread.threshold,
            "alone": bundle.units_alone[k],
            "chosen": bool(chosen[k]),
        }
        for k, thread in enumerate(bundle.threads)
    ]


def _chart(curves: Sequence[RecordedCurve]) -> AnyChart:
    """A panel a thread: its loss."""
    panels = [
        CurvePanel(
            curve.name,
            "loss",
            [Curve("recorded", curve.curve.batches.tolist(), curve.curve.loss.tolist())],
        )
        for curve in curves
    ]
    return curves_chart(panels, x_title="batches", height=70)


def _table(frame: pl.DataFrame) -> Rows:
    """A row a thread and set of thresholds."""
    heads = (
        "bundle, thread",
        "deadline",
        "N, paper",
        "N",
        "eps, paper",
        "eps",
        "units alone",
        "the clairvoyant does it",
    )
    rows = [
        (
            f"{row['bundle']}, {row['model']}",
            f"{row['deadline']}",
            f"{row['paper_rate']}",
            f"{row['rate']:.1f}",
            row["paper_threshold"],
            f"{row['threshold']:.3g}",
            f"{row['alone']:.0f}",
            "yes" if row["chosen"] else "no",
        )
        for row in frame.iter_rows(named=True)
    ]
    return Rows(heads, tuple(rows))
