"""Log of a rented run: a replay verifies it; folders of earlier releases and other commands."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.engine.spot.job_config import SpotJobSpec
from auctune.engine.spot.state import VERSION, EventRecord, to_record
from auctune.engine.unix_time import to_rfc3339
from auctune.sim.spot.job_file import read_job_file
from auctune.spot import (
    IDLE,
    InstanceStart,
    LinearScaling,
    Overhead,
    SpotAllocation,
    SpotFirst,
    SpotJob,
    SpotMarket,
    SpotObservation,
    TableScaling,
)
from auctune.standalone.spot import (
    SpotRunFolder,
    begin_spot,
    open_log,
    read_job,
    read_run_events,
    resume_spot,
)
from auctune.standalone.spot_inputs import find_inputs
from auctune.standalone.zone import read_created
from support.command_line import run_auctune
from support.journals import write_journal
from support.spot_files import JOB, TRAINING, write_job, write_market, write_rows
from support.spot_settings import SPOT_SETTINGS

MARKET = SpotMarket(
    np.array([0.5, 0.3, 0.4, 0.5, 0.3, 0.25]), np.array([1, 3, 4, 0, 2, 1]), slot_seconds=600
)
SETTINGS = replace(SPOT_SETTINGS, forecast="chain", start=1, warm=False)


@pytest.fixture
def folder(tmp_path: Path) -> SpotRunFolder:
    """A run that has begun."""
    place = SpotRunFolder(tmp_path / "run")
    begin(place)
    return place


def begin(place: SpotRunFolder, *, fresh: bool = False) -> None:
    folder = place.root.parent
    job = write_job(folder / "job.toml", JOB + TRAINING)
    write_rows(folder / "rows.jsonl", 8)
    market = write_market(folder / "market.csv", MARKET)
    inputs = find_inputs(job, market, None, SETTINGS)
    with begin_spot(inputs, place, cache=folder, fresh=fresh):
        pass


def test_a_fresh_run_replaces_an_earlier_one_and_what_its_release_left(
    folder: SpotRunFolder,
) -> None:
    with open_log(folder) as log:
        log.append(slots(read_job(folder).spot_job())[0])
    (folder.root / "inputs").mkdir()
    folder.report.write_text("{}")
    with pytest.raises(InputError, match="holds a run already"):
        begin(folder)
    assert len(read_run_events(folder)) == 1
    begin(folder, fresh=True)
    assert read_run_events(folder) == []
    assert {path.name for path in folder.root.iterdir()} == {"state", ".lock"}


def slots(job: SpotJob) -> list[EventRecord]:
    """The first two slots of a run: what its policy allocates, and what that costs."""
    policy, last, progress, cost = SpotFirst().start(job), IDLE, 0.0, 0.0
    events: list[EventRecord] = []
    for slot in range(2):
        price, available = float(MARKET.price[slot + 1]), int(MARKET.available[slot + 1])
        before = available if slot == 0 else int(MARKET.available[slot])
        seen = SpotObservation(slot, price, available, before, 1.0, progress, cost, last, None)
        last = policy.allocate(seen)
        paid = last.on_demand + last.spot * price
        events.append(
            {
                "type": "slot",
                "time": float(slot),
                "observation": to_record(seen),
                "allocation": to_record(last),
                "paid": paid,
            }
        )
        progress, cost = progress + 2.0, cost + paid
    return events


def verified(
    folder: SpotRunFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *options: str,
) -> tuple[int, dict[str, Any]]:
    command: list[str | Path] = ["replay", "--data", folder.state, "--json", *options]
    code, shown, _ = run_auctune(command, monkeypatch, capsys)
    return code, json.loads(shown)


def test_a_replay_finds_the_answers_of_the_policy_and_what_they_cost(
    folder: SpotRunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_log(folder) as log:
        for event in slots(read_job(folder).spot_job()):
            log.append(event)
    code, found = verified(folder, monkeypatch, capsys)
    assert code == 0
    assert found["identical"]
    assert (found["num_decisions"], found["num_allocations"]) == (1, 2)


def test_a_replay_of_the_last_slots_asks_the_policy_from_the_first_on(
    folder: SpotRunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_log(folder) as log:
        for event in slots(read_job(folder).spot_job()):
            log.append(event)
    second = to_rfc3339(read_created(folder, "spot")["epoch"] + 600)
    code, found = verified(folder, monkeypatch, capsys, "--from", second)
    assert code == 0
    assert (found["num_decisions"], found["num_allocations"]) == (0, 1)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"paid": 0.01}, "event.paid"),
        ({"allocation": to_record(SpotAllocation(3, 0))}, "event.allocation.on_demand"),
    ],
)
def test_a_replay_finds_what_no_policy_has_chosen_and_no_market_has_cost(
    folder: SpotRunFolder,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: EventRecord,
    field: str,
) -> None:
    first, second = slots(read_job(folder).spot_job())
    with open_log(folder) as log:
        log.append(first)
        log.append({**second, **change})
    code, found = verified(folder, monkeypatch, capsys)
    assert code == 1
    assert f"job.run_event: {field}" in [one["what"] for one in found["differences"]]


@pytest.mark.parametrize("scaling", [LinearScaling(0.7, 0.2), TableScaling((1.0, 1.9, 2.5, 3.0))])
@pytest.mark.parametrize("overhead", [Overhead(0.8, 0.9), InstanceStart(0.25)])
def test_a_job_is_what_its_plain_values_say(
    scaling: LinearScaling | TableScaling, overhead: Overhead | InstanceStart
) -> None:
    job = SpotJob(workload=9.0, deadline=6, n_min=2, n_max=4, scaling=scaling, overhead=overhead)
    assert SpotJobSpec.of(job).job() == job


def write_earlier(out: Path, *events: Mapping[str, object]) -> None:
    begun = {"type": "begun", "version": VERSION, "inputs": {"inputs/settings.json": "0"}}
    write_journal(out / "state" / "journal.jsonl", [begun, *events])
    (out / "inputs").mkdir()
    (out / "inputs" / "settings.json").touch()


def resume(out: Path) -> Any:
    return resume_spot(SpotRunFolder(out), cache=out, on_event=lambda _: None)


def test_a_run_that_an_earlier_release_has_not_ended_is_refused_by_name(tmp_path: Path) -> None:
    write_earlier(tmp_path, {"type": "overtime_started", "time": 4.0})
    with pytest.raises(InputError, match=r"was begun by an earlier release; expected .* --fresh"):
        resume(tmp_path)


def test_a_run_that_an_earlier_release_has_ended_has_its_report(tmp_path: Path) -> None:
    file = write_job(tmp_path / "job.toml", JOB + TRAINING)
    job = read_job_file(file).spot_job()
    first, second = slots(job)
    done = {"type": "slot_done", "rows": 48, "overhead": None}
    end = {"type": "ended", "finish": 1.5, "state": "done", "note": ""}
    write_earlier(tmp_path, first, {**done, "time": 1.0}, second, {**done, "time": 1.5}, end)
    file.rename(tmp_path / "inputs" / "job.toml")
    (tmp_path / "bill.json").write_text("{}")
    report = resume(tmp_path)
    assert report.outcome.finish == 1.5
    assert report.outcome.slot_cost == first["paid"] + second["paid"]
    assert report.adapter == tmp_path / "adapter"


def test_the_run_of_another_command_is_refused_by_name(tmp_path: Path) -> None:
    write_journal(tmp_path / "state" / "journal.jsonl", [{"type": "begun"}])
    with pytest.raises(InputError, match=r"holds a run of another command; expected .* spot run"):
        resume(tmp_path)
    with pytest.raises(InputError, match="holds no run; expected the --out folder"):
        resume(tmp_path / "nowhere")
