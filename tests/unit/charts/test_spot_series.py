import pytest

from auctune.charts import DARK, LIGHT, to_svg
from auctune.charts.spot_series import spot_series_chart


def test_every_series_has_a_panel_on_one_scale() -> None:
    series = {"recorded": [0, 16, 3] * 48, "made up": [9, 11, 10] * 48}
    svg = to_svg(spot_series_chart(series, 1800.0, "GPUs", DARK))
    assert svg.index(">recorded<") < svg.index(">made up<")
    assert svg.count(">GPUs<") == 2
    assert svg.count(f'fill="{DARK.accent}"') == 2
    assert LIGHT.accent not in svg


def test_prices_are_lines_on_an_axis_that_begins_where_they_do() -> None:
    series = {"price": [0.31, 0.35, 0.33] * 48}
    svg = to_svg(spot_series_chart(series, 1800.0, "price", from_zero=False))
    assert f'stroke="{LIGHT.accent}"' in svg
    assert ">0.0<" not in svg
    assert ">0.0<" in to_svg(spot_series_chart(series, 1800.0, "price"))


def test_nothing_to_show_is_refused() -> None:
    with pytest.raises(ValueError, match="one at least"):
        spot_series_chart({"recorded": []}, 600.0, "GPUs")
