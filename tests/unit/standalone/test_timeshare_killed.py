"""A run that is killed by SIGKILL at any batch, again and again, comes to the same end.

`test_timeshare` stops runs within units in one process; here the process goes, and memory is short.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from auctune.service.zones.timeshare.state import TimeshareEventType
from support.bundle_runs import outcome_of, read_log, resume_bundle, run_bundle
from support.pool_killer import killed_bundle

TESTS = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    whole = run_bundle(killed_bundle(), tmp_path / "whole")
    folder = tmp_path / "run"
    paths = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    killer = subprocess.run(
        [sys.executable, "-m", "support.pool_killer", str(folder), "1"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert killer.returncode == 0, killer.stderr
    assert int(killer.stdout) >= 2
    again = resume_bundle(killed_bundle(), folder)
    for field in ("done", "finish", "samples", "shares", "losses"):
        one, two = getattr(outcome_of(again), field), getattr(outcome_of(whole), field)
        assert np.array_equal(one, two, equal_nan=field == "losses"), field
    assert again["notes"] == []
    units = [one for one in read_log(folder) if one.type == TimeshareEventType.UNIT_TRAINED]
    times = [event.body["unit"] for event in units]
    # No unit is on record twice.
    assert times == list(range(len(times)))
