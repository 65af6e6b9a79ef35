"""How far a run has come, read from its folder."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.spot.state import VERSION, EventRecord, to_record
from auctune.spot import IDLE, SpotAllocation, SpotObservation
from auctune.standalone.spot import (
    SpotRunFolder,
    begin_spot,
    open_log,
    read_inputs,
    read_snapshot,
)
from auctune.standalone.spot_inputs import find_inputs
from support.command_line import run_auctune
from support.spot_files import JOB, TRAINING, daily_market, write_job, write_market, write_rows
from support.spot_settings import SPOT_SETTINGS

MARKET = daily_market(40)
SETTINGS = replace(SPOT_SETTINGS, start=24)
# Held five, of which a part was lost: 3 of 12 are done, and the market offers four now.
FIRST = SpotObservation(0, 0.25, 5, 5, 1.0, 0.0, 0.0, IDLE, None)
SECOND = SpotObservation(1, 0.35, 4, 5, 1.0, 3.0, 1.25, SpotAllocation(0, 5), None)


@pytest.fixture
def place(tmp_path: Path) -> SpotRunFolder:
    """A run in its second slot."""
    place = SpotRunFolder(tmp_path / "run")
    begin(tmp_path, place)
    note(place, {"type": "begun", "version": VERSION, "time": 0.0})
    note(place, slot_event(FIRST, SpotAllocation(0, 5), 1.25))
    note(place, {"type": "preempted", "time": 0.5, "count": 2})
    note(place, {"type": "slot_done", "time": 1.0, "rows": 2, "overhead": None})
    note(place, slot_event(SECOND, SpotAllocation(0, 4), 1.4))
    return place


def begin(folder: Path, place: SpotRunFolder) -> None:
    job = write_job(folder / "job.toml", JOB + TRAINING)
    write_rows(folder / "rows.jsonl", 8)
    market = write_market(folder / "market.csv", MARKET)
    with begin_spot(find_inputs(job, market, None, SETTINGS), place, cache=folder):
        pass


def slot_event(seen: SpotObservation, held: SpotAllocation, paid: float) -> dict[str, object]:
    return {
        "type": "slot",
        "time": float(seen.slot),
        "observation": to_record(seen),
        "allocation": to_record(held),
        "paid": paid,
    }


def note(place: SpotRunFolder, event: EventRecord) -> None:
    with open_log(place) as log:
        log.append(event)


def test_what_was_done_paid_and_seen_is_that_of_the_run(place: SpotRunFolder) -> None:
    before = place.log.read_bytes()
    snapshot = read_snapshot(place)
    assert place.log.read_bytes() == before
    assert (snapshot.policy, snapshot.start) == ("msu", 24)
    (first,) = snapshot.past
    assert first.preempted == 2
    assert (first.allocation, first.progress, first.paid) == (SpotAllocation(0, 5), 3.0, 1.25)
    assert snapshot.history.num_slots == 26
    assert snapshot.history.available.tolist() == [*MARKET.available[:24].tolist(), 5, 4]
    assert snapshot.history.price[24:].tolist() == [0.25, 0.35]


def test_advice_on_a_run_begins_where_it_is(
    place: SpotRunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown, _ = run_auctune(
        ["spot", "advise", "--run", place.root, "--json"], monkeypatch, capsys
    )
    advice = json.loads(shown)
    assert code == 0
    assert (advice["slot"], advice["progress"], advice["spent"]) == (1, 3.0, 1.25)
    assert advice["now"] == {"on_demand": 0, "spot": 4}
    assert advice["cost_p50"] >= 1.25 + 4 * 0.35
    code, _, errors = run_auctune(
        ["spot", "advise", "--run", place.root, "--policy", "up"], monkeypatch, capsys
    )
    assert code == 2
    assert "--policy: cannot be combined with --run; expected one of the two" in errors[0]


def test_a_run_that_is_over_or_not_begun_is_not_advised(
    place: SpotRunFolder, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="holds no run"):
        read_snapshot(SpotRunFolder(tmp_path / "nowhere"))
    note(place, {"type": "overtime_started", "time": 4.0})
    with pytest.raises(InputError, match="holds a run that is over"):
        read_snapshot(place)
    new = SpotRunFolder(tmp_path / "new")
    begin(tmp_path, new)
    with pytest.raises(InputError, match="holds a run without a slot"):
        read_snapshot(new)


@pytest.mark.parametrize("name", ["000-job.toml", "001-market.csv", "002-rows.jsonl", "names.json"])
def test_an_input_that_was_changed_since_the_run_began_is_named(
    place: SpotRunFolder, name: str
) -> None:
    changed = place.inputs / name
    changed.write_bytes(changed.read_bytes() + b"\n")
    with pytest.raises(InputError, match=rf"inputs/{name}: is not as it was when the run began"):
        read_inputs(place)
    changed.unlink()
    with pytest.raises(InputError, match=rf"inputs/{name}: is gone"):
        read_inputs(place)
