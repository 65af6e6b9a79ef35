"""`auctune spot run` on the tiny base: a job from its files to its adapter and its bill."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from auctune.numerics.rng import stream
from auctune.sim.spot.job_file import read_job_file
from auctune.spot import SpotFirst, SpotMarket, play
from auctune.standalone.spot import SpotRunFolder, read_inputs
from auctune.standalone.spot_inputs import make_config
from auctune.train.adapter_files import write_adapter_files
from auctune.train.base import Base
from auctune.train.data_parallel.gradient_worker import GradientWorker
from support.command_line import run_auctune
from support.elastic import new_trainer, train_with
from support.spot_files import JOB, TRAINING, write_job, write_market, write_rows
from support.spot_runs import read_events

pytest_plugins = ["support.tiny_bases"]

# A slot's work is whole micro-batches, so that the run can match the model.
EVEN = '\n[overhead]\nchangeover = "by_total"\nmu1 = 0.75\nmu2 = 0.75\n'
MARKET = SpotMarket(
    np.array([0.3, 0.4, 0.5, 0.3, 0.25, 0.3]), np.array([3, 4, 0, 2, 1, 4]), slot_seconds=600
)
ARGUMENTS = ["--policy", "msu", "--start", "1", "--model-time", "--warm"]


@pytest.fixture
def site(tmp_path: Path, tiny_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the inputs, and a home where the tiny base is."""
    write_job(tmp_path / "job.toml", JOB + EVEN + TRAINING)
    write_market(tmp_path / "market.csv", MARKET)
    write_rows(tmp_path / "rows.jsonl", 48)
    (tmp_path / "home" / "auctune").mkdir(parents=True)
    (tmp_path / "home" / "auctune" / "bases").symlink_to(tiny_cache)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "auctune", "spot", "run", *map(str, arguments)]


def begin(site: Path, out: Path) -> list[str]:
    return command(site / "job.toml", "--market", site / "market.csv", "--out", out, *ARGUMENTS)


def run_replay(folder: Path) -> str:
    arguments = [sys.executable, "-m", "auctune", "replay", "--data", str(folder / "state")]
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def weights(folder: Path) -> dict[str, np.ndarray]:
    return dict(load_file(folder / "adapter" / "adapter_model.safetensors"))


@pytest.mark.slow
def test_a_run_ends_with_the_adapter_and_the_bill_and_goes_on_from_its_folder_alone(
    site: Path,
) -> None:
    whole = subprocess.run(begin(site, site / "whole"), capture_output=True, text=True, check=True)
    job = read_job_file(site / "job.toml").spot_job()
    expected = play(SpotFirst(), job, MARKET.between(1, 5))
    bill = json.loads((site / "whole" / "bill.json").read_text())
    assert [(row["on_demand"], row["spot"]) for row in bill["slots"]] == [
        (one.on_demand, one.spot) for one in expected.allocations
    ]
    assert bill["cost"] == pytest.approx(expected.cost, abs=1e-9)
    assert bill["finish"] == pytest.approx(expected.finish, abs=1e-9)
    assert f"cost {expected.cost:.3f}" in whole.stdout
    for slot, one in enumerate(expected.allocations):
        held = f"holds {one.on_demand} on-demand + {one.spot} spot"
        assert any(f"slot {slot:3d}" in line and held in line for line in whole.stdout.splitlines())

    before = [read_events(site / "whole"), (site / "whole" / "bill.json").read_bytes()]
    again = subprocess.run(begin(site, site / "whole"), capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert "holds a run already; expected --resume" in again.stderr
    assert [read_events(site / "whole"), (site / "whole" / "bill.json").read_bytes()] == before
    replayed = run_replay(site / "whole")
    assert replayed.startswith("zone spot, ")
    assert f"1 decision and {len(bill['slots'])} allocations" in replayed

    killed = subprocess.Popen(
        begin(site, site / "killed"), stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert killed.stdout is not None
    for line in killed.stdout:
        if line.startswith("slot   1"):
            os.killpg(killed.pid, signal.SIGKILL)
            break
    killed.communicate()
    assert not (site / "killed" / "bill.json").exists()
    for name in ("job.toml", "market.csv", "rows.jsonl"):
        (site / name).unlink()
    # Moved, too: nothing in it says where it lay.
    shutil.move(site / "killed", site / "moved")
    subprocess.run(command("--resume", site / "moved"), check=True, capture_output=True)
    assert json.loads((site / "moved" / "bill.json").read_text())["slots"] == bill["slots"]
    alone, resumed = weights(site / "whole"), weights(site / "moved")
    assert alone.keys() == resumed.keys()
    assert all(np.array_equal(alone[name], resumed[name]) for name in alone)


@pytest.mark.slow
@pytest.mark.ray
def test_on_a_cluster_of_its_own_a_run_costs_and_learns_the_same(
    site: Path, tiny_base: Base
) -> None:
    one = JOB.replace("n_max = 6", "n_max = 1").replace("workload = 12", "workload = 2")
    write_job(site / "job.toml", one + EVEN + TRAINING)
    begun = [arg for arg in begin(site, site / "out") if arg != "--warm"]
    done = subprocess.run(
        [*begun, "--provider", "ray"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    job = read_job_file(site / "job.toml").spot_job()
    expected = play(SpotFirst(), job, MARKET.between(1, 5))
    assert f"cost {expected.cost:.3f}" in done.stdout
    assert read_events(site / "out")[0]["provider"] == "ray"
    inputs = read_inputs(SpotRunFolder(site / "out"))
    config = make_config(inputs.read_job(), inputs, inputs, site)
    training, micro_batch = config.workers.job, config.micro_batch
    trainer = new_trainer(tiny_base, training, site / "alone", micro_batch)
    worker = GradientWorker(tiny_base, training)
    train_with(trainer, [worker], stream(0))
    worker.set_weights(trainer.weights)
    write_adapter_files(site / "alone" / "adapter", worker.export())
    alone = weights(site / "alone")
    found = weights(site / "out")
    assert set(found) == set(alone)
    assert all(np.array_equal(found[name], alone[name]) for name in alone)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--provider", "cloud"], "--provider: 'cloud'; expected local or ray"),
        (["--availability", "cluster"], "--availability: cannot be combined with --provider local"),
        (["--provider", "ray", "--warm"], "--warm: cannot be combined with --provider ray"),
        (["--provider", "ray", "--ray-address", "here"], "--ray-address: 'here'; expected HOST"),
        (["--provider", "ray", "--availability", "much"], "--availability: 'much'"),
    ],
)
def test_what_means_nothing_to_a_provider_is_refused(
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    given: list[str | Path] = [site / "job.toml", "--market", site / "market.csv"]
    named = ["spot", "run", *given, "--out", site / "out", *options]
    code, _, lines = run_auctune(named, monkeypatch, capsys)
    assert (code, len(lines)) == (2, 1)
    assert lines[0].startswith(f"auctune: {message}")
    assert not (site / "out").exists()
