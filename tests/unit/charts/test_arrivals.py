import pytest

from auctune.charts import DARK, LIGHT, to_svg
from auctune.charts.arrivals import arrivals_chart


def test_every_source_has_a_panel_on_one_scale() -> None:
    counts = {"the log": [0, 400, 3] * 48, "Poisson": [9, 11, 10] * 48}
    svg = to_svg(arrivals_chart(counts, 600.0, DARK))
    assert svg.index(">the log<") < svg.index(">Poisson<")
    # Each panel has an axis of its own, up to the largest count of all.
    assert svg.count(">400<") == 2
    assert svg.count(">bids a slot<") == 2
    assert svg.count(f'fill="{DARK.accent}"') == 2
    assert LIGHT.accent not in svg


def test_nothing_to_show_is_refused() -> None:
    with pytest.raises(ValueError, match="one at least"):
        arrivals_chart({"the log": []}, 600.0)
