"""Workers as processes: there, at work, and gone by SIGKILL."""

import os
import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from auctune.run.spot.errors import SpotRunError
from auctune.run.spot.kind import Kind as Rented
from auctune.run.spot.launcher import FreshLauncher, Launcher, WarmLauncher
from auctune.run.spot.link import LinkClosedError
from auctune.run.spot.worker import WorkerSettings
from auctune.train.data_parallel.gradients import GradientWorker
from auctune.train.data_parallel.trainer import ElasticTrainer
from support.spot_runs import Site

pytest_plugins = ["support.spot_site"]

Kind = Callable[[WorkerSettings, Path], Launcher]


@pytest.fixture(scope="module")
def settings(site: Site) -> WorkerSettings:
    return site.settings


def test_settings_survive_the_way_to_a_process(settings: WorkerSettings) -> None:
    assert WorkerSettings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize("kind", [FreshLauncher, WarmLauncher])
def test_a_worker_computes_what_would_be_computed_here_until_it_is_killed(
    site: Site, settings: WorkerSettings, tmp_path: Path, kind: Kind
) -> None:
    launcher = kind(settings, tmp_path / "log")
    worker = launcher.launch(Rented.SPOT)
    assert worker.link.receive().words["kind"] == "ready"
    trainer = ElasticTrainer(site.base, settings.job, tmp_path, micro_batch=2)
    part = trainer.next_part()
    assert part is not None
    worker.link.send({"kind": "weights"}, trainer.values)
    worker.link.send({"kind": "part", "first": part.first, "stop": part.stop})
    parcel = worker.link.receive()
    here = GradientWorker(site.base, settings.job)
    here.set_weights(trainer.values)
    expected = here.compute(part)
    assert np.array_equal(parcel.numbers, expected.gradient)
    assert parcel.words["loss"] == expected.loss
    # Whoever waits for it learns that it is gone.
    heard = threading.Event()
    listener = threading.Thread(target=lambda: _listen(worker.link.receive, heard))
    listener.start()
    os.kill(worker.pid, signal.SIGKILL)
    assert heard.wait(30)
    worker.kill()
    worker.kill()
    listener.join()
    launcher.close()
    assert not Path(f"/proc/{worker.pid}").exists()


def _listen(receive: Callable[[], object], heard: threading.Event) -> None:
    with pytest.raises(LinkClosedError):
        receive()
    heard.set()


def test_a_machine_without_room_for_a_worker_is_said_to_be(
    settings: WorkerSettings, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first_free = os.open(os.devnull, os.O_RDONLY)
    os.close(first_free)
    for launch in (
        lambda: FreshLauncher(settings, tmp_path / "log").launch(Rented.SPOT),
        lambda: WarmLauncher(settings, tmp_path / "log"),
    ):
        resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
        try:
            with pytest.raises(SpotRunError, match="can be started: Too many open files"):
                launch()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_a_warm_launcher_cannot_load_is_said_at_once(
    settings: WorkerSettings, tmp_path: Path
) -> None:
    record = settings.to_json().replace(settings.base, str(tmp_path / "nowhere"))
    with pytest.raises(SpotRunError, match=r"workers\.log"):
        WarmLauncher(WorkerSettings.from_json(record), tmp_path / "log")
    assert "nowhere" in (tmp_path / "log").read_text()
