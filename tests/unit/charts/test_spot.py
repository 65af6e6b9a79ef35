"""Charts of renting by deadline: what is drawn is what was given."""

from typing import Any

import pytest

from auctune.charts import (
    DARK,
    LIGHT,
    Palette,
    PolicyPoint,
    SlotPoint,
    policy_comparison_chart,
    spot_job_chart,
    to_svg,
)
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


POINTS = [
    SlotPoint(0, 0.3, 4, 0, 4, 3.6, 3.0, 1.2),
    SlotPoint(1, 0.4, 0, 2, 0, 5.5, 6.0, 2.0),
    SlotPoint(2, 0.5, 0, 0, 0, 5.5, 9.0, 0.0),
]


def rows(chart: Any, key: str) -> list[dict[str, Any]]:
    """All rows of a chart's data that have a key."""
    datasets = chart.to_dict()["datasets"].values()
    return [row for values in datasets for row in values if key in row]


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_a_schedule_draws_each_kind_held_in_its_slot(palette: Palette) -> None:
    chart = spot_job_chart(POINTS, 5, palette)
    bars = rows(chart, "high")
    assert [(bar["kind"], bar["low"], bar["high"]) for bar in bars] == [
        ("spot", 0, 4),
        ("on-demand", 0, 2),
    ]
    svg = to_svg(chart)
    assert "slot 1: 2 on-demand held" in svg
    assert "even pace" in svg


def test_baselines_stand_in_their_order_beside_the_optimum() -> None:
    policies = [PolicyPoint("b", 3.0, 2.5, 3.5, 0.9), PolicyPoint("a", -1.0, -2.0, 0.0, 0.25)]
    chart = policy_comparison_chart(policies, 4.0)
    svg = to_svg(chart)
    assert "optimum 4.00" in svg
    assert "25% on time" in svg
    assert "b: utility 3.00 (2.50 to 3.50), 90.0% on time" in svg
    assert svg.index("b: utility") < svg.index("a: utility")


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="no slot"):
        spot_job_chart([], 5)
    with pytest.raises(ValueError, match="no policy"):
        policy_comparison_chart([], 1.0)
