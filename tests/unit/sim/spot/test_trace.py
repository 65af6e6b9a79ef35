from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.sim.spot.trace import read_trace
from support.market_rows import even_rows, write_rows

GOOD = even_rows([(4, 0.5), (0, 0.25), (2, 0.75), (1, 0.5)])


def test_a_file_is_read_as_it_stands(tmp_path: Path) -> None:
    trace = read_trace(write_rows(tmp_path / "m.csv", GOOD))
    assert trace.t_s.tolist() == [0, 600, 1200, 1800]
    assert trace.recorded_available().tolist() == [4, 0, 2, 1]
    assert trace.recorded_available().dtype == np.int64
    assert trace.recorded_price().tolist() == [0.5, 0.25, 0.75, 0.5]
    assert (trace.step_seconds, trace.end_s) == (600, 2400)


def test_a_column_that_is_empty_throughout_is_a_missing_series(tmp_path: Path) -> None:
    trace = read_trace(write_rows(tmp_path / "m.csv", even_rows([("", 0.5), ("", 0.25)])))
    assert trace.available is None
    with pytest.raises(InputError, match=r"m\.csv: available: is empty throughout"):
        trace.recorded_available()
    trace = read_trace(write_rows(tmp_path / "n.csv", even_rows([(3, ""), (4, "")])))
    with pytest.raises(InputError, match=r"n\.csv: price: is empty throughout"):
        trace.recorded_price()


@pytest.mark.parametrize(
    ("row", "text", "message"),
    [
        (2, "1800,2,0.75", r"line 4: t_s: 1800 after 600 leaves a hole; expected steps of 600 s"),
        (2, "900,2,0.75", r"line 4: t_s: 900 after 600 comes early"),
        (2, "600,2,0.75", r"line 4: t_s: 600 after 600 does not rise"),
        (2, "0,2,0.75", r"line 4: t_s: 0 after 600 does not rise"),
        (1, "700,2,0.75", r"line 3: t_s: 700 after 0 leaves a hole"),
        (0, "-600,2,0.75", r"line 2: t_s: '-600'; expected seconds >= 0"),
        (1, "600,-1,0.75", r"line 3: available: '-1'; expected a whole number >= 0"),
        (1, "600,1.5,0.75", r"line 3: available: '1\.5'; expected a whole number >= 0"),
        (3, "1800,1,-0.5", r"line 5: price: '-0\.5'"),
        (3, "1800,1,cheap", r"line 5: price: 'cheap'"),
        (3, "1800,1,1e300", r"line 5: price: '1e300'; expected at most 1000000000"),
        (1, "600,1e25,0.25", r"line 3: available: '1e25'; expected at most 1000000000"),
        (3, "1800,1,nan", r"line 5: price: 'nan'"),
        (3, "1800,1,", r"line 5: price: is missing"),
        (1, "600,,0.25", r"line 3: available: is missing"),
        (1, ",2,0.25", r"line 3: t_s: is missing"),
        (1, "600,2,0.25,9", r"line 3: has 4 fields"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, row: int, text: str, message: str) -> None:
    rows = [*even_rows([(4, 0.5), (0, 0.25), (2, 0.75), (1, 0.5), (1, 0.5), (1, 0.5)])]
    rows[row] = text
    with pytest.raises(InputError, match=message):
        read_trace(write_rows(tmp_path / "m.csv", rows))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "has 0 lines of data"),
        (["0,1,0.5"], "has 1 lines of data"),
        (["0,,", "600,,"], "has neither counts nor prices"),
    ],
)
def test_a_file_that_says_nothing_is_refused(tmp_path: Path, rows: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_trace(write_rows(tmp_path / "m.csv", rows))


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("t_s,price\n0,1\n60,1\n")
    with pytest.raises(InputError, match="has no column 'available'"):
        read_trace(tmp_path / "m.csv")
