"""report.html: one file that needs no network, on a desk, on a phone, in light and in dark."""

from collections.abc import Iterator
from html import escape
from pathlib import Path
from string import Template

from auctune.atomic_files import write_atomically
from auctune.charts import LIGHT
from auctune.run.report_charts import draw_figures
from auctune.run.report_data import MarketReport
from auctune.run.report_parts import card, notes_card, page_style
from auctune.run.report_tables import count, decisions_table, repair_section, total_tiles

_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$title</title>
<style>
$style
</style>
</head>
<body>
<svg class="defs" aria-hidden="true"><defs><pattern id="hatch" width="5" height="5"
patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-ground" width="5"
height="5"/><rect class="hatch-line" width="1.6" height="5"/></pattern></defs></svg>
<header>
<p class="kicker">auctune market report</p>
<h1>$heading</h1>
<p class="facts">$facts</p>
</header>
<main>
$sections
</main>
<footer>Money has no currency of its own; amounts are exact to 4 decimals. All numbers of this page
are in <code>report.json</code> beside it.</footer>
</body>
</html>
""")


def render_report(report: MarketReport) -> str:
    """The page, whole: styles and charts inside, every text escaped."""
    return _PAGE.substitute(
        title=escape(f"{report.title}: auctune"),
        style=page_style(),
        heading=escape(report.title),
        facts=" · ".join(escape(fact) for fact in _facts(report)),
        sections="\n".join(_sections(report)),
    )


def write_report(report: MarketReport, path: Path) -> None:
    """Write the page to `path`, whole or not at all."""
    write_atomically(path, render_report(report).encode())


def _facts(report: MarketReport) -> Iterator[str]:
    totals = report.totals
    yield f"{totals.admitted} of {totals.tasks} bids admitted"
    yield count(totals.done, "adapter") + " done"
    yield f"base {report.base}"
    yield count(len(report.nodes), "node")
    yield f"{count(report.slots, 'slot')} of {report.slot_seconds:g} s"
    yield report.mechanism


def _sections(report: MarketReport) -> Iterator[str]:
    figures = draw_figures(report)
    by_node = ", coloured by node" if len(report.nodes) <= len(LIGHT.nodes) else ""
    yield total_tiles(report.totals)
    if notes := _notes(report):
        yield notes
    yield card(
        "Plan",
        f"Bars: training{by_node}. Hatched: the vendor's work. Line: from bid to deadline. "
        "Dot: training ended.",
        figures.plan,
    )
    yield card("Decisions", "", decisions_table(report))
    yield card(
        "Who paid what",
        "Bars: the payment by its parts. Upright mark: the bid. A rejected task's bar is the price "
        "that it did not meet.",
        figures.payments,
    )
    yield _pair(
        card("Price of compute", "By node and slot, at the end.", figures.compute_prices),
        card("Price of memory", "By node and slot, at the end.", figures.memory_prices),
    )
    yield _pair(
        card("Compute in use", "Share of each node's capacity.", figures.compute_used),
        card("Memory in use", "Share of what the base model leaves free.", figures.memory_used),
    )
    if figures.losses:
        yield card(
            "Loss by rows trained on",
            "Line: training. Rings: validation, at the end of an epoch.",
            figures.losses,
        )
    for task in report.tasks:
        if task.repair is not None:
            yield card(f"Data repair: {task.id}", "", repair_section(task.repair))


def _notes(report: MarketReport) -> str:
    notes = [*report.notes, *(f"{task.id}: {note}" for task in report.tasks for note in task.notes)]
    return notes_card(notes)


def _pair(left: str, right: str) -> str:
    return f'<div class="pair">{left}{right}</div>'
