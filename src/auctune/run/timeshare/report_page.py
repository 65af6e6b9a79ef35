"""report.html of a run: one file that needs no network."""

from collections.abc import Iterator
from html import escape
from itertools import accumulate
from string import Template
from typing import Any

import numpy as np

from auctune.charts import LossCurve, Palette, loss_chart, to_figure, utilization_map
from auctune.charts.losses import MAX_PANELS
from auctune.charts.theme import AnyChart
from auctune.run.report_parts import card, notes_card, page_style

WIDE, NARROW = 1040, 336

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$heading: auctune</title>
<style>
$style
</style>
</head>
<body>
<header>
<p class="kicker">auctune time sharing</p>
<h1>$heading</h1>
<p class="facts">$facts</p>
</header>
<main>
$sections
</main>
<footer>All numbers of this page are in <code>report.json</code> beside it.</footer>
</body>
</html>
""")


def render_page(figures: dict[str, Any]) -> str:
    """The page, whole: styles and charts inside, every text escaped.

    Args:
        figures: as report.json has them.
    """
    return _PAGE.substitute(
        heading=f"{figures['done']} of {figures['threads_total']} threads done",
        style=page_style(),
        facts=" · ".join(escape(fact) for fact in _facts(figures)),
        sections="\n".join(_sections(figures)),
    )


def _facts(figures: dict[str, Any]) -> Iterator[str]:
    yield figures["allocator"]
    length = figures["unit_seconds"]
    yield f"{figures['units']} units" + ("" if length is None else f" of {length:g} s")
    switching = figures["switching"]
    if switching["resumed"]:
        yield f"{switching['resumed']} threads brought back, {switching['seconds']:.2f} s"
    yield f"{figures['most_bytes'] / 1e6:.1f} MB in use at most"


def _sections(figures: dict[str, Any]) -> Iterator[str]:
    if figures["notes"]:
        yield notes_card(figures["notes"])
    yield card("Threads", "", _table(figures))
    if figures["units"]:
        yield card("Shares", "Of the pool, by unit of time.", _shares(figures))
    if losses := _losses(figures):
        yield card("Loss by batches trained", _caption(figures), losses)


def _table(figures: dict[str, Any]) -> str:
    columns = ("Threshold", "Last loss", "Deadline", "Done at", "Batches", "Batches a unit")
    head = "".join(f'<th scope="col" class="number">{column}</th>' for column in columns)
    rows = "".join(_row(thread) for thread in figures["threads"])
    return (
        f'<table><thead><tr><th scope="col">Thread</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )


def _row(thread: dict[str, Any]) -> str:
    losses = [one["loss"] for one in thread["losses"] if one["loss"] is not None]
    cells = (
        f"{thread['threshold']:g}",
        f"{losses[-1]:.4g}" if losses else "none",
        f"{thread['deadline']}",
        f"{thread['finish']:g}" if thread["done"] else "missed",
        f"{thread['batches']:,}",
        f"{thread['batches_per_unit']:.1f}",
    )
    data = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    return f'<tr><th scope="row">{escape(thread["name"])}</th>{data}</tr>'


def _shares(figures: dict[str, Any]) -> str:
    threads = figures["threads"]
    units = threads[0]["losses"]
    # Units in which nothing could be trained have no round, but a place on the axis.
    values = np.zeros((units[-1]["time"] + 1, len(threads)))
    for column, thread in enumerate(threads):
        for unit in thread["losses"]:
            values[unit["time"], column] = unit["share"]
    names = tuple(thread["name"] for thread in threads)

    def draw(palette: Palette, width: int) -> AnyChart:
        return utilization_map(values, names, "share", palette, width=width)

    text = f"Heat map of the shares of {len(threads)} threads"
    return to_figure(draw, "shares", wide=WIDE, narrow=NARROW, alt_text=text)


def _caption(figures: dict[str, Any]) -> str:
    dashed = len(figures["threads"]) <= MAX_PANELS
    return "Means over units of time" + ("; dashed: the threshold." if dashed else ".")


def _losses(figures: dict[str, Any]) -> str:
    curves = [_curve(thread) for thread in figures["threads"]]
    curves = [curve for curve in curves if curve.is_drawable]
    if not curves:
        return ""

    def draw(palette: Palette, width: int) -> AnyChart:
        return loss_chart(curves, palette, width=width)

    text = f"Loss curves of {len(curves)} threads"
    return to_figure(draw, "losses", wide=WIDE, narrow=NARROW, alt_text=text)


def _curve(thread: dict[str, Any]) -> LossCurve:
    batches = accumulate(unit["batches"] for unit in thread["losses"])
    points = zip(batches, thread["losses"], strict=True)
    return LossCurve(
        task=thread["name"],
        training=tuple((at, unit["loss"]) for at, unit in points if unit["loss"] is not None),
        threshold=thread["threshold"],
    )
