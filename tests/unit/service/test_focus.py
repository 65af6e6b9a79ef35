"""Cells of the FOCUS file: a spreadsheet computes none of them."""

import csv
import io

import pytest

from auctune.service.focus import COLUMNS, _to_csv


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", '=HYPERLINK("a";"b")', "-", "-1e3"]
)
def test_text_that_a_spreadsheet_would_compute_is_marked_as_text(text: str) -> None:
    text, cells = f"'{text}", dict.fromkeys(COLUMNS, text)
    (row,) = csv.reader(io.StringIO(_to_csv([cells]).decode(), newline="\n"))
    assert row == [text] * len(COLUMNS)


@pytest.mark.parametrize("text", ["-1.5000", "12", "weather", "{}", "a=b", "2027-01-01", ""])
def test_numbers_and_other_text_stay(text: str) -> None:
    assert _to_csv([{"ResourceName": text}]).decode().replace(",", "").strip() == text
