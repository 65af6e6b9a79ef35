"""A worker's actor without a cluster: it carries messages, and lives as long as it is called."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from auctune.engine.edge.ray_sites import RaySites
from auctune.engine.messages.base import Alive, Started, Stop
from auctune.engine.messages.node import Ping, Pong, Trained, TrainSlotRequest
from auctune.engine.runtime.nodes import NodeSettings
from auctune.engine.runtime.ray.actor import WorkerActor, _stored
from support.scripted_node import READY
from support.waits import WAIT_SECONDS

TESTS = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An actor makes its folder the process's: here the one that all tests share."""
    monkeypatch.chdir(tmp_path)


# The end of a lease is the end of this process.
NEVER = 1e6


def make_actor(folder: Path, word: str, log: str = "", lease_seconds: float = NEVER) -> WorkerActor:
    return WorkerActor(
        "support.scripted_node",
        asdict(NodeSettings(json.dumps([word]), str(folder))),
        device="cpu",
        num_devices=1,
        cwd=str(folder),
        log=log,
        niceness=0,
        lease_seconds=lease_seconds,
        keeps_arrays=False,
    )


def received(actor: WorkerActor, num_messages: int) -> list[Any]:
    """So many messages that are not heartbeats."""
    messages: list[Any] = []
    while len(messages) < num_messages:
        news, how = actor.receive()
        assert how is None, how
        messages += [one for one in news if not isinstance(one, Alive)]
    return messages


def exit_reason(actor: WorkerActor) -> str:
    while (reason := actor.receive()[1]) is None:
        pass
    return reason


def test_messages_go_both_ways_in_their_order_and_then_the_exit_is_known(tmp_path: Path) -> None:
    actor = make_actor(tmp_path, "good")
    started, ready = received(actor, 2)
    assert (started.pid, ready) == (os.getpid(), READY)
    actor.send(TrainSlotRequest(0, (), id="0/alpha/1"))
    actor.send(Ping())
    assert [type(message) for message in received(actor, 2)] == [Trained, Pong]
    actor.send(Stop())
    assert exit_reason(actor) == "exit code 0"
    # Requests after its end are ignored.
    actor.send(Ping())


def test_a_worker_that_ends_with_a_code_or_an_error_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_reason(make_actor(tmp_path, "die")) == "exit code 3"
    found = exit_reason(make_actor(tmp_path / "none", "good"))
    assert found.startswith("FileNotFoundError: ")
    # The log has all of it.
    assert "Traceback" in capsys.readouterr().err


def test_a_worker_whose_log_cannot_be_written_says_why(tmp_path: Path) -> None:
    actor = make_actor(tmp_path, "good", str(tmp_path / "none" / "alpha.log"))
    (started,), reason = actor.receive()
    # Its machine is there.
    assert isinstance(started, Started)
    assert reason == "cannot be started (No such file or directory)"


def seconds_alive(folder: Path, word: str, wait: str, lease_seconds: float) -> float:
    """How long after the last call of its actor a process lives."""
    program = f"""
import threading, time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unit.engine.runtime.ray.test_actor import exit_reason, make_actor, received
actor = make_actor(Path({str(folder)!r}), {word!r}, lease_seconds={lease_seconds})
{wait}
print(time.time() - time.monotonic() + actor._called_at, flush=True)
threading.Event().wait({WAIT_SECONDS})
"""
    child = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
    )
    ended = time.time()
    assert child.returncode == 1, child.stderr
    return ended - float(child.stdout)


def test_the_process_ends_after_its_driver_has_given_it_up(tmp_path: Path) -> None:
    assert seconds_alive(tmp_path, "idle", "received(actor, 2)", 1.0) >= 2.0


def test_the_process_of_a_worker_that_has_ended_ends_without_a_driver(tmp_path: Path) -> None:
    assert seconds_alive(tmp_path, "die", "exit_reason(actor)", 1.0) >= 2.0


def test_empty_arrays_are_sent_as_they_are_instead_of_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = SimpleNamespace(
        put=lambda array: f"reference of {array.size}", get=lambda _: np.ones(2), ObjectRef=str
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    empty = np.zeros(0, np.float32)
    stored = _stored([np.ones(2), empty])
    assert stored[0] == "reference of 2"
    assert stored[1] is empty
    fetch = RaySites.__new__(RaySites).fetch
    assert [list(fetch(one)) for one in stored] == [[1.0, 1.0], []]
