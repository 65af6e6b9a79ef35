"""Parts that the pages of all reports are made of."""

from collections.abc import Sequence
from html import escape

from auctune.charts.render import dark_style
from auctune.run.report_style import DARK_RULES, DARK_TOKENS, LIGHT_TOKENS, STYLE


def page_style() -> str:
    """The style sheet, for light and dark."""
    rules = "\n".join((f":root{{{DARK_TOKENS}}}", DARK_RULES, dark_style()))
    dark = f"@media (prefers-color-scheme: dark) {{\n{rules}\n}}"
    return f":root{{{LIGHT_TOKENS}}}\n{STYLE}\n{dark}"


def card(title: str, caption: str, body: str) -> str:
    """A section with a heading; `body` is HTML."""
    caption_html = f'<p class="caption">{escape(caption)}</p>' if caption else ""
    return f'<section class="card"><h2>{escape(title)}</h2>{caption_html}{body}</section>'


def notes_card(notes: Sequence[str]) -> str:
    """What a reader must know; nothing of none."""
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f'<section class="card notes"><h2>To know</h2><ul>{items}</ul></section>'
