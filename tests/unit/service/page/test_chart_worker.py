"""Charts of the page: of every name, without styles, and with words."""

from typing import Any

import pytest

from auctune.service.page.chart_worker import CHARTS, draw

GRID = {"nodes": ["a", "b"], "values": [[0.0, 0.5], [0.25, 1.0]]}
CURVE = {"name": "welfare", "x": [-2.0, -1.0, 0.0], "y": [0.0, 1.0, 3.0]}
DATA: dict[str, dict[str, Any]] = {
    "compute-price": GRID,
    "memory-price": GRID,
    "compute-use": GRID,
    "memory-use": GRID,
    "plan": {
        "rows": [{"task": "<b>job</b>", "arrival": 0, "deadline": 3, "cells": [[1, "a"]]}],
        "nodes": ["a"],
        "slots": 4,
    },
    "losses": {
        "task": "job",
        "training": [[8, 3.0], [16, 2.0]],
        "validation": [[16, 2.5]],
        "threshold": 1.0,
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
}


@pytest.mark.parametrize("chart", CHARTS)
def test_each_chart_is_drawn_with_words_and_without_styles(chart: str) -> None:
    html = draw(chart, DATA[chart], 'so & "so"')
    assert html.count("<svg") == 2
    assert 'aria-label="so &amp; &quot;so&quot;"' in html
    assert "style" not in html
    assert "<b>" not in html


def test_each_point_is_a_link_to_its_own_row() -> None:
    html = draw("menu", DATA["menu"], "a menu")
    # On a desk, and on a phone.
    assert [html.count(f'href="#line-{n}"') for n in range(3)] == [2, 2, 2]
    assert "vega.github.io" not in html
    assert "style=" not in html
