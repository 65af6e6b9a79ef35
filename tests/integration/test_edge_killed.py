"""A real run of the edge whose driver is killed within a slot, and goes on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from auctune.edge import Eris
from auctune.engine.edge.edge_folder import EdgeFolder
from auctune.engine.edge.inputs import read_copied_inputs
from auctune.engine.edge.state import EdgeRunState
from auctune.engine.event_log import read_events
from support.edge_runs import MARKET, make_inputs, make_job, train_record, write_inputs

pytestmark = pytest.mark.slow


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "auctune", "edge", "run", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def read_until(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    raise AssertionError(f"ended without {words!r}")


def test_a_killed_run_goes_on_to_the_adapter_of_one_that_was_not(tmp_path: Path) -> None:
    inputs = make_inputs(tmp_path, make_job(epochs=6), rows_per_chunk=8)
    instance, training = write_inputs(inputs, tmp_path)
    folder = EdgeFolder(tmp_path / "out")
    first = start(str(instance), "--training", str(training), "--out", str(folder.root))
    read_until(first, "slot   1")
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert len([e for e in read_events(folder.event_log) if e["type"] == "trained"]) == 1

    second = start("--resume", str(folder.root))
    text, _ = second.communicate()
    assert second.returncode == 0, text
    state = EdgeRunState(read_copied_inputs(folder).instance, Eris(MARKET))
    state.replay(read_events(folder.event_log))
    record = state.jobs["job"]
    assert record.is_done
    alone = train_record(record, inputs.trainings["job"])
    steps = max(outcome.steps for outcome in record.trained.values())
    found = folder.read_checkpoint("job", steps)
    assert found is not None
    np.testing.assert_array_equal(found.tensors["adapter"], alone.tensors["adapter"])
    assert json.loads(folder.report.read_bytes())["jobs"][0]["state"] == "done"
    assert (folder.result("job") / "adapter" / "adapter_model.safetensors").is_file()
