"""Loss curves, a small panel a task, on one scale of loss so that they compare."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from auctune.charts.theme import LIGHT, AnyChart, Palette, apply_theme, inline_data

MAX_POINTS = 240
MAX_PANELS = 24
PANEL_WIDTH = 210
PANEL_HEIGHT = 96
SINGLE_HEIGHT = 180


@dataclass(frozen=True, slots=True)
class LossCurve:
    """One task's losses: (rows trained on, loss), by training and by validation.

    Its threshold, if it has one, is the loss that it is to reach.
    """

    task: str
    training: tuple[tuple[int, float], ...]
    validation: tuple[tuple[int, float], ...] = ()
    threshold: float | None = None

    @property
    def is_drawable(self) -> bool:
        """Return whether there is a finite value to draw."""
        return any(math.isfinite(loss) for _, loss in (*self.training, *self.validation))


def loss_chart(
    curves: Sequence[LossCurve], palette: Palette = LIGHT, *, width: int = 1040
) -> AnyChart:
    """Lines of training loss over rows, rings of validation loss, the last loss in figures.

    A threshold is a dashed line across its panel. Values that are not finite are left out.
    Above 24 curves one panel shows all, in thin lines and without thresholds.

    Args:
        curves: in the order of the panels; at least one of them with a finite value.
        palette: colours.
        width: pixels of the whole chart.
    """
    values = [value for curve in curves for value in _points(curve)]
    if not values:
        raise ValueError("no curve has a finite loss; expected one at least")
    names = list(dict.fromkeys(value["task"] for value in values))
    data = inline_data(values)
    x = alt.X("rows:Q", axis=alt.Axis(title=None, tickCount=3, grid=False, format=",d"))
    y = alt.Y(
        "loss:Q",
        scale=alt.Scale(zero=False, nice=True),
        axis=alt.Axis(title=None, tickCount=3),
    )
    if len(names) > MAX_PANELS:
        return apply_theme(_all_in_one(data, x, y, palette, width), palette)
    columns = min(len(names), max(1, width // (PANEL_WIDTH + 40)))
    panel_width = (width - 36 - 24 * (columns - 1)) // columns
    line = alt.Chart().mark_line(color=palette.accent, strokeWidth=1.6, clip=True)
    dots = alt.Chart().mark_point(
        filled=False,
        size=34,
        color=palette.warning,
        fill=palette.surface,
        strokeWidth=1.6,
        opacity=1,
    )
    target = alt.Chart().mark_rule(color=palette.warning, strokeWidth=1.2, strokeDash=[4, 3])
    last = alt.Chart().mark_text(align="right", baseline="top", fontSize=11, color=palette.muted)
    panel = alt.layer(
        line.transform_filter("datum.kind == 'training'").encode(x=x, y=y),
        dots.transform_filter("datum.kind == 'validation'").encode(
            x=x, y=y, description="description:N"
        ),
        target.transform_filter("datum.kind == 'threshold'").encode(
            y=y, description="description:N"
        ),
        last.transform_filter("datum.label != ''").encode(
            x=alt.value(panel_width), y=alt.value(3), text="label:N"
        ),
    ).properties(width=panel_width, height=SINGLE_HEIGHT if len(names) == 1 else PANEL_HEIGHT)
    facets = panel.facet(
        facet=alt.Facet("task:N", sort=names, title=None),
        columns=columns,
        spacing={"row": 22, "column": 24},
        data=data,
    )
    return apply_theme(facets.resolve_scale(x="independent"), palette)


def _all_in_one(data: alt.InlineData, x: alt.X, y: alt.Y, palette: Palette, width: int) -> AnyChart:
    line = alt.Chart(data).mark_line(color=palette.accent, strokeWidth=1, opacity=0.35)
    drawn = line.transform_filter("datum.kind == 'training'").encode(x=x, y=y, detail="task:N")
    return alt.layer(drawn).properties(width=width - 56, height=280)


def _points(curve: LossCurve) -> list[dict[str, Any]]:
    training = [point for point in curve.training if math.isfinite(point[1])]
    validation = [point for point in curve.validation if math.isfinite(point[1])]
    points = [_point(curve.task, "training", *point) for point in thin_out(training, MAX_POINTS)]
    if points:
        points[-1]["label"] = f"last {training[-1][1]:.3g}"
        if curve.threshold is not None:
            target = _point(curve.task, "threshold", training[-1][0], curve.threshold)
            target["description"] = f"{curve.task}: threshold {curve.threshold:.4g}"
            points.append(target)
    return points + [_point(curve.task, "validation", *point) for point in validation]


def _point(task: str, kind: str, rows: int, loss: float) -> dict[str, Any]:
    description = f"{task}: {kind} loss {loss:.4g} after {rows} rows"
    return {
        "task": task,
        "kind": kind,
        "rows": rows,
        "loss": loss,
        "label": "",
        "description": description,
    }


def thin_out(points: Sequence[tuple[int, float]], most: int) -> list[tuple[int, float]]:
    """At most `most` points: the means of equal runs, but the first and last as they are."""
    if len(points) <= most:
        return list(points)
    inner, runs = points[1:-1], most - 2
    thinned = [points[0]]
    for index in range(runs):
        run = inner[index * len(inner) // runs : (index + 1) * len(inner) // runs]
        thinned.append((run[len(run) // 2][0], sum(loss for _, loss in run) / len(run)))
    return [*thinned, points[-1]]
