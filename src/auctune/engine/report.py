"""Rendering of report.html: one file that needs no network, for all screens, light and dark."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

from auctune.charts import LossCurve, loss_chart, to_figure
from auctune.charts.render import DrawChart
from auctune.pages import make_environment

WIDE, NARROW = 1040, 336
"""Widths of charts in pixels."""

_TEMPLATES = make_environment("auctune.engine")


def render_template(name: str, **values: Any) -> str:
    """Render a report: styles and charts are inside, every text is escaped."""
    return _TEMPLATES.get_template(name).render(values) + "\n"


def figure(draw: DrawChart, name: str, alt_text: str, *, wide: int = WIDE) -> Markup:
    """Return a chart as HTML, for wide and narrow screens."""
    return Markup(to_figure(draw, name, wide=wide, narrow=NARROW, alt_text=alt_text))


def loss_figure(curves: Sequence[LossCurve], things: str) -> Markup | None:
    """Return loss curves of tasks or threads as HTML, or None without a finite loss."""
    curves = [curve for curve in curves if curve.is_drawable]
    if not curves:
        return None
    return figure(partial(loss_chart, curves), "losses", f"Loss curves of {len(curves)} {things}")
