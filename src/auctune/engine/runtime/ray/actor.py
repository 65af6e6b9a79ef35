"""Actor of a Ray cluster that runs a worker in its own process.

A plain class, made an actor by its driver (`auctune.engine.runtime.ray.driver`). Messages of the
worker wait here until the driver fetches them.
"""

import os
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from auctune.engine.messages.base import Ready, Started
from auctune.engine.runtime.channel import STARTUP_TIMEOUT, ParentChannel, run_main
from auctune.engine.runtime.local import (
    STDERR_TAIL,
    argument_in_child,
    device_environment,
    open_log,
)

# A call waits so long for a message of the worker.
_WAIT_SECONDS = 0.2
# A worker that gets no calls outlives the lease of those who call it: they give it up first.
_OWN_LEASES = 2.0


class WorkerActor:
    """Runs a worker in this process, which ends if the driver makes no calls any more.

    Args:
        module: of the worker.
        argument: of its `main`; on a GPU, `device` of it becomes the name by which it knows it.
        device, num_devices: that it computes on, as of `WorkerProcess`.
        cwd: folder in which paths are relative.
        log: file to which its standard error is appended, or "".
        niceness: of the process.
        lease_seconds: without an answer after which the driver gives the worker up; longer until
            it is ready. The process ends after twice that time without a call, whether its worker
            runs or has ended.
        keeps_arrays: whether arrays of the worker's messages stay in the object store of its
            machine; the driver gets references, which it may send to other workers. Empty arrays
            are sent as they are.
    """

    def __init__(
        self,
        module: str,
        argument: Any,
        *,
        device: str,
        num_devices: int,
        cwd: str,
        log: str,
        niceness: int,
        lease_seconds: float,
        keeps_arrays: bool,
    ) -> None:
        self._changed = threading.Condition()
        self._messages: list[Any] = []
        self._exit_reason: str | None = None
        self._called_at = time.monotonic()
        self._lease_seconds = lease_seconds
        self._is_ready = False
        self._keeps_arrays = keeps_arrays
        argument = argument_in_child(argument, device, num_devices, os.environ)
        os.environ.update(device_environment(device, num_devices, os.environ))
        if niceness:
            os.setpriority(os.PRIO_PROCESS, 0, niceness)
        with suppress(OSError):
            os.chdir(cwd)
        self._messages.append(
            Started(pid=os.getpid(), host=socket.gethostname(), node=_ray_node_id())
        )
        threading.Thread(target=self._watch, daemon=True).start()
        try:
            _redirect_output(log)
        except OSError as error:
            self._exit_reason = f"cannot be started ({error.strerror})"
            return
        self._parent = ParentChannel[Any, Any](self._transmit, self._end)
        threading.Thread(target=self._run, args=(module, argument), daemon=True).start()

    def send(self, request: Any) -> None:
        """Hand a request to the worker; its arrays may be references."""
        self._called_at = time.monotonic()
        if self._exit_reason is not None:
            return
        if arrays := getattr(request, "arrays", ()):
            try:
                request = replace(request, arrays=_fetched(arrays))
            # The worker whose array it is may have ended: Ray raises errors of many types.
            except Exception as error:
                self._report_end(f"could not fetch another worker's array ({_last_line(error)})")
                return
        self._parent.receive(request)

    def receive(self) -> tuple[list[Any], str | None]:
        """Return the worker's messages since the last call; wait a moment if there are none.

        The second value is how the worker ended, or None while it runs.
        """
        with self._changed:
            self._called_at = time.monotonic()
            self._changed.wait_for(lambda: self._messages or self._exit_reason, _WAIT_SECONDS)
            messages, self._messages = self._messages, []
            return messages, self._exit_reason

    def _run(self, module: str, argument: Any) -> None:
        try:
            with suppress(SystemExit):
                run_main(module, self._parent, argument)
        finally:
            # A library of the worker's may have raised it, and not the channel.
            self._report_end("exit code 1")

    def _transmit(self, message: Any) -> None:
        if isinstance(message, Ready):
            # The lease is shorter from now on.
            self._called_at, self._is_ready = time.monotonic(), True
        if self._keeps_arrays and (arrays := getattr(message, "arrays", ())):
            message = replace(message, arrays=_stored(arrays))
        with self._changed:
            self._messages.append(message)
            self._changed.notify_all()

    def _end(self, code: int) -> NoReturn:
        """Let the driver fetch the last messages; it ends the actor then."""
        error = sys.exception()
        self._report_end(f"exit code {code}" if error is None else _last_line(error))
        raise SystemExit(code)

    def _report_end(self, reason: str) -> None:
        with self._changed:
            self._exit_reason = self._exit_reason or reason
            self._changed.notify_all()

    def _watch(self) -> None:
        """End the process once the driver has made no call for its own time."""
        while (remaining := self._called_at + self._own_lease - time.monotonic()) > 0:
            time.sleep(min(remaining, self._lease_seconds))
        os._exit(1)

    @property
    def _own_lease(self) -> float:
        is_loading = not self._is_ready and self._exit_reason is None
        return _OWN_LEASES * current_lease(self._lease_seconds, is_ready=not is_loading)


def current_lease(seconds: float, *, is_ready: bool) -> float:
    """Return how long a worker may be without an answer: longer until it is ready."""
    return seconds if is_ready else max(seconds, STARTUP_TIMEOUT)


def _stored(arrays: Any) -> list[Any]:
    """Return references to arrays, which are put into the object store, but for empty ones."""
    import ray

    return [ray.put(array) if array.size else array for array in arrays]


def _fetched(arrays: Any) -> list[Any]:
    """Return the arrays of a request, of which some may be references."""
    import ray

    references = [one for one in arrays if isinstance(one, ray.ObjectRef)]
    # One call, as each waits for another machine.
    values = iter(ray.get(references))
    return [next(values) if isinstance(one, ray.ObjectRef) else one for one in arrays]


def _ray_node_id() -> str:
    ray = sys.modules.get("ray")
    # Without a cluster, Ray would start one.
    return ray.get_runtime_context().get_node_id() if ray and ray.is_initialized() else ""


def _last_line(error: BaseException) -> str:
    return traceback.format_exception_only(error)[-1].strip()[:STDERR_TAIL]


def _redirect_output(log: str) -> None:
    if log:
        with open_log(Path(log)) as file:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
