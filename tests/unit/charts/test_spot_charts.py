"""Charts of renting by deadline: what is drawn is what was given, at any size."""

import math
from typing import Any

import pytest

from auctune.charts import (
    DARK,
    LIGHT,
    DiaryPoint,
    Palette,
    Rival,
    spot_diary_chart,
    spot_regret_chart,
    spot_rivals_chart,
    spot_weights_chart,
    to_svg,
)

POINTS = [
    DiaryPoint(0, 0.3, 4, 0, 4, 3.6, 3.0, 1.2),
    DiaryPoint(1, 0.4, 0, 2, 0, 5.5, 6.0, 2.0),
    DiaryPoint(2, 0.5, 0, 0, 0, 5.5, 9.0, 0.0),
]


def rows(chart: Any, key: str) -> list[dict[str, Any]]:
    """All rows of a chart's data that have a key."""
    datasets = chart.to_dict()["datasets"].values()
    return [row for values in datasets for row in values if key in row]


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_a_diary_draws_each_kind_held_in_its_slot(palette: Palette) -> None:
    chart = spot_diary_chart(POINTS, 5, palette)
    bars = rows(chart, "high")
    assert [(bar["kind"], bar["low"], bar["high"]) for bar in bars] == [
        ("spot", 0, 4),
        ("on-demand", 0, 2),
    ]
    svg = to_svg(chart)
    assert "slot 1: 2 on-demand held" in svg
    assert "even pace" in svg


def test_rivals_stand_in_their_order_beside_the_optimum() -> None:
    rivals = [Rival("b", 3.0, 2.5, 3.5, 0.9), Rival("a", -1.0, -2.0, 0.0, 0.25)]
    chart = spot_rivals_chart(rivals, 4.0)
    svg = to_svg(chart)
    assert "optimum 4.00" in svg
    assert "25% on time" in svg
    assert "b: utility 3.00 (2.50 to 3.50), 90.0% on time" in svg
    assert svg.index("b: utility") < svg.index("a: utility")


@pytest.mark.parametrize("num_jobs", [1, 7, 399, 400, 401, 5000])
def test_weights_and_regret_keep_their_first_and_last_points(num_jobs: int) -> None:
    by_job = [k / (num_jobs + 1) for k in range(num_jobs + 1)]
    drawn = rows(spot_weights_chart({"one": by_job}), "weight")
    assert len(drawn) <= 402
    assert (drawn[0]["job"], drawn[-1]["job"]) == (0, num_jobs)
    assert drawn[-1]["weight"] == by_job[-1]
    drawn = rows(spot_regret_chart(by_job[1:], [math.nan] * num_jobs), "regret")
    assert (drawn[0]["jobs"], drawn[-1]["jobs"]) == (1, num_jobs)
    assert {row["kind"] for row in drawn} == {"regret of the weighted mean"}


def test_a_bound_is_drawn_where_one_is_stated() -> None:
    drawn = rows(spot_regret_chart([0.1, 0.2], [0.5, math.nan]), "regret")
    assert [row["regret"] for row in drawn if row["kind"] == "bound"] == [0.5]


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="no slot"):
        spot_diary_chart([], 5)
    with pytest.raises(ValueError, match="no policy"):
        spot_rivals_chart([], 1.0)
    with pytest.raises(ValueError, match="0 policies; expected 1 to 6"):
        spot_weights_chart({})
    with pytest.raises(ValueError, match="no job"):
        spot_regret_chart([], [])
