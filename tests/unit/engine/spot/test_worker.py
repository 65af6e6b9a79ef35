"""Gradient workers as processes: started, at work, and killed."""

import os
import queue
import resource
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctune.engine.runtime.channel import read_error
from auctune.engine.runtime.local import LocalLauncher, start_worker
from auctune.engine.spot.provider import Instance, PurchaseOption, worker_spec
from auctune.engine.spot.worker import (
    SpotRunError,
    WorkerSettings,
    dump_settings,
    load_settings,
    load_worker,
    preload,
)
from auctune.train.data_parallel.gradients import GradientWorker
from auctune.train.data_parallel.trainer import ElasticTrainer
from support.spot_runs import Site

pytest_plugins = ["support.spot_site"]


@pytest.fixture(scope="module")
def settings(site: Site) -> WorkerSettings:
    return site.settings


def received(messages: "queue.SimpleQueue[Any]", seconds: float) -> Any:
    """The next message that is no heartbeat."""
    while (message := messages.get(timeout=seconds)) == {"kind": "alive"}:
        pass
    return message


def test_settings_survive_the_way_to_a_process(settings: WorkerSettings) -> None:
    assert load_settings(dump_settings(settings)) == settings


def test_a_fork_server_loads_what_its_workers_need_unless_that_is_wrong(
    settings: WorkerSettings, tmp_path: Path
) -> None:
    preload(dump_settings(settings))
    assert load_worker.cache_info().currsize == 1
    load_worker.cache_clear()
    preload(dump_settings(replace(settings, base=str(tmp_path / "nowhere"))))
    # The state of torch's threads does not survive a fork.
    preload(dump_settings(replace(settings, threads=2)))
    assert load_worker.cache_info().currsize == 0


@pytest.mark.slow
@pytest.mark.parametrize("fork", [False, True])
def test_a_worker_computes_what_would_be_computed_here_until_it_is_killed(
    site: Site, settings: WorkerSettings, tmp_path: Path, fork: bool
) -> None:
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    worker = start_worker(worker_spec(settings, tmp_path / "log", fork=fork), messages.put)
    assert received(messages, 120)["kind"] == "ready"
    trainer = ElasticTrainer(site.base, settings.job, tmp_path, micro_batch=2)
    part = trainer.next_micro_batch()
    assert part is not None
    place = {"first": part.first, "stop": part.stop}
    worker.send({"do": "compute", **place, "arrays": [trainer.values]})
    found = received(messages, 120)
    here = GradientWorker(site.base, settings.job)
    here.set_weights(trainer.values)
    expected = here.compute(part)
    assert np.array_equal(found["arrays"][0], expected.gradient)
    assert (found["loss"], found["hits"]) == (expected.loss, expected.hits)
    os.kill(worker.pid, signal.SIGKILL)
    assert received(messages, 30) is None
    worker.kill()
    worker.kill()
    assert not Path(f"/proc/{worker.pid}").exists()


@pytest.mark.parametrize("fork", [False, True])
def test_a_worker_on_a_numbered_gpu_sees_this_one_alone(
    settings: WorkerSettings, tmp_path: Path, fork: bool
) -> None:
    spec = worker_spec(replace(settings, device="cuda:1"), tmp_path / "log", fork=fork)
    worker = start_worker(spec, lambda _: None)
    environment = Path(f"/proc/{worker.pid}/environ").read_bytes().split(b"\0")
    assert b"CUDA_VISIBLE_DEVICES=1" in environment
    worker.kill()


def test_a_worker_that_cannot_be_started_is_one_error(
    settings: WorkerSettings, tmp_path: Path
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    first_free = os.open(os.devnull, os.O_RDONLY)
    os.close(first_free)
    launcher = LocalLauncher({"spot": worker_spec(settings, tmp_path / "log")})
    instance = Instance("spot-0", PurchaseOption.SPOT, launcher)
    resource.setrlimit(resource.RLIMIT_NOFILE, (first_free, hard))
    try:
        with pytest.raises(SpotRunError, match="cannot be started: Too many open files"):
            instance.start(lambda _: None)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    # One that was never started has nothing to end.
    assert not instance.is_lost()
    instance.kill()


@pytest.mark.slow
def test_what_a_worker_cannot_load_is_its_message(settings: WorkerSettings, tmp_path: Path) -> None:
    wrong = replace(settings, base=str(tmp_path / "nowhere"))
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    worker = start_worker(worker_spec(wrong, tmp_path / "log"), messages.put)
    failed = received(messages, 600)
    assert failed["kind"] == "failed"
    assert "nowhere" in str(read_error(failed, SpotRunError))
    assert received(messages, 600) is None
    worker.kill()
