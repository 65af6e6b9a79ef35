from math import inf, isnan, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.engine.journal import read_journal
from support.journals import write_journal

EVENTS: list[dict[str, object]] = [
    {"type": "begun"},
    {"type": "note", "text": "a\nb ü"},
    {"type": "ended"},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.jsonl"
    write_journal(path, EVENTS)
    return path


def test_events_come_back_in_order(path: Path) -> None:
    assert read_journal(path) == EVENTS
    assert read_journal(path.with_name("none.jsonl")) == []


def test_numbers_that_are_not_finite_are_kept(path: Path) -> None:
    write_journal(path, [{"losses": [nan, inf, -inf]}])

    losses = read_journal(path)[-1]["losses"]
    assert isnan(losses[0])
    assert losses[1:] == [inf, -inf]


@given(data=st.data())
def test_a_journal_cut_anywhere_keeps_its_whole_lines(data: st.DataObject, tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    write_journal(path, EVENTS)
    content = path.read_bytes()
    length = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:length])

    assert read_journal(path) == EVENTS[: content[:length].count(b"\n")]


@given(data=st.data())
def test_a_flipped_bit_before_the_last_line_is_an_error(
    data: st.DataObject, tmp_path: Path
) -> None:
    path = tmp_path / "flipped.jsonl"
    write_journal(path, EVENTS)
    content = bytearray(path.read_bytes())
    last = content.rindex(b"\n", 0, len(content) - 1)
    place = data.draw(st.integers(0, last - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)

    with pytest.raises(InputError, match="is damaged"):
        read_journal(path)


def test_a_damaged_last_line_is_left_out(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-3] + b"?}\n")

    assert read_journal(path) == EVENTS[:2]


def test_a_damaged_line_before_the_last_names_its_place(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"note", b"tone"))

    with pytest.raises(InputError, match=r"journal.jsonl: line 2: is damaged; expected an event"):
        read_journal(path)
