"""What may happen on the way: tasks that stop early or go astray, nodes that are measured."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from auctune.domain import Reason
from auctune.engine.market.report_data import TaskState
from auctune.files.device_profile import Profile, read_profile
from auctune.sim.result_file import decision_json
from auctune.standalone.market import resume_market, run_market
from auctune.standalone.preparation import Prepared
from support.command_line import run_auctune
from support.market_runs import (
    Commands,
    Table,
    count_events,
    prepare_market,
    quiet,
    read_decisions,
    read_events,
    report_of,
    small_market,
    write_market,
)

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]
pytestmark = pytest.mark.slow


def test_cells_of_a_task_that_stops_early_go_to_a_later_bid_and_nan_ends_its_own_task_only(
    in_cache: Path, tmp_path: Path
) -> None:
    market, out = write_market(tmp_path / "market", _crowded_market()), tmp_path / "out"
    # Without what is given back there would be no room for the later bid.
    reasons = {line["task"]: line["reason"] for line in _decide_alone(prepare_market(market))}
    assert reasons == {"stuck": None, "late": Reason.NO_CAPACITY, "astray": None}

    console = quiet()
    run_market(market, out, console)

    decisions = {line["task"]: line for line in read_decisions(out)}
    released = {
        event["job"]: {cell["slot"] for cell in event["given_up"]}
        for event in read_events(out)
        if event["type"] == "job.released"
    }
    assert decisions["late"]["admitted"]
    used = {cell["slot"] for cell in decisions["late"]["schedule"]}
    assert used <= released["stuck"]

    states = {task.id: task for task in report_of(out).tasks}
    assert states["stuck"].state is TaskState.DONE
    assert "stopped early" in " ".join(states["stuck"].notes)
    assert states["late"].state is TaskState.DONE
    assert states["astray"].state is TaskState.FAILED
    assert states["astray"].adapter is None
    assert any(word in " ".join(states["astray"].notes) for word in ("nan", "inf"))
    assert "astray" in released
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "astray failed" in text
    assert "note: astray: " in text
    receipt = json.loads((out / "tasks" / "astray" / "receipt.json").read_bytes())
    assert receipt["outcome"] == "failed"
    assert receipt["payment"] == f"{states['astray'].payment}"
    assert not (out / "tasks" / "astray" / "adapter").exists()


def test_a_measured_profile_is_kept_and_what_is_resumed_decides_by_it(
    auctune: Commands, in_cache: Path, tmp_path: Path
) -> None:
    table = small_market() | {"node_types": {"slow": {"measure": True}}}
    # Switches of tasks, as a busy machine measures them, have room in such a slot.
    table |= {"nodes": table["nodes"][:1], "bids": table["bids"][:2], "slot_seconds": 5}
    market, out = write_market(tmp_path / "market", table), tmp_path / "out"
    child = auctune.start("run", market, "--out", out)
    assert child.poll(lambda: count_events(out, "job.decided") > 0), child.text
    child.kill_group(signal.SIGKILL)
    child.wait()
    kept = Profile.from_json(read_events(out)[0]["profiles"]["slow"], "profile")

    resume_market(out, quiet())

    mine = [_work(line) for line in read_decisions(out)]
    assert mine == [_work(line) for line in _decide_alone(prepare_market(market, {"slow": kept}))]
    # Measured a moment later, the same machine would have promised something else.
    again = replace(kept, token_seconds=1.01 * kept.token_seconds)
    assert mine != [_work(line) for line in _decide_alone(prepare_market(market, {"slow": again}))]


def test_profile_measures_the_tiny_base_into_a_file(
    in_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "profile.json"
    arguments: list[str | Path] = ["profile", "--base", "tiny", "--seconds", "5", "--threads", "1"]

    code, shown, errors = run_auctune([*arguments, "--out", out], monkeypatch, capsys)

    assert (code, errors) == (0, [])
    assert f"profile: {out}" in shown
    assert read_profile(out).origin.base_name == "tiny"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--base", "tiny", "--out", "no/such/folder.json"], "--out no/such/folder.json: cannot"),
        (["--base", "tiny", "--out", "."], "--out .: cannot be written; expected a file in a"),
        (["--base", "tiny", "--out", "x.json", "--threads", "0"], "--threads: 0; expected a whole"),
        (["--base", "./none", "--out", "x.json"], "base './none': is unknown"),
        (["--base", "tiny", "--out", "x.json", "--device", "tpu"], "device: 'tpu' is not a single"),
        (["--base", "tiny", "--out", "x.json", "--dtype", "int4"], "dtype: 'int4'; expected one"),
    ],
)
def test_profile_refuses_bad_input_in_one_line(
    arguments: list[str | Path],
    expected: str,
    in_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)

    code, _, errors = run_auctune(["profile", *arguments], monkeypatch, capsys)

    assert (code, len(errors)) == (2, 1)
    assert errors[0].startswith(f"auctune: {expected}")
    assert not list(tmp_path.iterdir())


def _crowded_market() -> Table:
    """One node, bought for all slots by a task that learns nothing and stops early.

    At a learning rate of 1e-30 no bit of any output changes, so no epoch is better than the first.
    """
    table = small_market()
    table["nodes"] = table["nodes"][:1]
    table["bids"] = [
        {"id": "stuck", "data": "sums.jsonl", "bid": 90.0, "arrival": 0, "deadline": 9,
         "epochs": 41, "share": 0.8, "learning_rate": 1e-30, "validation": "check.jsonl",
         "patience": 2},
        {"id": "late", "data": "sums.jsonl", "bid": 40.0, "arrival": 6, "deadline": 9,
         "epochs": 8, "share": 0.8, "learning_rate": 0.01},
        {"id": "astray", "data": "mood.jsonl", "bid": 40.0, "arrival": 6, "deadline": 9,
         "epochs": 2, "share": 0.2, "learning_rate": 1e9, "max_grad_norm": 0.0,
         "schedule": "constant"},
    ]  # fmt: skip
    return table


def _decide_alone(prepared: Prepared) -> list[Table]:
    """All decisions, as if nothing were given back."""
    bids = sorted(prepared.bids, key=lambda bid: bid.task.arrival)
    offers = (prepared.mechanism.offer(bid.task, bid.task.arrival) for bid in bids)
    return [decision_json(decision) for decision in offers]


def _work(line: Table) -> Table:
    """What of a decision the speed of a node changes."""
    return {key: line[key] for key in ("task", "admitted", "surplus", "schedule")}
