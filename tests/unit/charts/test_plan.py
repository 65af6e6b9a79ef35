import re

import pytest

from auctune.charts import LIGHT, PlanRow, plan_chart, to_png, to_svg

ROWS = [
    PlanRow("first", 0, 5, ((1, "a"), (2, "a"), (4, "a"), (5, "b")), 1, finished_slot=5),
    PlanRow("second", 2, 3, remark="unprofitable"),
]


def test_every_task_shows_its_window_its_runs_and_its_end() -> None:
    svg = to_svg(plan_chart(ROWS, ["a", "b"], 6))
    assert ">first</text>" in svg
    assert ">second</text>" in svg
    assert ">unprofitable</text>" in svg
    for words in (
        "first: bid in slot 0, deadline slot 5",
        "first: vendor&apos;s work, 1 slots",
        "first: trains on a in slots 1 to 2",
        "first: trains on a in slots 4 to 4",
        "first: trains on b in slots 5 to 5",
        "first: done in slot 5",
        "second: bid in slot 2, deadline slot 3",
    ):
        assert words in svg.replace("'", "&apos;").replace("&#39;", "&apos;"), words
    assert svg.count('aria-roledescription="bar"') == 4


def test_a_run_spans_its_slots_on_the_axis() -> None:
    svg = to_svg(plan_chart([PlanRow("x", 0, 9, ((2, "a"), (3, "a")))], ["a"], 10, width=616))
    label = 'aria-label="x: trains on a in slots 2 to 3"'
    path = re.search(rf'{label}[^>]* d="([^"]+)"', svg)
    plot = re.search(r'class="background"[^>]*d="M[\d.,]+h([\d.]+)v', svg)
    assert path is not None
    assert plot is not None
    slot_width = float(plot[1]) / 10
    across = [float(x) for x in re.findall(r"[ML]([\d.]+),", path[1])]
    assert min(across) / slot_width == pytest.approx(2.03, abs=0.01)
    assert max(across) / slot_width == pytest.approx(3.97, abs=0.01)


def test_nodes_are_told_apart_by_colour_while_there_are_few() -> None:
    svg = to_svg(plan_chart(ROWS, ["a", "b"], 6))
    assert LIGHT.nodes[0] in svg
    assert LIGHT.nodes[1] in svg
    many = [f"n{i}" for i in range(30)]
    svg = to_svg(plan_chart([PlanRow("x", 0, 3, ((1, "n29"),))], many, 4))
    assert LIGHT.accent in svg
    assert "trains on n29" in svg
    assert ">n29</text>" not in svg


def test_hundreds_of_tasks_fit_on_one_chart() -> None:
    rows = [PlanRow(f"task {i}", i % 100, i % 100 + 9, ((i % 100 + 3, "a"),)) for i in range(300)]
    svg = to_svg(plan_chart(rows, ["a"], 144))
    height = re.search(r'height="(\d+)"', svg)
    assert height is not None
    assert int(height[1]) < 1100
    assert svg.count('aria-roledescription="bar"') == 300


def test_a_png_is_a_png() -> None:
    assert to_png(plan_chart(ROWS, ["a", "b"], 6, width=300)).startswith(b"\x89PNG")
