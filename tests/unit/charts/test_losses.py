import math
from dataclasses import replace

import pytest

from auctune.charts import LossCurve, loss_chart, to_svg
from auctune.charts.losses import thin_out


def test_every_task_has_a_panel_with_its_last_loss() -> None:
    curves = [
        LossCurve("one", ((8, 4.0), (16, 2.5), (24, math.nan)), ((24, 2.75),)),
        LossCurve("two", ((8, 3.0), (16, 1.234))),
        LossCurve("nothing yet", ()),
    ]
    svg = to_svg(loss_chart(curves))
    for words in (">one</text>", ">two</text>", ">last 2.5</text>", ">last 1.23</text>"):
        assert words in svg
    assert "one: validation loss 2.75 after 24 rows" in svg
    assert "nothing yet" not in svg


def test_one_curve_has_all_of_the_width_and_more_height() -> None:
    one = LossCurve("one", ((8, 4.0), (16, 2.5)))
    single = loss_chart([one], width=800).to_dict()["spec"]
    both = loss_chart([one, replace(one, task="two")], width=800).to_dict()["spec"]
    # But for the labels of its axis.
    assert 800 - 50 <= single["width"] <= 800
    assert both["width"] < 400
    assert single["height"] > both["height"]


def test_many_curves_share_one_panel() -> None:
    curves = [LossCurve(f"task {i}", ((8, 4.0), (16, 2.0 + i))) for i in range(40)]
    svg = to_svg(loss_chart(curves))
    assert svg.count('aria-roledescription="line mark"') == 40


def test_nothing_to_draw_is_an_error() -> None:
    curve = LossCurve("x", ((1, math.inf),))
    assert not curve.is_drawable
    with pytest.raises(ValueError, match="no curve"):
        loss_chart([curve])


def test_thinning_keeps_ends_order_and_mean() -> None:
    points = [(step, 1000.0 - step) for step in range(1000)]
    thinned = thin_out(points, 50)
    assert len(thinned) == 50
    assert (thinned[0], thinned[-1]) == (points[0], points[-1])
    assert thinned == sorted(thinned)
    mean = sum(loss for _, loss in points) / len(points)
    assert sum(loss for _, loss in thinned) / 50 == pytest.approx(mean, rel=0.02)
    assert thin_out(points[:50], 50) == points[:50]
