"""Processes of the further devices of a node, which its worker starts and leads.

They are workers of this machine like others: each sees its own GPU alone, and ends at once when the
process that started it does.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from auctune.domain import AuctuneError
from auctune.engine.messages.base import Alive, Failed
from auctune.engine.messages.devices import DEVICE_MESSAGES, DeviceLoaded, JoinDevices
from auctune.engine.runtime.local import WorkerProcess
from auctune.engine.runtime.nodes import NodeSettings
from auctune.files.device_profile import physical_devices
from auctune.train.base import Base
from auctune.train.multilora.device_group import (
    DeviceGroup,
    DeviceLostError,
    FollowerRequest,
    join_devices,
)

DEVICE_WORKER = "auctune.engine.workers.device"

# A collective breaks when a process ends, which is known a moment later.
_LOST_SECONDS = 30.0

OnLost = Callable[[DeviceLostError], object]
"""Called on another thread when a process has ended by itself."""


class DeviceProcesses:
    """Processes of all devices of a node but the first; see `Followers`.

    Args:
        settings: of the node.
        on_lost: called once at most.

    Raises:
        OSError: if a process cannot be started.
    """

    def __init__(self, settings: NodeSettings, on_lost: OnLost) -> None:
        self._num_devices, self._on_lost = settings.num_devices, on_lost
        self._lost: DeviceLostError | None = None
        self._has_lost, self._lock = threading.Event(), threading.Lock()
        # Ends that are no surprise: of all after `close`, of one that has said why.
        self._is_closed, self._failed = threading.Event(), set[int]()
        self._has_started = threading.Event()
        # It has no name that would be left behind. It stays open as long as this process, as torch
        # opens it again by its path until then.
        self._store = f"/proc/{os.getpid()}/fd/{os.memfd_create('auctune-devices')}"
        self._replies: list[queue.SimpleQueue[Any]] = []
        self._processes: list[WorkerProcess] = []
        try:
            self._start(settings)
        except BaseException:
            self.close()
            raise

    def _start(self, settings: NodeSettings) -> None:
        first, *others = physical_devices(settings.device, settings.num_devices)
        for number in range(1, settings.num_devices):
            device = "cpu" if first == "cpu" else others[number - 1]
            self._replies.append(queue.SimpleQueue())
            self._processes.append(
                WorkerProcess(
                    DEVICE_WORKER,
                    asdict(replace(settings, device=device, num_devices=1)),
                    partial(self._on_message, number),
                    DEVICE_MESSAGES,
                    log=settings.device_log(number),
                    device=device,
                )
            )
        self._has_started.set()

    def __len__(self) -> int:
        return len(self._processes)

    @property
    def pids(self) -> list[int]:
        """Process ids."""
        return [process.pid for process in self._processes]

    def send(self, device: int, request: FollowerRequest | JoinDevices) -> None:
        self._processes[device - 1].send(request)

    def receive(self, device: int) -> Any:
        reply = self._replies[device - 1].get()
        if reply is None:
            assert self._lost is not None
            raise self._lost
        return reply

    def wait_lost(self) -> DeviceLostError | None:
        self._has_lost.wait(_LOST_SECONDS)
        return self._lost

    def join(self, base: Base) -> None:
        """Wait until all have loaded the base, and join them.

        Raises:
            InputError: if a device cannot be used.
            AuctuneError: if one has loaded another base.
            DeviceLostError: if a process has ended.
        """
        numbers = range(1, self._num_devices)
        for number in numbers:
            match self.receive(number):
                case Failed(error=error):
                    raise error.to_error(AuctuneError)
                case DeviceLoaded(base_digest=digest) if digest != base.digest:
                    raise AuctuneError("the base has changed while the devices of a node loaded it")
        for number in numbers:
            request = JoinDevices(store=self._store, number=number, num_devices=self._num_devices)
            self.send(number, request)
        join_devices(self._store, base.device, 0, self._num_devices)

    def close(self) -> None:
        """End the processes; they have nothing to save."""
        self._is_closed.set()
        self._has_started.set()
        for process in self._processes:
            process.kill()

    def _on_message(self, device: int, message: Any) -> None:
        match message:
            case Alive():
                return
            case Failed():
                self._failed.add(device)
            case None:
                self._has_started.wait()
                if not self._is_closed.is_set():
                    self._on_end(device)
        self._replies[device - 1].put(message)

    def _on_end(self, device: int) -> None:
        why = self._processes[device - 1].exit_reason()
        with self._lock:
            if self._lost is not None:
                return
            self._lost = DeviceLostError(f"device {device + 1} of {self._num_devices} ended: {why}")
        if device not in self._failed:
            self._on_lost(self._lost)
        self._has_lost.set()


@contextmanager
def node_devices(
    settings: NodeSettings, on_lost: OnLost, load: Callable[[], Base]
) -> Iterator[tuple[Base, DeviceGroup]]:
    """Load the base on all devices of a node at once; yield that of this process, and the group.

    Args:
        settings: of the node; this process computes on its first device.
        on_lost: as of `DeviceProcesses`.
        load: loads the base in this process.

    Raises:
        InputError: if a device cannot be used.
        DeviceLostError: if a process has ended.
        OSError: if one cannot be started.
    """
    if settings.num_devices == 1:
        yield load(), DeviceGroup()
        return
    processes = DeviceProcesses(settings, on_lost)
    try:
        base = load()
        processes.join(base)
        yield base, DeviceGroup(processes)
    finally:
        processes.close()
