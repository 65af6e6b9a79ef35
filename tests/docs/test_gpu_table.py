"""The table of a GPU in docs/reference/figures.md, as `benchmarks/gpu.py` writes it."""

import re
from pathlib import Path

import pytest

from gpu import PAGE, Results, rows_of_table, table, write
from training import Figure

pytestmark = pytest.mark.slow  # imports torch

TOKENS = 512


def cells(text: str) -> dict[str, list[str]]:
    """Return the cells after the first of each row, by the first."""
    lines = [line[1:-1].split("|") for line in text.splitlines()[2:]]
    return {first.strip(): [cell.strip() for cell in others] for first, *others in lines}


def test_the_page_has_each_row_and_says_of_each_when_it_was_measured() -> None:
    shown = re.findall(r"<!-- gpu -->\n(.*?)<!-- end -->", PAGE.read_text(), re.DOTALL)[0]
    rows = [row.name for row in rows_of_table(TOKENS)]
    assert list(cells(shown))[: len(rows)] == rows
    assert all(
        "not measured since" in line or re.search(r"\| [0-9a-f]{8}, \d{4}-\d\d-\d\d, ", line)
        for line in shown.splitlines()[2:]
    )


def test_a_row_has_its_newest_figure_and_misses_are_marked(tmp_path: Path) -> None:
    fused, frozen, *_ = (row.name for row in rows_of_table(TOKENS))
    for value, reached in (("90 ms", True), ("95 ms", False)):
        Results(tmp_path, "H100").add(Figure(fused, value, "<= 80 ms", reached))
    Results(tmp_path, "H100").add(Figure("part speed", "ended after 140 s", "", False))
    Results(tmp_path, "H100").add(Figure("part tests", ""))
    found = cells(table(Results(tmp_path, "H100").newest(), TOKENS))
    assert found[fused][2] == "95 ms **missed**"
    assert "H100" in found[fused][3]
    assert found[frozen][2:] == ["not measured since 929cd648", ""]
    assert found["part speed"][2] == "ended after 140 s **failed**"
    assert "part tests" not in found


def test_a_table_replaces_the_one_before_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- gpu -->\nold\n<!-- end -->\nb\n")
    assert write("new\n", page)
    assert page.read_text() == "a\n<!-- gpu -->\nnew\n<!-- end -->\nb\n"
