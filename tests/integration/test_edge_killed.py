"""A real run of the edge whose driver is killed within a slot, and goes on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from auctune.standalone.edge import EdgeRunFolder
from support.edge_runs import make_inputs, make_job, read_log, train_plan, write_inputs

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
    folder = EdgeRunFolder(tmp_path / "out")
    first = start(str(instance), "--training", str(training), "--out", str(folder.root))
    read_until(first, "slot   1")
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert len(read_log(folder).outcomes("job")) == 1

    second = start("--resume", str(folder.root))
    text, _ = second.communicate()
    assert second.returncode == 0, text
    ended = read_log(folder).state.ended["job"]
    alone = train_plan(ended, inputs.trainings["job"])
    found = folder.read_checkpoint("job", ended.steps)
    assert found is not None
    np.testing.assert_array_equal(found.tensors["adapter"], alone.tensors["adapter"])
    assert json.loads(folder.report.read_bytes())["jobs"][0]["state"] == "done"
    assert (folder.result("job") / "adapter" / "adapter_model.safetensors").is_file()
