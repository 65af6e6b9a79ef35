"""The whole path of a real run, as small as it gets: two sites, one job, two slots."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from peft import PeftModel

from auctune.domain import InputError
from auctune.domain.epoch_metrics import EpochMetrics
from auctune.edge import EdgeJob, EdgeMarket, Logistic, Site
from auctune.engine.edge.inputs import EdgeRunInputs, read_inputs, read_training
from auctune.sim.edge.instance_file import EdgeInstance
from auctune.standalone.edge import EdgeRunError, EdgeRunFolder, resume_edge, run_edge
from auctune.train.adapter_files import WEIGHTS, read_epochs
from auctune.train.base import load_base
from support.edge_runs import MARKET as TWO_SITES
from support.edge_runs import (
    SECRET,
    StoppedError,
    Stopping,
    Watcher,
    make_job,
    make_training,
    read_log,
    train_plan,
    write_inputs,
    write_site_rows,
)
from support.peft_adapters import start_of
from support.small_bases import write_pairs

MARKET = EdgeMarket(
    slots=3,
    # The worker fits site a alone, the server site b.
    sites=(Site("a", {"gpu": 1, "cpu": 0}), Site("b", {"gpu": 0, "cpu": 1})),
    traffic_mb_per_slot=40,
    chunk_mb=2,
)
JOB = EdgeJob(
    id="job",
    arrival=0,
    epochs=2,
    chunks={"a": 2, "b": 2},
    worker={"gpu": 1},
    server={"cpu": 1},
    chunks_per_worker_slot=4,
    parameter_mb=5,
    utility=Logistic(100, 3),
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_a_bid_in_a_file_becomes_the_adapter_of_one_worker_and_a_bill(tmp_path: Path) -> None:
    training = make_training(tmp_path, JOB)
    given = EdgeRunInputs(EdgeInstance(MARKET, (JOB,)), {JOB.id: training})
    instance, file = write_inputs(given, tmp_path)
    inputs, folder = read_inputs(instance, file), EdgeRunFolder(tmp_path / "out")
    # Bases that are built here have a folder of their own.
    assert inputs.trainings == {JOB.id: replace(training, cache=inputs.trainings[JOB.id].cache)}
    report = run_edge(inputs, folder, Watcher())

    logged = read_log(folder)
    ended = logged.state.ended["job"]
    assert [(dict(part.workers), part.server) for part in ended.plan.slots] == [({"a": 1}, "b")] * 2
    alone = train_plan(ended, training)
    state = folder.read_checkpoint("job", alone.state["steps"])
    assert state is not None
    np.testing.assert_array_equal(state.tensors["adapter"], alone.tensors["adapter"])
    (bill,) = report.jobs
    assert (bill.state, bill.finish, bill.slots) == ("done", ended.decision.finish, 2)
    # Two chunks cross once, and the one worker is away from its server in both slots.
    assert bill.counted_mb == bill.planned_mb == 2 * MARKET.chunk_mb + 2 * JOB.parameter_mb
    assert json.loads(folder.report.read_bytes())["welfare"] == report.welfare == JOB.value(1)

    # The result is an adapter that plain PEFT loads, and the loss of each step.
    result = folder.result("job")
    base = load_base(training.base, cache=tmp_path)
    loaded = PeftModel.from_pretrained(base.fresh_model(), str(result / "adapter"))
    assert isinstance(loaded, PeftModel)
    losses = [json.loads(line) for line in (result / "losses.jsonl").read_text().splitlines()]
    assert [one["step"] for one in losses] == list(range(1, alone.state["steps"] + 1))
    # So are the adapters after each of its slots, with their metrics.
    kept = read_epochs(result)
    assert [metrics for metrics, _ in kept] == [
        EpochMetrics(
            number,
            outcome["steps"],
            losses[outcome["steps"] - 1]["loss"],
            losses[outcome["steps"] - 1]["token_accuracy"],
            outcome["validation_loss"],
            outcome["validation_accuracy"],
        )
        for number, outcome in enumerate(logged.outcomes("job"), start=1)
    ]
    weights = [(path / WEIGHTS).read_bytes() for _, path in kept]
    assert weights[-1] == (result / "adapter" / WEIGHTS).read_bytes() != weights[0]
    assert losses[-1]["loss"] < losses[0]["loss"]
    assert all(0 <= one["token_accuracy"] <= 1 for one in losses)
    first, last = (outcome["validation_loss"] for outcome in logged.outcomes("job"))
    assert last < first
    # Rows are at their sites: nothing of theirs is in the folder of the run.
    for path in folder.root.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path
    with pytest.raises(InputError, match="holds a run already"):
        run_edge(inputs, folder, Watcher())
    # Of a run that has ended the report is written again, by its log alone.
    folder.report.unlink()
    assert resume_edge(folder, Watcher()) == report
    assert folder.report.exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize("is_started", [False, True])
def test_preferences_are_learnt_at_sites_and_go_on_after_a_stop(
    tmp_path: Path, is_started: bool
) -> None:
    """Each worker has the adapter that the job starts from: pairs are measured against it."""
    job = make_job(2)
    training = make_training(tmp_path, job)
    base = load_base(training.base, cache=tmp_path)
    start = start_of(tmp_path, base, "llama") if is_started else {}
    rows = {site: str(write_pairs(tmp_path / f"pairs-{site}.jsonl", 20)) for site in job.chunks}
    training = replace(
        training,
        config=replace(training.config, method="dpo", beta=0.3, **start),
        rows=rows,
        validation=str(write_pairs(tmp_path / "pairs.jsonl", 5, seed=3)),
    )
    folder = EdgeRunFolder(tmp_path / "out")
    instance = EdgeInstance(TWO_SITES, (job,))
    with pytest.raises(StoppedError):
        run_edge(EdgeRunInputs(instance, {job.id: training}), folder, Stopping())
    report = resume_edge(folder, Watcher())

    logged = read_log(folder)
    ended = logged.state.ended["job"]
    assert max(sum(part.workers.values()) for part in ended.plan.slots) > 1
    alone = train_plan(ended, training)
    state = folder.read_checkpoint("job", alone.state["steps"])
    assert state is not None
    np.testing.assert_array_equal(state.tensors["adapter"], alone.tensors["adapter"])
    assert [bill.state for bill in report.jobs] == ["done"]
    losses = folder.result("job") / "losses.jsonl"
    first, *_, last = [json.loads(line) for line in losses.read_text().splitlines()]
    assert first["loss"] == pytest.approx(math.log(2), abs=0.05)
    assert last["loss"] < first["loss"]
    assert last["token_accuracy"] > 0.5
    assert all(outcome["validation_loss"] > 0 for outcome in logged.outcomes("job"))


@pytest.mark.parametrize("method", ["dpo", "supervised"])
def test_rows_at_a_site_that_do_not_suit_the_method_are_named(tmp_path: Path, method: str) -> None:
    training = make_training(tmp_path, JOB)
    if method == "dpo":
        config = replace(training.config, method="dpo")
    else:
        config = training.config
        write_pairs(Path(training.rows["a"]), 9)
    given = EdgeRunInputs(
        EdgeInstance(MARKET, (JOB,)), {JOB.id: replace(training, config=config, validation=None)}
    )
    with pytest.raises(EdgeRunError, match=r"rows\.[ab]: has .*, for method"):
        run_edge(given, EdgeRunFolder(tmp_path / "out"), Watcher())


def test_rows_that_a_site_does_not_have_are_named(tmp_path: Path) -> None:
    file = tmp_path / "training.toml"
    write_site_rows(tmp_path / "a.jsonl", 2, 0)
    file.write_text('[default]\nrows = { a = "a.jsonl" }\n')
    with pytest.raises(InputError, match=r"job job: rows\.b: is missing"):
        read_training(file, [JOB])
