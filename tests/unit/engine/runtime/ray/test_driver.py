"""Ray's driver without a cluster: what it stores for its workers, and how it reports their end."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from auctune.engine.messages.base import Alive, Started, Stop
from auctune.engine.messages.elastic import GRADIENT_MESSAGES, InitializeAdapter
from auctune.engine.runtime.channel import MessageError
from auctune.engine.runtime.ray.driver import ActorSpec, RayDriver, _death
from auctune.engine.runtime.worker import WorkerSpec

DIED = "The actor died unexpectedly before finishing this task.\n\tclass_name: WorkerActor\n"
WORKER_DIED = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker "
    "exit detail: Worker unexpectedly exits with a connection error code 2. End of file. Some "
    "common causes include: (1) the process was killed by the OOM killer"
)
RAISED = (
    "The actor died because of an error raised in its creation task, ray::WorkerActor()\n  File"
)


class Cluster:
    """Stands for Ray: keeps what is put into its object store."""

    def __init__(self) -> None:
        self.stored: list[Any] = []

    ObjectRef = str

    def put(self, value: object) -> str:
        self.stored.append(value)
        return f"reference {len(self.stored)}"

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "own")

    def nodes(self) -> list[Any]:
        return []


class Actor:
    """Stands for an actor: keeps the arguments of its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.send = self

    def options(self, **_: object) -> "Actor":
        return self

    def remote(self, *arguments: object) -> None:
        self.calls.append(arguments)


def test_an_array_that_several_workers_get_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, actors = Cluster(), [Actor(), Actor()]
    monkeypatch.setitem(sys.modules, "ray", cluster)
    driver = RayDriver()
    spec = ActorSpec.of(
        WorkerSpec("module", {}, GRADIENT_MESSAGES), {}, lease_seconds=1.0, missing_seconds=1.0
    )
    for step in (1, 2):
        weights = np.full(3, step, np.float32)
        for actor in actors:
            worker = driver.worker(spec, GRADIENT_MESSAGES, lambda _: None)
            worker._actor = actor
            worker.send(InitializeAdapter(arrays=[weights, "reference of another worker"]))
    for actor in actors:
        sent = [[f"reference {step}", "reference of another worker"] for step in (1, 2)]
        assert actor.calls == [(InitializeAdapter(arrays=arrays),) for arrays in sent]
    worker.send(Stop())
    assert actors[1].calls[-1] == (Stop(),)
    assert [list(array) for array in cluster.stored] == [[1, 1, 1], [2, 2, 2]]
    driver.close()


def test_only_messages_of_the_worker_s_unions_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", Cluster())
    driver, delivered = RayDriver(), list[object]()
    spec = ActorSpec.of(
        WorkerSpec("module", {}, GRADIENT_MESSAGES), {}, lease_seconds=1.0, missing_seconds=1.0
    )
    worker = driver.worker(spec, GRADIENT_MESSAGES, delivered.append)
    passed = [Started(pid=1), Alive()]
    for message in passed:
        worker._deliver(message)
    # None would be the end of the worker.
    for other in (None, {"type": "alive"}, Stop()):
        with pytest.raises(MessageError):
            worker._deliver(other)
    with pytest.raises(MessageError):
        worker.send(Alive())
    assert delivered == passed
    driver.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            DIED + WORKER_DIED,
            "SYSTEM_ERROR: Worker unexpectedly exits with a connection error code 2. End of file",
        ),
        (
            f"{DIED}The actor died because its node has died. Node Id: 4bdf\n\thealth check failed",
            "its node has died. Node Id: 4bdf",
        ),
        (
            f"{DIED}The actor is dead because it was killed by `ray.kill`.",
            "it was killed by `ray.kill`.",
        ),
        (f"{RAISED} actor.py, line 1\nLookupError: no such thing\n", "LookupError: no such thing"),
        ("", ""),
    ],
)
def test_what_ray_knows_about_a_lost_actor_is_one_line(text: str, expected: str) -> None:
    assert _death(RuntimeError(text)) == f"RuntimeError: {expected}"
