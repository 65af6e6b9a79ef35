import resource
from contextlib import closing
from math import inf, isnan, nan
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.engine.event_log import EventLog

EVENTS: list[dict[str, object]] = [
    {"type": "begun"},
    {"type": "note", "text": "a\nb ü"},
    {"type": "ended"},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.jsonl"
    _write(path, EVENTS)
    return path


def _write(path: Path, events: list[dict[str, object]]) -> None:
    journal = EventLog(path)
    for event in events:
        journal.append(event)
    journal.close()


def _read(path: Path) -> list[dict[str, object]]:
    journal = EventLog(path)
    journal.close()
    return journal.events


def test_events_come_back_in_order_and_more_can_follow(path: Path) -> None:
    _write(path, [{"type": "more"}])

    assert _read(path) == [*EVENTS, {"type": "more"}]


def test_an_event_is_on_disk_when_append_returns(path: Path) -> None:
    journal = EventLog(path)
    journal.append({"type": "more"})

    assert _read(path)[-1] == {"type": "more"}
    journal.close()


def test_numbers_that_are_not_finite_are_kept(path: Path) -> None:
    _write(path, [{"losses": [nan, inf, -inf]}])

    losses = _read(path)[-1]["losses"]
    assert isinstance(losses, list)
    assert isnan(losses[0])
    assert losses[1:] == [inf, -inf]


@given(data=st.data())
def test_a_journal_cut_anywhere_keeps_its_whole_lines_and_goes_on(
    data: st.DataObject, tmp_path: Path
) -> None:
    path = tmp_path / "cut.jsonl"
    path.unlink(missing_ok=True)
    _write(path, EVENTS)
    content = path.read_bytes()
    length = data.draw(st.integers(0, len(content)))
    path.write_bytes(content[:length])
    whole = content[:length].count(b"\n")

    assert _read(path) == EVENTS[:whole]
    _write(path, [{"type": "more"}])
    assert _read(path) == [*EVENTS[:whole], {"type": "more"}]


@given(data=st.data())
def test_a_flipped_bit_before_the_last_line_is_an_error(
    data: st.DataObject, tmp_path: Path
) -> None:
    path = tmp_path / "flipped.jsonl"
    path.unlink(missing_ok=True)
    _write(path, EVENTS)
    content = bytearray(path.read_bytes())
    last = content.rindex(b"\n", 0, len(content) - 1)
    place = data.draw(st.integers(0, last - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)

    with pytest.raises(InputError, match="is damaged"):
        _read(path)


def test_a_damaged_last_line_is_cut_off(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-3] + b"?}\n")

    assert _read(path) == EVENTS[:2]


def test_a_damaged_line_before_the_last_names_its_place(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"note", b"tone"))

    with pytest.raises(InputError, match=r"journal.jsonl: line 2: is damaged; expected an event"):
        EventLog(path)


def test_a_run_is_resumed_with_what_it_was_started_with_alone(tmp_path: Path) -> None:
    with closing(EventLog(tmp_path / "log")) as log:
        log.check_identity({"policy": "any"})
        log.append({"type": "begun", "policy": "up", "time": 1.5})
        log.append({"type": "slot", "policy": "other"})
        log.check_identity({"policy": "up"})
        for name, value in (("policy", "other"), ("base", "tiny")):
            with pytest.raises(InputError, match=f"{name}: '{value}'; expected .* the run began"):
                log.check_identity({"policy": "up", name: value})


def test_nothing_follows_an_event_that_did_not_reach_the_disk(path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = EventLog(path)
    # Half a line fits.
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            log.append({"type": "note", "text": "x" * 40})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with pytest.raises(ValueError, match="closed file"):
        log.append({"type": "more"})
    _write(path, [{"type": "more"}])
    assert _read(path) == [*EVENTS, {"type": "more"}]
