from typing import Any

import numpy as np
import pytest

from auctune.charts.comparison import (
    MAX_POINTS,
    BoundLine,
    EntryOutcome,
    cumulative_chart,
    use_chart,
    welfare_chart,
)
from auctune.charts.render import to_svg
from auctune.charts.theme import AnyChart


def outcome(name: str, scale: float, slots: int = 12) -> EntryOutcome:
    gained = scale * np.ones(slots)
    share = np.full(slots, scale / 10)
    return EntryOutcome(name, float(gained.sum()), gained, share, share / 2)


TWO = [outcome("pdftsp", 8.0), outcome("eft", 2.0)]
BOUND = BoundLine(120.0, "LP bound")


def points(chart: AnyChart) -> list[dict[str, Any]]:
    """What the lines of a chart run through."""
    rows = [row for data in chart.to_dict()["datasets"].values() for row in data]
    return [row for row in rows if "slot" in row]


def test_each_bar_has_its_welfare_and_its_share_of_the_bound() -> None:
    svg = to_svg(welfare_chart(TWO, BOUND))
    for words in (">96, 80.0%</text>", ">24, 20.0%</text>", ">LP bound: 120</text>"):
        assert words in svg
    assert "pdftsp: welfare 96.00, 80.0% of the LP bound" in svg


@pytest.mark.parametrize("bound", [None, BoundLine(0.0, "optimum")])
def test_without_a_bound_above_zero_there_are_no_shares(bound: BoundLine | None) -> None:
    svg = to_svg(welfare_chart(TWO, bound))
    assert ">96</text>" in svg
    assert "%" not in svg


def test_names_are_whole_where_settings_make_them_long() -> None:
    name = "pdftsp:pricing=exponential:aggregate=sum"
    svg = to_svg(welfare_chart([outcome(name, 1.0), *TWO]))
    assert f">{name}</text>" in svg


def test_welfare_is_added_up_to_its_sum_at_the_end_of_the_horizon() -> None:
    values = points(cumulative_chart(TWO, BOUND))
    ends = {value["name"]: (value["slot"], value["value"]) for value in values}
    assert ends == {"pdftsp": (12, 96.0), "eft": (12, 24.0)}
    assert ">LP bound: 120</text>" in to_svg(cumulative_chart(TWO, BOUND))


def test_use_is_shown_for_both_resources() -> None:
    svg = to_svg(use_chart(TWO))
    for words in (">compute sold</text>", ">memory sold</text>", ">pdftsp</text>", ">eft</text>"):
        assert words in svg


def test_long_horizons_are_thinned_to_means_and_to_last_values() -> None:
    slots = 10 * MAX_POINTS + 3
    long = outcome("eft", 2.0, slots)
    use = points(use_chart([long]))
    assert len(use) <= 2 * (MAX_POINTS + 1)
    assert {round(value["value"], 9) for value in use} == {0.1, 0.2}
    values = points(cumulative_chart([long]))
    assert values[0]["value"] == 2.0 * 11
    assert (values[-1]["slot"], values[-1]["value"]) == (slots, 2.0 * slots)


def test_many_mechanisms_are_told_apart_by_dashes_as_well() -> None:
    many = [outcome(f"m{index}", index + 1.0) for index in range(9)]
    svg = to_svg(cumulative_chart(many))
    assert svg.count('aria-roledescription="line mark"') == 9
    assert 'stroke-dasharray="5,3"' in svg
