"""Charts of what is metered: what is stacked adds up, and what is named stands there."""

from typing import Any

import pytest

from auctune.charts.menu import ChoicePoint, choices_chart
from auctune.charts.metered import (
    COST_HEIGHT,
    OTHERS,
    RentedSlot,
    Spread,
    StackedSlot,
    metered_chart,
    rented_chart,
    spread_chart,
    stacked_chart,
)


def values(spec: Any) -> list[dict[str, Any]]:
    """All rows of a chart."""
    if isinstance(spec, dict):
        own = spec.get("data", {}).get("values", []) if isinstance(spec.get("data"), dict) else []
        rows = [row for one in spec.get("datasets", {}).values() for row in one]
        parts = [part for name, part in spec.items() if name not in ("data", "datasets")]
        return own + rows + [row for part in parts for row in values(part)]
    return [row for part in spec for row in values(part)] if isinstance(spec, list) else []


def test_what_is_stacked_stands_on_what_is_below_in_the_same_order_everywhere() -> None:
    slots = [StackedSlot(0, {"a": 1, "b": 2}), StackedSlot(3, {"b": 1, "a": 3})]
    bars = values(stacked_chart(slots, y_title="held").to_dict())
    assert [(bar["kind"], round(bar["from"]), bar["low"], bar["high"]) for bar in bars] == [
        ("a", 0, 0, 1),
        ("b", 0, 1, 3),
        ("a", 3, 0, 3),
        ("b", 3, 3, 4),
    ]


def test_more_things_than_colours_are_others_together() -> None:
    slots = [StackedSlot(0, {f"job-{k}": 0.1 for k in range(9)})]
    bars = values(stacked_chart(slots, y_title="share", is_share=True).to_dict())
    kinds = [bar["kind"] for bar in bars]
    assert (len(set(kinds)), kinds.count(OTHERS)) == (6, 4)
    assert bars[-1]["high"] == pytest.approx(0.9)
    assert bars[-1]["description"] == "slot 0: job-8 10%"


def test_a_cost_stands_under_its_cap_with_what_was_had_or_without() -> None:
    had = [StackedSlot(0, {"spot": 2})]
    for slots, panels in ((had, 2), ([], 1)):
        chart = metered_chart([(0, 1.5)], 4.0, slots, had_title="instances", is_share=False)
        spec = chart.to_dict()
        assert len(spec.get("vconcat", [spec])) == panels
        words = [row["description"] for row in values(spec)]
        assert {"slot 0: 1.5000 so far", "cap 4.0000"} <= set(words)


@pytest.mark.parametrize("cost", [0.5, 4.0])
def test_the_cap_has_room_above_its_line_for_its_name(cost: float) -> None:
    chart = metered_chart([(0, cost)], 4.0, [], had_title="instances", is_share=False)
    bars, _, words = chart.to_dict()["layer"]
    low, high = bars["encoding"]["y"]["scale"]["domain"]
    assert low == 0
    # In pixels: a line of text. The name stands on the line, clear of the bars below it.
    assert (high - 4.0) / high * COST_HEIGHT >= 15
    assert (words["mark"]["text"], words["mark"]["baseline"]) == ("cap 4.0000", "bottom")


def test_a_market_shows_price_count_and_holdings_of_each_slot() -> None:
    slots = [RentedSlot(n, 0.5, 4 - n, n, 1) for n in range(2)]
    words = [row.get("description") for row in values(rented_chart(slots, 1.0).to_dict())]
    expected = {"slot 1: spot price 0.5", "slot 1: spot available 3", "slot 1: on demand 1"}
    assert expected <= set(words)


def test_a_limit_is_named_where_there_is_one() -> None:
    both = [Spread("cost", 2.0, 3.0, 5.0, "cap"), Spread("minutes", 1.0, 2.0)]
    rows = values(spread_chart(both).to_dict())
    assert [row["description"] for row in rows if "cap" in row["description"]] == ["cap: 5"]
    assert "minutes in 9 of 10 cases at most: 2" in {row["description"] for row in rows}


def test_the_chosen_zone_is_marked() -> None:
    points = [ChoicePoint(name, 60.0, 2.0, name == "b", name) for name in "ab"]
    rows = values(choices_chart(points).to_dict())
    assert {(row["name"], row["chosen"]) for row in rows} == {("a", False), ("b", True)}


@pytest.mark.parametrize("draw", [choices_chart, spread_chart])
def test_nothing_to_draw_is_refused(draw: Any) -> None:
    with pytest.raises(ValueError, match="at least"):
        draw([])
