"""The charts of one or several runs on one market, as files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from auctune.charts.comparison import (
    BoundLine,
    EntryOutcome,
    cumulative_chart,
    use_chart,
    welfare_chart,
)
from auctune.charts.render import to_png, to_svg
from auctune.charts.theme import LIGHT
from auctune.sim.bound import WelfareBound
from auctune.sim.comparison import Played
from auctune.sim.metrics import welfare_by_slot

CHARTS = ("welfare", "cumulative-welfare", "use")


def chart_paths(folder: Path) -> list[Path]:
    """Return the files that `render_charts` fills, in that order."""
    return [folder / f"{name}.{kind}" for name in CHARTS for kind in ("svg", "png")]


def render_charts(played: Sequence[Played], bound: WelfareBound) -> list[bytes]:
    """Return the contents of the files of `chart_paths`."""
    entries = [_outcome(one) for one in played]
    line = bound_line(bound)
    contents = []
    for chart in (
        welfare_chart(entries, line),
        cumulative_chart(entries, line),
        use_chart(entries),
    ):
        # A file may be shown on any ground.
        on_ground = chart.properties(background=LIGHT.surface)
        contents += [to_svg(on_ground).encode(), to_png(on_ground)]
    return contents


def bound_line(bound: WelfareBound) -> BoundLine | None:
    """Return the bound with its name in words; None where there is no bound."""
    if bound.value is None:
        return None
    words = "optimum" if bound.exact else f"{bound.kind.upper()} bound"
    return BoundLine(bound.value, words)


def _outcome(one: Played) -> EntryOutcome:
    use = one.report.utilization
    return EntryOutcome(
        one.entry.label,
        one.report.welfare,
        welfare_by_slot(one.result),
        np.array(use.compute),
        np.array(use.memory),
    )
