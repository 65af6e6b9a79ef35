from auctune.charts.estimates import Interval, Line, Panel, estimates_chart
from auctune.charts.render import to_svg

TWO = [Interval("30", "EFT", 5.0, 4.0, 6.0), Interval("30", "NTM", 2.0, -1.0, 5.0)]


def test_estimates_say_their_mean_and_interval() -> None:
    panels = [Panel("welfare, money", TWO), Panel("share", TWO, "dots", line=Line(3.0, "goal: 3"))]
    svg = to_svg(estimates_chart(panels, axis="bids a slot"))
    for words in ("30, EFT: 5 (4 to 6)", ">goal: 3</text>", ">bids a slot</text>", ">NTM</text>"):
        assert words in svg, words


def test_an_interval_below_zero_does_not_break_a_logarithmic_axis() -> None:
    chart = estimates_chart([Panel("time", TWO, "log dots", "~f")], axis="x")
    lows = [row["low"] for data in chart.to_dict()["datasets"].values() for row in data]
    assert lows == [4.0, 0.2]
    assert "NaN" not in to_svg(chart)
