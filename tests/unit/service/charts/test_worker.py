"""Charts of the page: of every name, without styles, and with words."""

from typing import Any

import pytest

from auctune.service.charts.worker import CHARTS, draw

TIMES = {"start": 1_800_000_000.0, "seconds": 60.0}
GRID = {"times": TIMES, "nodes": ["a", "b"], "values": [[0.0, 0.5], [0.25, 1.0]]}
CURVE = {"name": "welfare", "x": [-2.0, -1.0, 0.0], "y": [0.0, 1.0, 3.0]}
DATA: dict[str, dict[str, Any]] = {
    "compute-price": {**GRID, "busiest": 1.0},
    "memory-price": {**GRID, "busiest": 0.0},
    "compute-use": GRID,
    "memory-use": GRID,
    "site-price": GRID,
    "site-use": GRID,
    "plan": {
        "rows": [{"task": "<b>job</b>", "arrival": 0, "deadline": 3, "cells": [[1, "a"]]}],
        "nodes": ["a"],
        "slots": 4,
        "times": TIMES,
    },
    "losses": {
        "curves": [
            {
                "task": "job",
                "training": [[8, 3.0], [16, 2.0]],
                "validation": [[16, 2.5]],
                "threshold": 1.0,
            }
        ]
    },
    "menu": {
        "points": [
            {"line": n, "seconds": 60.0 * (n + 1), "price": 5.0 - n, "label": f"line {n}"}
            for n in range(3)
        ]
    },
    "over-time": {
        "panels": [{"title": "", "quantity": "money", "curves": [CURVE]}],
        "x_title": "hours from now",
    },
    "choices": {
        "points": [
            {
                "name": f"z{n}",
                "seconds": 60.0 * n,
                "cost": 5.0 - n,
                "is_chosen": n == 1,
                "label": "",
            }
            for n in range(1, 4)
        ]
    },
    "spread": {
        "spreads": [
            {"title": "cost", "expected": 2.0, "p90": 3.0, "limit": 5.0, "limit_name": "cap"},
            {"title": "minutes", "expected": 2.0, "p90": 3.0},
        ]
    },
    "metered": {
        "costs": [[0, 1.0], [2, 2.5]],
        "cap": 5.0,
        "slots": [{"slot": 0, "amounts": {"spot": 2}}, {"slot": 2, "amounts": {"spot": 1}}],
        "had_title": "instances",
        "is_share": False,
        "times": TIMES,
    },
    "rented": {
        "slots": [
            {"slot": n, "price": 0.5, "available": 3, "on_demand": n, "spot": 1} for n in range(4)
        ],
        "on_demand_price": 1.0,
        "times": TIMES,
    },
    "shares": {
        "times": TIMES,
        "slots": [{"slot": n, "amounts": {f"job-{k}": 0.125 for k in range(8)}} for n in range(3)],
    },
    "targets": {
        "curves": [
            {"task": f"job {k}", "training": [[4, 3.0], [8, 2.0 - k]], "threshold": 1.0}
            for k in range(2)
        ]
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("chart", CHARTS)
def test_each_chart_is_drawn_with_words_and_without_styles(chart: str) -> None:
    html = draw(chart, DATA[chart], 'so & "so"')
    assert html.count("<svg") == 2
    assert 'aria-label="so &amp; &quot;so&quot;"' in html
    assert "style" not in html
    assert "<b>" not in html


def test_times_are_in_utc_for_a_script_that_makes_them_local() -> None:
    html = draw("plan", DATA["plan"], "a plan")
    assert 'data-times="2027-01-15T08:00:00Z">08:00</text>' in html
    assert "trains on a from 08:01 to 08:02" in html


def test_quotes_in_a_name_do_not_end_an_attribute() -> None:
    rows = [{**DATA["plan"]["rows"][0], "task": 'a" onload="b'}]
    html = draw("plan", {**DATA["plan"], "rows": rows}, "a plan")
    assert 'data-times="a&quot; onload=&quot;b' in html
    assert 'data-times="a"' not in html


def test_each_point_is_a_link_to_its_own_row() -> None:
    html = draw("menu", DATA["menu"], "a menu")
    # On a actor, and on a phone.
    assert [html.count(f'href="#line-{n}"') for n in range(3)] == [2, 2, 2]
    assert "vega.github.io" not in html
    assert "style=" not in html
