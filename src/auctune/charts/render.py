"""Charts as SVG and PNG, made on this machine: nothing is fetched, no script is left inside.

An SVG for a page carries a tooltip (`title`) on each mark that has a description, and ids that do
not clash with those of other SVGs on the page.
"""

import re
from html import escape
from typing import Protocol
from xml.etree import ElementTree

import vl_convert

from auctune.charts.theme import DARK, LIGHT, AnyChart, Palette

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


class DrawChart(Protocol):
    """A chart in any palette and at any width, in pixels."""

    def __call__(self, palette: Palette, *, width: int) -> AnyChart: ...


def to_svg(chart: AnyChart) -> str:
    """Return the chart as an SVG document of its own."""
    svg: str = vl_convert.vegalite_to_svg(chart.to_dict(), allowed_base_urls=[])
    return svg


def to_png(chart: AnyChart, *, scale: float = 2.0) -> bytes:
    """Return the chart as a PNG, `scale` pixels to each of its own."""
    png: bytes = vl_convert.vegalite_to_png(chart.to_dict(), scale=scale, allowed_base_urls=[])
    return png


def to_inline_svg(chart: AnyChart, prefix: str) -> str:
    """The chart as an `svg` element for a page: tooltips, and ids that begin with `prefix`."""
    # The text is vl-convert's own output, so the plain parser is safe here.
    root = ElementTree.fromstring(to_svg(chart))
    for element in root.iter():
        _prefix_ids(element, prefix)
        label = element.attrib.pop("aria-label", None)
        # Groups are axes and legends, which speak for themselves.
        if label and element.tag != f"{{{_SVG}}}g":
            title = ElementTree.Element(f"{{{_SVG}}}title")
            title.text = label
            element.insert(0, title)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _prefix_ids(element: ElementTree.Element, prefix: str) -> None:
    for name, value in element.attrib.items():
        if name == "id":
            element.set(name, prefix + value)
        elif "url(#" in value:
            element.set(name, _REFERENCE.sub(rf"url(#{prefix}\1)", value))
        elif name == f"{{{_XLINK}}}href" and value.startswith("#"):
            element.set(name, f"#{prefix}{value[1:]}")


def to_figure(draw: DrawChart, prefix: str, *, wide: int, narrow: int, alt_text: str) -> str:
    """HTML of a chart for wide and narrow screens.

    The style sheet of `auctune.pages` recolours it in the dark; a chart with an image inside, which
    no rule can recolour, is there in both palettes.

    Args:
        draw: the chart.
        prefix: unique on the page, a letter first.
        wide, narrow: pixels on a desk and on a phone.
        alt_text: what it shows, in words.
    """
    views = [
        f'<div class="{name}">{_draw_view(draw, f"{prefix}-{name}-", width)}</div>'
        for name, width in (("wide", wide), ("narrow", narrow))
    ]
    return f'<div class="chart" role="img" aria-label="{escape(alt_text)}">{"".join(views)}</div>'


def _draw_view(draw: DrawChart, prefix: str, width: int) -> str:
    light = to_inline_svg(draw(LIGHT, width=width), prefix)
    if "<image" not in light:
        return light
    dark = to_inline_svg(draw(DARK, width=width), f"{prefix}dark-")
    return f'<div class="in-light">{light}</div><div class="in-dark">{dark}</div>'
