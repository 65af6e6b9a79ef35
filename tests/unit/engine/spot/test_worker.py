"""Gradient workers as processes: started, at work, and killed."""

import os
import resource
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from auctune.domain import InputError
from auctune.engine.elastic.errors import read_failure
from auctune.engine.elastic.gradient_worker import (
    WorkerSettings,
    gradient_worker,
    load_worker,
    preload,
)
from auctune.engine.elastic.trainer import read_facts
from auctune.engine.messages.elastic import Compute, Computed
from auctune.engine.runtime.local import LocalLauncher, start_worker
from auctune.engine.runtime.requests import RequestWorker, WorkerEndedError
from auctune.engine.spot.provider import Instance, PurchaseOption, SpotRunError
from auctune.train.data_parallel.batches import RowRange
from auctune.train.data_parallel.gradient_worker import GradientWorker
from support.spot_runs import Site

pytest_plugins = ["support.spot_site"]


@pytest.fixture(scope="module")
def settings(site: Site) -> WorkerSettings:
    return site.settings


def test_a_fork_server_loads_what_its_workers_need_unless_that_is_wrong(
    settings: WorkerSettings, tmp_path: Path
) -> None:
    preload(gradient_worker(settings).argument)
    assert load_worker.cache_info().currsize == 1
    load_worker.cache_clear()
    preload(gradient_worker(replace(settings, base=str(tmp_path / "nowhere"))).argument)
    # The state of torch's threads does not survive a fork.
    preload(gradient_worker(replace(settings, threads=2)).argument)
    assert load_worker.cache_info().currsize == 0


@pytest.mark.slow
@pytest.mark.parametrize("fork", [False, True])
def test_a_worker_computes_what_would_be_computed_here_until_it_is_killed(
    site: Site, settings: WorkerSettings, tmp_path: Path, fork: bool
) -> None:
    spec = gradient_worker(settings, tmp_path / "log", fork=fork)
    worker = RequestWorker(partial(start_worker, spec), read_failure)
    here, part = GradientWorker(site.base, settings.job), RowRange(0, 2)
    assert read_facts(worker).counts == here.load_file().cursor.counts
    expected = here.compute(part)
    request = Compute(parts=[part], arrays=[here.first_weights])
    found: Computed = worker.request(request).result(120)
    assert np.array_equal(found.arrays[0], expected.gradient)
    assert (found.losses, found.hits) == ([expected.loss], [expected.hits])
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerEndedError):
        worker.request(request).result(30)
    worker.kill()
    worker.kill()
    assert not Path(f"/proc/{worker.pid}").exists()


@pytest.mark.parametrize("fork", [False, True])
def test_a_worker_on_a_numbered_gpu_sees_this_one_alone(
    settings: WorkerSettings, tmp_path: Path, fork: bool
) -> None:
    spec = gradient_worker(replace(settings, device="cuda:1"), tmp_path / "log", fork=fork)
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
    launcher = LocalLauncher({"spot": gradient_worker(settings, tmp_path / "log")})
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
    worker = RequestWorker(partial(start_worker, gradient_worker(wrong)), read_failure)
    with pytest.raises(InputError, match="nowhere"):
        read_facts(worker)
    worker.kill()
