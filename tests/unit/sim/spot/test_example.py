"""The example of renting by deadline: made by its own script, and read by the loaders."""

import runpy
from pathlib import Path

from auctune.sim.spot.job_file import read_job_file
from auctune.sim.spot.pool_file import read_pool
from auctune.sim.spot.trace import read_trace
from support.pages import ROOT

EXAMPLE = ROOT / "examples" / "spot"


def test_the_files_are_those_that_the_script_makes(tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLE / "make_data.py"))["main"](tmp_path)
    for name in ("market.csv", "data/support.jsonl"):
        assert (tmp_path / name).read_bytes() == (EXAMPLE / name).read_bytes(), name


def test_the_files_are_read() -> None:
    file = read_job_file(EXAMPLE / "job.toml")
    assert file.training is not None
    assert (EXAMPLE / file.training.data).is_file()
    trace = read_trace(EXAMPLE / "market.csv")
    assert trace.step_seconds < file.market.slot_seconds
    assert trace.recorded_available().max() >= file.spot_job().n_max
    assert len(read_pool(EXAMPLE / "pool.toml")) == 12
