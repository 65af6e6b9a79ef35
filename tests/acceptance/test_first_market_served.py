"""The demo's market as a service, on both executors: its adapters do better than the base."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from auctune.train.tiny import tiny_folder
from support.adapted import losses
from support.executor_kinds import KINDS
from support.market_runs import EXAMPLE, to_toml
from support.pages import ROOT
from support.service_process import Answer, ServiceProcess, running
from support.thorough import alternated

pytest_plugins = ["support.market_fixtures", "support.tiny_bases"]
pytestmark = pytest.mark.slow

# Share of the base's loss on a task's own data that its adapter must save, at least.
MARGIN = 0.5
# All commands worked, and some bids were rejected.
REJECTED_SOME = 3
SETTINGS = ROOT / "examples" / "service" / "auctune.toml"


@pytest.mark.parametrize("executor", alternated(KINDS))
def test_a_served_market_trains_all_that_it_admits_to_adapters_that_lower_the_loss(
    cache_home: Path,
    tiny_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    executor: str,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_home))
    config = tmp_path / "auctune.toml"
    config.write_text(settings(executor))
    with running(config, tmp_path / "data") as service:
        assert submit(service, patient_market(tmp_path / "market")) == REJECTED_SOME
        jobs = service.ask("GET", "/v1/fine_tuning/jobs?limit=100")[1]["data"]
        admitted = [job for job in jobs if job["market"]["decision"] == "admitted"]
        assert len(admitted) > len(jobs) / 2
        trained = [job for job in admitted if job["status"] == "succeeded"]
        assert trained
        # On a machine that is very slow deadlines may be missed, at the service's cost.
        for job in admitted:
            if job not in trained:
                assert job["error"]["code"] == "deadline_missed", job
                assert job["market"]["refunded"], job
        for job in trained:
            folder = fetch(service, job, tmp_path / job["id"])
            file = job["training_file"]
            name = service.ask("GET", f"/v1/files/{file}")[1]["filename"]
            # What a vendor has mended is not what was sent.
            if job["market"]["plan"]["vendor"] is None:
                before, after = losses(
                    tiny_folder(tiny_cache), folder, EXAMPLE / "data" / Path(name).name
                )
                assert after < (1 - MARGIN) * before
        assert service.stop() == 0


def settings(executor: str) -> str:
    """The demo's auction on a device that is known, of which 2 / 5 of the speed are sold.

    In slots of 15 s, that is what the demo sells in its slots of 6 s.
    """
    auction = SETTINGS.read_text().split("[[zones]]")[1]
    text = f'[[zones]]\nexecutor = "{executor}"{auction}'
    for kind in ("day", "solar"):
        table = f"[zones.node_types.{kind}]"
        assert table in text
        text = text.replace(table, f'{table}\nprofile = "{EXAMPLE / "cpu-core.json"}"')
    assert "slot_seconds = 6" in text
    assert text.count("headroom = 0.25") == 2
    text = text.replace("headroom = 0.25", "headroom = 0.6")
    return text.replace("slot_seconds = 6", "slot_seconds = 15", 1)


def patient_market(folder: Path) -> Path:
    """The example, with time to train later what a busy machine misses in its slots."""
    shutil.copytree(EXAMPLE, folder)
    file = folder / "market.toml"
    market = tomllib.loads(file.read_text())
    market["slots"] += 10
    for kind in market["node_types"].values():
        kind["energy_cost"] = 0.02
    for bid in market["bids"]:
        bid["deadline"] += 10
    file.write_text(to_toml(market))
    return file


def submit(service: ServiceProcess, file: Path) -> int:
    """Bid for a market's tasks, and watch them to their end; the exit code."""
    address = "http://{}:{}".format(*service.address)
    market = ["submit", "--market", str(file), "--watch"]
    known = {"AUCTUNE_URL": address, "AUCTUNE_API_KEY": service.key}
    command = [sys.executable, "-m", "auctune", *market]
    return subprocess.run(command, env={**os.environ, **known}, check=False).returncode


def fetch(service: ServiceProcess, job: Answer, folder: Path) -> Path:
    """Unpack what came out of a job; where its adapter is."""
    archive = folder.with_suffix(".zip")
    archive.write_bytes(service.download(job["result_files"][-1]))
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    return next(folder.rglob("adapter_config.json")).parent
