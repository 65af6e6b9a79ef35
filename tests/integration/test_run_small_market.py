"""A small market from its bids to its report, and again after Ctrl-C, in fused mode."""

import json
import shutil
import signal
from decimal import Decimal
from pathlib import Path

import pytest
import torch

from auctune.domain import InputError
from auctune.engine.market.report_data import TaskState
from auctune.sim.engine import simulate
from auctune.sim.instance import Instance
from auctune.sim.result_file import decision_json
from auctune.standalone.market import resume_market, run_market
from auctune.train.adapter_files import read_start
from auctune.train.checkpoint import load_latest
from support.market_runs import (
    VALIDATION_ROWS,
    Commands,
    count_events,
    living,
    prepare_market,
    quiet,
    read_decisions,
    read_events,
    report_of,
    small_market,
    weights,
    with_change,
    write_market,
)

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]
pytestmark = pytest.mark.slow

DONE = ("sums", "mood", "codes")


@pytest.fixture(scope="module")
def finished(cache_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache_home))
        run_market(write_market(folder / "market"), folder / "out", quiet())
    return folder / "out"


def test_every_bid_is_answered_and_what_was_admitted_is_trained(finished: Path) -> None:
    decisions = {line["task"]: line for line in read_decisions(finished)}

    assert list(decisions) == ["sums", "mood", "poor", "codes"]
    assert list(decisions["sums"]) == [
        "task", "admitted", "vendor", "payment", "value", "surplus", "schedule", "reason",
    ]  # fmt: skip
    assert [task for task, line in decisions.items() if line["admitted"]] == list(DONE)
    assert decisions["poor"]["reason"] == "unprofitable"
    assert decisions["codes"]["vendor"] == "house"
    for task in DONE:
        adapter = finished / "tasks" / task / "adapter"
        assert {"adapter_config.json", "adapter_model.safetensors"} <= {
            path.name for path in adapter.iterdir()
        }
    assert not (finished / "tasks" / "poor").exists()


def test_a_task_goes_on_from_an_epoch_of_an_earlier_run(
    finished: Path, in_cache: Path, tmp_path: Path
) -> None:
    sums, first = small_market()["bids"][0], report_of(finished).tasks[0]
    del sums["rank"]
    sums |= {"start_from": "earlier", "epochs": 1}
    market = write_market(tmp_path / "market", with_change(("bids",), [sums]))
    with pytest.raises(InputError, match=r"bids\[0\]\.start_from: there is no folder 'earlier'"):
        run_market(market, tmp_path / "out", quiet())
    epochs = finished / "tasks" / "sums" / "epochs"
    assert sorted(path.name for path in epochs.iterdir()) == ["1", "2", "3"]
    assert not (finished / "state" / "work" / "sums" / "epochs").exists()
    adapter = epochs / "3"
    shutil.copytree(adapter, market.parent / "earlier")
    write_market(market.parent, with_change(("bids",), [sums | {"rank": 8}]))
    with pytest.raises(
        InputError, match=r"bids\[0\] \(sums\): rank: 8, where the adapter .* has 4"
    ):
        run_market(market, tmp_path / "out", quiet())
    write_market(market.parent, with_change(("bids",), [sums]))
    run_market(market, tmp_path / "out", quiet())

    (task,) = report_of(tmp_path / "out").tasks
    losses = [point.loss for point in first.losses]
    # It has the weights, not the moments and rates.
    assert task.losses[0].loss < 0.5 * losses[0]
    assert task.losses[0].loss == pytest.approx(losses[-1], rel=0.5)
    found = load_latest(tmp_path / "out" / "state" / "work" / "sums" / "checkpoints")
    assert found is not None
    start, _ = read_start(adapter, "start_from")
    assert found[0].state["job"]["rank"] == 4
    assert found[0].state["job"]["start_digest"] == start.digest


def test_decisions_receipts_and_report_agree_to_the_last_digit(finished: Path) -> None:
    decisions = {line["task"]: line for line in read_decisions(finished)}
    report = report_of(finished)

    assert json.loads(json.dumps(report.to_json())) == json.loads(
        (finished / "report.json").read_bytes()
    )
    revenue = Decimal(0)
    for task in report.tasks:
        line = decisions[task.id]
        assert line["payment"] == float(task.payment)
        if not task.admitted:
            continue
        receipt = json.loads((finished / "tasks" / task.id / "receipt.json").read_bytes())
        assert Decimal(receipt["payment"]) == task.payment
        assert Decimal(receipt["vendor_price"]) == task.vendor_price
        assert Decimal(receipt["operating_cost"]) == task.operating_cost
        assert receipt["schedule"]["cells"] == line["schedule"]
        assert (receipt["outcome"], receipt["rows"]) == ("done", task.rows)
        revenue += Decimal(receipt["payment"])
    assert report.totals.revenue == revenue
    assert report.totals.done == 3


def test_loss_curves_are_whole_and_fall(finished: Path) -> None:
    for task in report_of(finished).tasks:
        if not task.admitted:
            continue
        lines = (finished / "tasks" / task.id / "losses.jsonl").read_text().splitlines()
        points = [json.loads(line) for line in lines]
        assert [point["step"] for point in points] == list(range(1, task.steps + 1))
        assert points[-1]["rows"] == task.rows - VALIDATION_ROWS[task.id]
        assert points[-1]["loss"] < 0.8 * points[0]["loss"]


def test_validation_repair_and_released_cells_are_on_record(finished: Path) -> None:
    tasks = {task.id: task for task in report_of(finished).tasks}
    released = [event for event in read_events(finished) if event["type"] == "job.released"]

    assert [point.epoch for point in tasks["sums"].validation] == [1, 2, 3]
    assert tasks["codes"].repair is not None
    assert tasks["codes"].repair.rows_out < tasks["codes"].repair.rows_in == 24
    assert (finished / "tasks" / "codes" / "repair.json").is_file()
    # Its rows were fewer after the repair than before.
    assert [event["job"] for event in released] == ["codes"]
    assert (finished / "report.html").read_text().startswith("<!doctype html>")


def test_the_log_of_a_run_is_verified_by_a_replay(finished: Path, auctune: Commands) -> None:
    code, text = auctune.run("replay", "--data", finished / "state")

    assert code == 0, text
    assert "identical under pdftsp: 4 decisions" in text


def test_learned_prices_are_those_of_a_simulation(in_cache: Path, tmp_path: Path) -> None:
    # Nothing arrives in slots 1 to 4, while a task trains.
    sums, mood = small_market()["bids"][:2]
    bids = [sums | {"id": f"sums-{slot}", "arrival": slot, "deadline": 9} for slot in (0, 0, 5, 8)]
    for number, bid in enumerate(bids):
        bid |= {"id": f"sums-{number}", "epochs": 1}
    table = with_change(("bids",), [*bids, mood | {"epochs": 2}])
    market = write_market(tmp_path / "market", table | {"auction": {"pricing": "learned"}})

    run_market(market, tmp_path / "out", quiet())

    prepared = prepare_market(market)
    tasks = tuple(bid.task for bid in prepared.bids)
    simulated = simulate(Instance(prepared.cluster, tasks), prepared.mechanism)
    assert read_decisions(tmp_path / "out") == [*map(decision_json, simulated.decisions)]
    assert sum(decision.admitted for decision in simulated.decisions) > 2


def test_resuming_a_finished_run_only_writes_its_report_again(
    finished: Path, in_cache: Path
) -> None:
    events = read_events(finished)
    report = (finished / "report.json").read_bytes()
    adapter = (finished / "tasks" / "sums" / "adapter").stat()
    (finished / "report.html").unlink()
    (finished / "tasks" / "sums" / ".receipt.json.draft").touch()

    resume_market(finished, quiet())

    assert read_events(finished) == events
    assert (finished / "report.json").read_bytes() == report
    assert (finished / "tasks" / "sums" / "adapter").stat() == adapter
    assert (finished / "report.html").is_file()
    assert not (finished / "tasks" / "sums" / ".receipt.json.draft").exists()


def test_ctrl_c_stops_at_once_and_the_run_goes_on_without_its_inputs(
    finished: Path, auctune: Commands, tmp_path: Path, in_cache: Path
) -> None:
    market, out = write_market(tmp_path / "market"), tmp_path / "out"
    child = auctune.start("run", market, "--out", out)
    assert child.poll(lambda: count_events(out, "job.trained") > 0), child.text
    nodes = child.nodes()

    with pytest.raises(InputError, match="in use by another process"):
        resume_market(out, quiet())
    child.kill_group(signal.SIGINT)

    assert child.wait() == 130
    assert child.text.splitlines()[-1] == f"stopped; resume with: auctune run --resume {out}"
    assert "Traceback" not in child.text
    assert len(nodes) == 2
    assert not living(nodes)

    for path in (tmp_path / "market").iterdir():
        path.unlink()
    console = quiet()
    resume_market(out, console)

    assert read_decisions(out) == read_decisions(finished)
    for task in DONE:
        for name, expected in weights(finished, task).items():
            torch.testing.assert_close(weights(out, task)[name], expected, rtol=1e-3, atol=1e-4)


def test_the_last_checkpoint_of_each_task_holds_all_its_rows(finished: Path) -> None:
    for task in report_of(finished).tasks:
        if task.state is TaskState.DONE:
            found = load_latest(finished / "state" / "work" / task.id / "checkpoints")
            assert found is not None
            assert found[0].state["cursor"]["done"] == task.rows - VALIDATION_ROWS[task.id]
