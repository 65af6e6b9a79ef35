from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.service.vendors import DataFacts, read_facts


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([b"", b"  ", b"x", b" y ", b"\x00", b"{}"])), st.booleans())
def test_rows_are_lines_that_are_not_blank(tmp_path: Path, lines: list[bytes], ends: bool) -> None:
    data = b"\n".join(lines) + (b"\n" if ends else b"")
    path = tmp_path / "data"
    path.write_bytes(data)
    rows = sum(bool(line.strip()) for line in lines)
    assert read_facts(path) == DataFacts(rows, len(data), sha256(data).hexdigest())


def test_a_line_longer_than_a_piece_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * (3 << 20) + b"\n" + b" " * (2 << 20) + b"y")
    assert read_facts(path).rows == 2


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none"):
        read_facts(tmp_path / "none")
