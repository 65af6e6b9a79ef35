"""A real run of the edge whose driver is killed within a slot, and goes on."""

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from auctune.edge import Eris
from auctune.run.edge.checkpoints import Checkpoints
from auctune.run.edge.folder import EdgeFolder
from auctune.run.edge.inputs import kept_inputs
from auctune.run.edge.state import EdgeRunState
from auctune.run.event_log import read_events
from support.edge_runs import make_inputs, train_alone, write_instance

pytestmark = [
    pytest.mark.slow,
    pytest.mark.thorough,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not here: the extra `ray` has it"),
]


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


def test_a_killed_run_goes_on_to_the_weights_of_one_that_was_not(tmp_path: Path) -> None:
    inputs = make_inputs(epochs=12)
    instance = write_instance(inputs, tmp_path / "instance.json")
    place = EdgeFolder(tmp_path / "out")
    first = start(str(instance), "--out", str(place.root))
    read_until(first, "slot   1")
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert len([e for e in read_events(place.event_log) if e["type"] == "trained"]) == 1

    second = start("--resume", str(place.root))
    text, _ = second.communicate()
    assert second.returncode == 0, text
    state = EdgeRunState(kept_inputs(place).instance, Eris(inputs.instance.market))
    state.replay(read_events(place.event_log))
    record = state.jobs["job"]
    assert record.is_done
    alone = train_alone(record)
    steps = max(outcome.steps for outcome in record.trained.values())
    came = Checkpoints(place).read("job", steps, alone.state.weights)
    np.testing.assert_allclose(came.weights, alone.state.weights, rtol=0, atol=1e-6)
    assert json.loads(place.report.read_bytes())["jobs"][0]["state"] == "done"
