"""Workers in actors of a Ray cluster, in the process that is connected to it: Ray's driver.

Each worker has a thread, from its actor's placement to its end. Requests are calls of the actor,
in their order; its messages are fetched by one call after the other.
"""

import re
import socket
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from auctune.engine.messages.base import Alive, Missing, Ready, Started, Stop, WorkerMessages
from auctune.engine.runtime.channel import MessageError, OnMessage, check
from auctune.engine.runtime.local import STDERR_TAIL
from auctune.engine.runtime.ray.actor import (
    WorkerActor,
    current_lease,
)
from auctune.engine.runtime.worker import WorkerSpec

_REQUESTS, _MESSAGES = "requests", "messages"
_POLL_SECONDS = 1.0
_CALL_SECONDS = 0.2
_REPORT_SECONDS = 1.0
_CLOSE_SECONDS = 5.0
# For the report that a worker was killed.
_KILL_SECONDS = 2.0
# An actor may die a little before its Ray node: the node has to answer this often.
_NODE_CHECKS, _CHECK_SECONDS = 6, 0.4
_NODE_TIMEOUT = 5.0
_EXIT = re.compile(
    r"Worker exit type: (?P<type>\w+) Worker exit detail: (?P<detail>.*?)(\. Some |$)"
)
_DEATH = re.compile(r"The actor (is dead|died) because (?!of an error)(?P<why>.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorSpec:
    """What an actor runs, and where; plain values.

    Attributes:
        module, argument, device, num_devices, cwd, log, niceness, lease_seconds, keeps_arrays: as
            of `WorkerActor`.
        needs: resources that it takes of its Ray node.
        name: of the actor; an earlier one of that name is killed first. "": it has none.
        missing_seconds: without a place after which it is missing.
    """

    module: str
    argument: Any
    device: str
    num_devices: int
    cwd: str
    log: str
    niceness: int
    lease_seconds: float
    needs: Mapping[str, float]
    name: str
    missing_seconds: float
    keeps_arrays: bool = False

    @classmethod
    def of(
        cls,
        worker: WorkerSpec,
        needs: Mapping[str, float],
        *,
        lease_seconds: float,
        missing_seconds: float,
        name: str = "",
        keeps_arrays: bool = False,
    ) -> "ActorSpec":
        """Return the actor that runs a worker, with paths relative to this process's folder."""
        return cls(
            module=worker.module,
            argument=worker.argument,
            device=worker.device,
            num_devices=worker.num_devices,
            cwd=str(Path.cwd()),
            log="" if worker.log is None else str(worker.log),
            niceness=worker.niceness,
            lease_seconds=lease_seconds,
            needs=needs,
            name=name,
            missing_seconds=missing_seconds,
            keeps_arrays=keeps_arrays,
        )


class RemoteHandle(ABC):
    """What handles of workers in actors share; see `WorkerHandle`.

    Args:
        on_message: called with the worker's messages, and None once nothing more will come.
    """

    pid = None

    def __init__(self, on_message: OnMessage) -> None:
        self._on_message = on_message
        self._exit_reason = ""
        self._gone = threading.Event()

    @property
    def is_gone(self) -> bool:
        return self._gone.is_set()

    @abstractmethod
    def send(self, message: object) -> None:
        """Send a message, without waiting for it to be read."""

    @abstractmethod
    def kill(self) -> None:
        """Have the worker killed; does not wait for it."""

    def exit_reason(self) -> str:
        return self._exit_reason

    def request_stop(self) -> None:
        self.send(Stop())

    def stop(self, timeout: float = 30.0) -> None:
        self.request_stop()
        if not self._gone.wait(timeout):
            self.kill()
            self._gone.wait(_KILL_SECONDS)

    def on_gone(self, how: str) -> None:
        """Record how the worker has ended."""
        self._exit_reason = how
        self._gone.set()
        self._on_message(None)


class RayDriver:
    """Starts workers in actors, and watches the cluster; closed before the process disconnects.

    The resources of the cluster's live nodes are refreshed every second, on a thread of its own.
    The head of a cluster may go away and come back. One that does not answer for long, or no longer
    knows the driver's own node, is another cluster: its driver has to start again.
    """

    def __init__(self) -> None:
        import ray

        self._own = ray.get_runtime_context().get_node_id()
        self._kinds: frozenset[str] = frozenset()
        self._seen_at = time.monotonic()
        self._closed = threading.Event()
        self._workers: list[RayWorker] = []
        # The array that was sent last, and its reference in Ray's object store.
        self._shared: tuple[object, Any] = (None, None)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def age(self) -> float:
        """Seconds since the driver's own node was seen."""
        return time.monotonic() - self._seen_at

    def worker(
        self, spec: ActorSpec, messages: WorkerMessages, on_message: OnMessage
    ) -> "RayWorker":
        """Return the handle of a new worker, which is yet to be started."""
        self._workers = [one for one in self._workers if not one.is_gone]
        worker = RayWorker(spec, messages, on_message, self)
        self._workers.append(worker)
        return worker

    def share(self, arrays: Any) -> list[Any]:
        """Return references of a message's arrays; those of other workers are references already.

        An array that is sent to several workers is stored once. Only the last one is kept, by its
        identity: an array that was sent must not be changed.
        """
        import ray

        references = []
        for array in arrays:
            if isinstance(array, ray.ObjectRef):
                references.append(array)
                continue
            # Other threads send other arrays meanwhile.
            shared, reference = self._shared
            if shared is not array:
                reference = ray.put(array)
                self._shared = array, reference
            references.append(reference)
        return references

    def why_waiting(self, needs: Collection[str]) -> str:
        """Return why an actor with such needs is not placed."""
        for kind in needs:
            if kind not in self._kinds:
                return f"no Ray node with {kind!r} is in the cluster"
        return f"no Ray node has room for {', '.join(needs)}"

    def close(self) -> None:
        """Kill all workers, and wait for the threads that call Ray.

        A call after the process has disconnected would start a cluster.
        """
        self._closed.set()
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.join(_CLOSE_SECONDS)
        self._thread.join(_CLOSE_SECONDS)

    def _watch(self) -> None:
        import ray

        while not self._closed.is_set():
            try:
                alive = [node for node in ray.nodes() if node["Alive"]]
            # While the head is away, Ray raises errors of many types.
            except Exception:
                alive = []
            if any(node["NodeID"] == self._own for node in alive):
                self._seen_at = time.monotonic()
                self._kinds = frozenset(kind for node in alive for kind in node["Resources"])
            self._closed.wait(_POLL_SECONDS)


class RayWorker(RemoteHandle):
    """Handle of a worker in an actor, in the driver's process.

    Args:
        spec: of the actor.
        messages: of its worker. Ray would carry any other object too.
        on_message: called with each message of the worker, and with `Alive` or `Missing` while it
            is not placed.
        driver: which knows why it waits.
    """

    def __init__(
        self,
        spec: ActorSpec,
        messages: WorkerMessages,
        on_message: OnMessage,
        driver: RayDriver,
    ) -> None:
        super().__init__(on_message)
        self._spec, self._messages, self._driver = spec, messages, driver
        # Ray shows the name of a call as that of the process.
        self._title = f"auctune -m {spec.module}"
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._lock = threading.Lock()
        self._actor: Any = None
        self._node: str | None = None
        self._unsent: list[object] = []
        self._killed = threading.Event()
        self._is_ready = self._is_missing = False
        self._is_lost: bool | None = None
        self._begun_at = self._reported_at = time.monotonic()

    def start(self) -> None:
        """Have the actor placed; does not wait for it."""
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait for the worker's end, if it was started."""
        if self._thread.ident is not None:
            self._thread.join(timeout)

    @property
    def is_killed(self) -> bool:
        """Return whether its end has been requested."""
        return self._killed.is_set()

    def is_lost(self) -> bool:
        if self._is_missing or not self._gone.is_set() or self._killed.is_set():
            return self._is_missing
        if self._is_lost is None:
            self._is_lost = self._node is None or _is_node_lost(self._node)
        return self._is_lost

    def send(self, message: object) -> None:
        check(message, self._messages.requests)
        with self._lock:
            if self._actor is None:
                self._unsent.append(message)
            else:
                self._call(message)

    def kill(self) -> None:
        self._killed.set()

    def _run(self) -> None:
        # While the head is away, Ray raises errors of many types; a worker whose end is not
        # reported would never be started again.
        try:
            how = self._serve()
        except MessageError as error:
            traceback.print_exc()
            how = f"sent a message that could not be handled ({error})"
        except Exception as error:
            traceback.print_exc()
            how = f"was lost with its Ray driver's call ({type(error).__name__})"
        self.on_gone(how)

    def _serve(self) -> str:
        """Run the worker; return how it ended."""
        import ray

        actor = self._create_actor()
        if actor is None:
            return "was stopped before it was placed"
        try:
            with self._lock:
                self._actor = actor
                for message in self._unsent:
                    self._call(message)
                self._unsent.clear()
            return self._fetch(actor)
        finally:
            # One without a cluster has ended.
            if ray.is_initialized():
                ray.kill(actor)

    def _create_actor(self) -> Any:
        """Return the actor; one of an earlier driver that has its name is killed first."""
        import ray

        spec, needs = self._spec, dict(self._spec.needs)
        groups = {_REQUESTS: 1, _MESSAGES: 1}
        options = ray.remote(concurrency_groups=groups)(WorkerActor).options(
            name=spec.name or None,
            num_cpus=needs.pop("CPU", 0),
            num_gpus=needs.pop("GPU", 0),
            resources=needs,
            max_restarts=0,
            max_task_retries=0,
        )
        while not self._killed.is_set():
            try:
                return options.remote(
                    spec.module,
                    spec.argument,
                    device=spec.device,
                    num_devices=spec.num_devices,
                    cwd=spec.cwd,
                    log=spec.log,
                    niceness=spec.niceness,
                    lease_seconds=spec.lease_seconds,
                    keeps_arrays=spec.keeps_arrays,
                )
            except ValueError:
                _kill_named(spec.name)
                self._report_waiting("an earlier one is still there")
                time.sleep(_CALL_SECONDS)
        return None

    def _call(self, message: Any) -> None:
        # A request that is lost is lost with its actor, of which the next answer tells.
        send = self._actor.send.options(concurrency_group=_REQUESTS, name=self._title)
        if arrays := getattr(message, "arrays", ()):
            message = replace(message, arrays=self._driver.share(arrays))
        send.remote(message)

    def _fetch(self, actor: Any) -> str:
        """Fetch messages until the worker has ended; return how it did."""
        import ray

        receive = actor.receive.options(concurrency_group=_MESSAGES, name=self._title)
        call, answered_at = None, None
        while not self._killed.is_set():
            if call is None:
                call = receive.remote()
            ready, _ = ray.wait([call], timeout=_CALL_SECONDS)
            now = time.monotonic()
            if ready:
                try:
                    messages, how = ray.get(call)
                # A call that was lost may have been made or not: the worker cannot be used further.
                except ray.exceptions.RayError as error:
                    return f"was lost with its actor ({_death(error)})"
                call, answered_at = None, now
                for message in messages:
                    self._deliver(message)
                if how is not None:
                    return str(how)
            elif answered_at is None:
                self._report_waiting(self._driver.why_waiting(self._spec.needs))
            else:
                lease = current_lease(self._spec.lease_seconds, is_ready=self._is_ready)
                if now - answered_at > lease:
                    return f"did not answer for {lease:g} s"
        return "was stopped"

    def _deliver(self, message: Any) -> None:
        self._is_ready |= isinstance(message, Ready)
        # The actor sends it, whatever its worker.
        if isinstance(message, Started):
            self._node, self._is_missing = message.node, False
        else:
            check(message, self._messages.replies)
        if not self._spec.keeps_arrays and (arrays := getattr(message, "arrays", ())):
            # Ray's arrays are read-only views of shared memory.
            message = replace(message, arrays=[np.array(array) for array in arrays])
        self._on_message(message)

    def _report_waiting(self, why: str) -> None:
        """Report that the worker is not placed yet: after a while as missing."""
        now = time.monotonic()
        self._is_missing = now - self._begun_at > self._spec.missing_seconds
        if now - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = now
            self._on_message(Missing(what=why) if self._is_missing else Alive())


def _death(error: Exception) -> str:
    """Return what Ray knows about the end of an actor, of which its error says much on many lines.

    An error of its constructor is on the last of them.
    """
    text = str(error).strip()
    if found := _EXIT.search(text):
        detail = f"{found['type']}: {found['detail']}"
    elif found := _DEATH.search(text):
        detail = found["why"]
    else:
        detail = text.rpartition("\n")[2]
    return f"{type(error).__name__}: {detail[:STDERR_TAIL]}"


def _kill_named(name: str) -> None:
    import ray

    try:
        ray.kill(ray.get_actor(name))
    except ValueError:
        # It has ended meanwhile.
        return


def _is_node_lost(node_id: str) -> bool:
    """Return whether a node is gone, or goes within the next seconds."""
    import ray

    for _ in range(_NODE_CHECKS):
        node = next((one for one in ray.nodes() if one["NodeID"] == node_id), None)
        if node is None or not node["Alive"]:
            return True
        address = node["NodeManagerAddress"], node["NodeManagerPort"]
        try:
            socket.create_connection(address, _NODE_TIMEOUT).close()
        except OSError:
            return True
        time.sleep(_CHECK_SECONDS)
    return False
