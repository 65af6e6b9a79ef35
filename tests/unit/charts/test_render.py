from xml.etree import ElementTree

import numpy as np

from auctune.charts import DARK, Palette, PlanRow, plan_chart, utilization_map
from auctune.charts.render import to_figure, to_inline_svg
from auctune.charts.theme import AnyChart

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<script>alert("x")</script>&\''


def test_descriptions_become_tooltips_and_texts_are_escaped() -> None:
    row = PlanRow(HOSTILE, 0, 3, ((1, HOSTILE),))
    svg = to_inline_svg(plan_chart([row], [HOSTILE], 4), "p-")
    assert "<script" not in svg
    titles = [title.text for title in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert f"{HOSTILE}: trains on {HOSTILE} in slots 1 to 1" in titles


def test_ids_of_two_charts_on_a_page_do_not_clash() -> None:
    row = PlanRow("x", 0, 3, ((1, "a"),))
    ids = []
    for prefix in ("one-", "two-"):
        root = ElementTree.fromstring(to_inline_svg(plan_chart([row], ["a"], 4), prefix))
        ids += [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
        for element in root.iter():
            for value in element.attrib.values():
                if "url(#" in value:
                    assert f"url(#{prefix}" in value
    assert len(ids) == len(set(ids))


def test_a_figure_serves_both_widths_and_pixels_come_in_both_palettes() -> None:
    values, nodes = np.zeros((144, 50)), tuple(map(str, range(50)))

    def draw_few(palette: Palette, width: int) -> AnyChart:
        return utilization_map(values[:2], nodes, "memory", palette, width)

    def draw_many(palette: Palette, width: int) -> AnyChart:
        return utilization_map(values, nodes, "memory", palette, width)

    few = to_figure(draw_few, "few", wide=500, narrow=300, alt_text='a "quoted" text')
    assert few.count("<svg") == 2
    assert 'aria-label="a &quot;quoted&quot; text"' in few
    many = to_figure(draw_many, "many", wide=500, narrow=300, alt_text="x")
    assert many.count("<svg") == 4
    assert DARK.muted in many
