import pytest

from auctune.charts import DARK, LIGHT, to_svg
from auctune.charts.spot import Band, goodness_of_fit_chart

BAND = Band("lag, hours", "correlation", [1, 2, 3], [0.9, 0.8, 0.7], [0.5] * 3, [0.95] * 3)


def test_each_panel_has_a_line_in_a_band() -> None:
    other = Band("hours", "share", [1, 9], [0.3, 0.2], [0.1, 0.1], [0.4, 0.3])
    svg = to_svg(goodness_of_fit_chart([BAND, other], DARK))
    assert svg.index(">correlation<") < svg.index(">share<")
    assert svg.count(f'stroke="{DARK.accent}"') == 2
    assert svg.count(f'fill="{DARK.pending}"') == 2
    assert LIGHT.accent not in svg


def test_nothing_to_show_is_refused() -> None:
    with pytest.raises(ValueError, match="one at least"):
        goodness_of_fit_chart([])
