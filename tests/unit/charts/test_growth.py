import pytest

from auctune.charts import Growth, growth_chart, to_svg
from auctune.charts.growth import _rows


def test_each_size_has_its_time_and_a_line_in_proportion_starts_with_the_first() -> None:
    panels = [Growth("nodes", (50, 200), (10e-6, 20e-6)), Growth("slots", (8, 16), (1e-3, 1.5e-3))]
    svg = to_svg(growth_chart(panels))
    for words in ("nodes 50: 10.0 µs", "nodes 200: 20.0 µs", "slots 16: 1500.0 µs"):
        assert words in svg, words
    linear = [row["micros"] for panel in panels for row in _rows(panel)][1::2]
    assert linear == pytest.approx([10.0, 40.0, 1000.0, 2000.0])
