"""How many spot instances there are, and when workers of this machine can be started."""

from pathlib import Path

import numpy as np
import pytest

from auctune.engine.elastic.gradient_worker import WorkerSettings
from auctune.engine.spot import provider
from auctune.engine.spot.provider import (
    ClusterCapacity,
    LocalProvider,
    SpotRunError,
    TraceCapacity,
)
from auctune.engine.spot.traces import MarketTrace
from auctune.train.job import LoraJob


def test_by_a_trace_it_is_what_the_trace_says_whoever_holds_what() -> None:
    trace = MarketTrace(np.array([0.0, 0.4, 1.0]), np.full(3, 0.3), np.array([3, 1, 4]))
    counted = TraceCapacity(trace)
    assert [counted.current(now, held=2) for now in (0.0, 0.5, 1.0)] == [3, 1, 4]
    assert counted.minimum_since(0.1, 1.0, held=2) == 1


def test_by_room_it_is_what_is_held_and_what_fits_beside() -> None:
    counted = ClusterCapacity(lambda: 3)
    assert counted.current(0.0, held=2) == 5
    # What is held stays until its machine is lost.
    assert counted.minimum_since(0.0, 5.0, held=2) == 2


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_workers_of_a_warm_provider_can_be_forked_when_it_is_open(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(provider, "start_fork_server", lambda *_: calls.append("start"))
    monkeypatch.setattr(provider, "wait_for_fork_server", lambda: calls.append("wait"))
    settings = WorkerSettings("tiny", str(tmp_path), LoraJob("job", tmp_path), device=device)
    trace = MarketTrace(np.array([0.0, 1.0]), np.full(2, 0.3), np.array([3, 1]))
    LocalProvider(trace, warm=True).open(settings, tmp_path / "log")
    assert calls == (["start", "wait"] if device == "cpu" else [])


def test_a_fork_server_that_ends_while_it_loads_is_an_error_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait() -> None:
        raise OSError(0, "the fork server has ended")

    monkeypatch.setattr(provider, "start_fork_server", lambda *_: None)
    monkeypatch.setattr(provider, "wait_for_fork_server", wait)
    settings = WorkerSettings("tiny", str(tmp_path), LoraJob("job", tmp_path))
    trace = MarketTrace(np.array([0.0, 1.0]), np.full(2, 0.3), np.array([3, 1]))
    with pytest.raises(SpotRunError, match="cannot be started: the fork server has ended"):
        LocalProvider(trace, warm=True).open(settings, tmp_path / "log")
