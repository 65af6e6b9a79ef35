"""Lines in panels: all is drawn that was given, in one scale and with one legend."""

from typing import Any

import numpy as np
import pytest

from auctune.charts import DARK, LIGHT, Growth, growth_chart, to_svg
from auctune.charts.curves import (
    MAX_POINTS,
    Curve,
    CurvePanel,
    _growth_rows,
    curves_chart,
    edge_use_chart,
    series_chart,
)


def test_a_curve_has_its_colour_in_all_panels() -> None:
    panels = [
        CurvePanel(
            "counts", "GPUs", [Curve("came", [0, 1], [3, 4]), Curve("said", [0, 1], [3, 3])]
        ),
        CurvePanel("prices", "money", [Curve("said", [0, 2], [1, 2])]),
    ]
    svg = to_svg(curves_chart(panels, x_title="days"))
    # Two lines and a symbol of the legend; one line and a symbol.
    assert svg.count(f'stroke="{LIGHT.nodes[1]}"') == 3
    assert svg.count(f'stroke="{LIGHT.nodes[0]}"') == 2
    assert svg.index(">counts<") < svg.index(">prices<")
    assert svg.count(">days<") == 1


@pytest.mark.parametrize("count", [1, MAX_POINTS, MAX_POINTS + 1, 10 * MAX_POINTS + 7])
def test_long_curves_keep_their_ends(count: int) -> None:
    curve = Curve("one", range(count), [x / 2 for x in range(count)])
    datasets = curves_chart([CurvePanel("", "y", [curve])], x_title="x").to_dict()["datasets"]
    (points,) = datasets.values()
    assert len(points) <= MAX_POINTS + 1
    assert (points[0]["x"], points[-1]["x"]) == (0, count - 1)
    assert all(point["y"] == point["x"] / 2 for point in points)


def test_more_names_than_colours_are_refused() -> None:
    many = [Curve(str(index), [0, 1], [0, 1]) for index in range(9)]
    with pytest.raises(ValueError, match="9 names of curves; expected 1 to 8"):
        curves_chart([CurvePanel("", "y", many)], x_title="x")
    with pytest.raises(ValueError, match="0 names"):
        curves_chart([], x_title="x")


def test_every_series_has_a_panel_on_one_scale() -> None:
    series = {"recorded": [0, 400, 3] * 48, "synthetic": [9, 11, 10] * 48}
    svg = to_svg(series_chart(series, 1800.0, "GPUs", DARK, square_root=True))
    assert svg.index(">recorded<") < svg.index(">synthetic<")
    # Each panel has an axis of its own, up to the largest value of all.
    assert svg.count(">400<") == svg.count(">GPUs<") == 2
    assert svg.count(f'fill="{DARK.accent}"') == 2
    assert LIGHT.accent not in svg


def test_a_line_is_on_an_axis_that_begins_where_it_does() -> None:
    series = {"price": [0.31, 0.35, 0.33] * 48}
    svg = to_svg(series_chart(series, 1800.0, "price", from_zero=False))
    assert f'stroke="{LIGHT.accent}"' in svg
    assert ">0.0<" not in svg
    assert ">0.0<" in to_svg(series_chart(series, 1800.0, "price"))


def test_no_series_is_refused() -> None:
    with pytest.raises(ValueError, match="one at least"):
        series_chart({"recorded": []}, 600.0, "GPUs")


def test_each_resource_is_a_line_to_the_end_of_the_last_slot() -> None:
    use = {"gpu": np.array([0.0, 0.5]), "data": np.array([1.0, 0.25])}
    spec: dict[str, Any] = edge_use_chart(use).to_dict()
    (values,) = spec["datasets"].values()
    by_name = {name: [(v["slot"], v["share"]) for v in values if v["what"] == name] for name in use}
    assert by_name["gpu"] == [(0, 0.0), (1, 0.5), (2, 0.5)]
    assert by_name["data"] == [(0, 1.0), (1, 0.25), (2, 0.25)]
    assert to_svg(edge_use_chart(use)).startswith("<svg")


def test_nothing_is_no_chart() -> None:
    with pytest.raises(ValueError, match="one resource at least"):
        edge_use_chart({})


def test_each_size_has_its_time_and_a_line_in_proportion_starts_with_the_first() -> None:
    panels = [Growth("nodes", (50, 200), (10e-6, 20e-6)), Growth("slots", (8, 16), (1e-3, 1.5e-3))]
    svg = to_svg(growth_chart(panels))
    for words in ("nodes 50: 10.0 µs", "nodes 200: 20.0 µs", "slots 16: 1500.0 µs"):
        assert words in svg, words
    linear = [row["micros"] for panel in panels for row in _growth_rows(panel)][1::2]
    assert linear == pytest.approx([10.0, 40.0, 1000.0, 2000.0])
