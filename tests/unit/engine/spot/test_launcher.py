"""Workers as processes: started, at work, and killed."""

import os
import queue
import resource
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from auctune.engine.spot.launcher import LocalLauncher
from auctune.engine.spot.provider import PurchaseOption
from auctune.engine.spot.worker import (
    SpotRunError,
    Weights,
    WorkerAlive,
    WorkerExited,
    WorkerFailed,
    WorkerMessage,
    WorkerReady,
    WorkerSettings,
    dump_settings,
    load_settings,
)
from auctune.train.data_parallel.batches import Contribution
from auctune.train.data_parallel.gradients import GradientWorker
from auctune.train.data_parallel.trainer import ElasticTrainer
from support.spot_runs import Site

pytest_plugins = ["support.spot_site"]


@pytest.fixture(scope="module")
def settings(site: Site) -> WorkerSettings:
    return site.settings


def received(messages: "queue.SimpleQueue[WorkerMessage]", seconds: float) -> WorkerMessage:
    """The next message that is no heartbeat."""
    while (message := messages.get(timeout=seconds)) == WorkerAlive():
        pass
    return message


def test_settings_survive_the_way_to_a_process(settings: WorkerSettings) -> None:
    assert load_settings(dump_settings(settings)) == settings


@pytest.mark.slow
@pytest.mark.parametrize("warm", [False, True])
def test_a_worker_computes_what_would_be_computed_here_until_it_is_killed(
    site: Site, settings: WorkerSettings, tmp_path: Path, warm: bool
) -> None:
    launcher = LocalLauncher(settings, tmp_path / "log", warm=warm)
    worker = launcher.launch(PurchaseOption.SPOT)
    messages: queue.SimpleQueue[WorkerMessage] = queue.SimpleQueue()
    worker.start(messages.put)
    assert isinstance(received(messages, 120), WorkerReady)
    trainer = ElasticTrainer(site.base, settings.job, tmp_path, micro_batch=2)
    part = trainer.next_micro_batch()
    assert part is not None
    worker.compute(part, Weights(trainer.step, trainer.values))
    found = received(messages, 120)
    here = GradientWorker(site.base, settings.job)
    here.set_weights(trainer.values)
    expected = here.compute(part)
    assert isinstance(found, Contribution)
    assert np.array_equal(found.gradient, expected.gradient)
    assert found.loss == expected.loss
    os.kill(worker.pid, signal.SIGKILL)
    assert received(messages, 30) == WorkerExited()
    worker.kill()
    worker.kill()
    launcher.close()
    assert not Path(f"/proc/{worker.pid}").exists()


@pytest.mark.parametrize("warm", [False, True])
def test_a_worker_on_a_numbered_gpu_sees_this_one_alone(
    settings: WorkerSettings, tmp_path: Path, warm: bool
) -> None:
    launcher = LocalLauncher(replace(settings, device="cuda:1"), tmp_path / "log", warm=warm)
    worker = launcher.launch(PurchaseOption.SPOT)
    worker.start(lambda _: None)
    environment = Path(f"/proc/{worker.pid}/environ").read_bytes().split(b"\0")
    assert b"CUDA_VISIBLE_DEVICES=1" in environment
    worker.kill()
    launcher.close()


def test_a_worker_that_cannot_be_started_is_one_error(
    settings: WorkerSettings, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first_free = os.open(os.devnull, os.O_RDONLY)
    os.close(first_free)
    cold = LocalLauncher(settings, tmp_path / "log").launch(PurchaseOption.SPOT)
    starts: list[Callable[[], object]] = [
        lambda: cold.start(lambda _: None),
        lambda: LocalLauncher(settings, tmp_path / "log", warm=True),
    ]
    for start in starts:
        resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
        try:
            with pytest.raises(SpotRunError, match="cannot be started: Too many open files"):
                start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
def test_what_a_worker_cannot_load_is_its_message_and_that_of_a_fork_server_an_error(
    settings: WorkerSettings, tmp_path: Path
) -> None:
    wrong = replace(settings, base=str(tmp_path / "nowhere"))
    worker = LocalLauncher(wrong, tmp_path / "log").launch(PurchaseOption.SPOT)
    messages: queue.SimpleQueue[WorkerMessage] = queue.SimpleQueue()
    worker.start(messages.put)
    failed = received(messages, 600)
    assert isinstance(failed, WorkerFailed)
    assert "nowhere" in str(failed.error)
    assert received(messages, 600) == WorkerExited()
    worker.kill()
    with pytest.raises(SpotRunError, match=r"cannot be started: .*workers\.log"):
        LocalLauncher(wrong, tmp_path / "log", warm=True)
    assert "nowhere" in (tmp_path / "log").read_text()
