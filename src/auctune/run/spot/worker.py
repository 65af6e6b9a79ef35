"""A gradient worker: computes one micro-batch after the other at the weights that it is sent.

As a process it speaks with the coordinator over an inherited stream socket:

| to the worker | from the worker |
| --- | --- |
| weights {} + values | ready {base_digest, data_digest, num_parameters} |
| part {first, stop} | gradient {loss} + values |
| | failed {place, found, expected} |

It writes nothing to disk, and exits as soon as the coordinator's end closes, whatever it is doing.

This module imports torch only to load a worker, so that a new process reacts at once.
"""

import os
import select
import signal
import socket
import struct
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from auctune.domain import AuctuneError
from auctune.run.runtime.channel import error_record
from auctune.run.spot.connection import Connection, ConnectionClosedError, Floats32
from auctune.train.data_parallel.batches import Contribution, RowRange
from auctune.train.job import LoraJob

if TYPE_CHECKING:
    from auctune.train.data_parallel.gradients import GradientWorker

PID = struct.Struct("!q")
PREFORK = "prefork"


class SpotRunError(AuctuneError):
    """The workers of a run cannot do its work."""


class WorkerExitedError(Exception):
    """A worker is gone."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker loads.

    Attributes:
        base: the base model's name.
        cache: folder of bases that are built here.
        job: to train; its data are read by the worker.
        device, dtype: where and how it computes.
        threads: of torch on a CPU.
    """

    base: str
    cache: str
    job: LoraJob
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1


_SETTINGS = TypeAdapter(WorkerSettings)


def dump_settings(settings: WorkerSettings) -> str:
    """Return settings as an argument of a process."""
    return _SETTINGS.dump_json(settings).decode()


def load_settings(text: str) -> WorkerSettings:
    """Return what `dump_settings` was given."""
    return _SETTINGS.validate_json(text)


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """The adapter's weights after a number of optimizer steps.

    Attributes:
        step: identifies them within a run.
        values: float32 [num_parameters]; valid until the next step.
    """

    step: int
    values: Floats32


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A worker has loaded base and data, which must be the coordinator's."""

    base_digest: str
    data_digest: str
    num_parameters: int


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """A worker cannot use the job."""

    error: AuctuneError


@dataclass(frozen=True, slots=True)
class WorkerExited:
    """A worker is gone; its last message."""


WorkerMessage = WorkerReady | Contribution | WorkerFailed | WorkerExited


@dataclass(frozen=True, slots=True, eq=False)
class LoadedWorker:
    """A worker that has loaded base and data.

    Attributes:
        gradients: computes micro-batches.
        ready: what it has loaded.
    """

    gradients: "GradientWorker"
    ready: WorkerReady

    @classmethod
    def of(cls, gradients: "GradientWorker", base_digest: str) -> "LoadedWorker":
        """Return a worker that computes with a base of this digest."""
        facts = gradients.data_digest, gradients.num_parameters
        return cls(gradients, WorkerReady(base_digest, *facts))


def load_worker(settings: WorkerSettings) -> LoadedWorker:
    """Load base and data.

    Raises:
        InputError: if one of them cannot be used.
    """
    import torch

    from auctune.train.base import load_base
    from auctune.train.data_parallel.gradients import GradientWorker

    torch.set_num_threads(settings.threads)
    base = load_base(
        settings.base,
        cache=Path(settings.cache),
        device=settings.device,
        dtype=settings.dtype,
    )
    gradients = GradientWorker(base, settings.job, threads=settings.threads)
    return LoadedWorker.of(gradients, base.digest)


class GradientActor:
    """A gradient worker as an actor of a Ray cluster."""

    def __init__(self) -> None:
        self._worker: LoadedWorker | None = None
        self._step = -1

    def node_id(self) -> str:
        """Return the id of the actor's Ray node."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def load(self, settings: WorkerSettings) -> WorkerReady:
        """Load base and data.

        Raises:
            InputError: if one of them cannot be used.
        """
        self._worker = load_worker(settings)
        return self._worker.ready

    def compute(self, values: Floats32, step: int, part: RowRange) -> Contribution:
        """Return the gradient of a micro-batch at the weights of a step.

        Raises:
            InputError: if they do not fit into memory.
        """
        assert self._worker is not None
        if step != self._step:
            self._worker.gradients.set_weights(values)
            self._step = step
        return self._worker.gradients.compute(part)


def serve(connection: Connection, settings: WorkerSettings, worker: LoadedWorker | None) -> int:
    """Compute what the coordinator sends until it closes the connection; return an exit code.

    Args:
        connection: to the coordinator.
        settings: of the worker.
        worker: already loaded; None: it is loaded here.
    """
    try:
        worker = worker or load_worker(settings)
        connection.send({"kind": "ready", **asdict(worker.ready)})
        while True:
            message = connection.receive()
            if message.header["kind"] == "weights":
                worker.gradients.set_weights(message.array)
                continue
            part = RowRange(message.header["first"], message.header["stop"])
            result = worker.gradients.compute(part)
            connection.send({"kind": "gradient", "loss": result.loss}, result.gradient)
    except ConnectionClosedError:
        return 0
    except AuctuneError as error:
        connection.send({"kind": "failed", **error_record(error)})
        return 1


def exit_with_peer(descriptor: int) -> None:
    """Exit this process at once when the other end of a stream socket closes.

    A thread of its own notices while the process loads or computes.

    Args:
        descriptor: of the socket, which may be read and written as usual.
    """

    def watch() -> None:
        # Only a hang-up is awaited: messages are read by others.
        hang_up = select.poll()
        hang_up.register(descriptor, select.POLLRDHUP)
        hang_up.poll()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _run(descriptor: int, settings: WorkerSettings, worker: LoadedWorker | None = None) -> None:
    exit_with_peer(descriptor)
    code = serve(Connection(socket.socket(fileno=descriptor)), settings, worker)
    sys.stderr.flush()
    os._exit(code)


def _serve_forks(stream: socket.socket, settings: WorkerSettings) -> None:
    """Fork a worker for each socket that arrives on a stream, which shares the loaded base.

    Process ids of 8 bytes are sent back: the own one once everything is loaded, then that of each
    worker. Ends with the stream; the workers stay as long as their own connections.
    """
    # Nobody waits for the workers here: the kernel reaps them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # The state of a GPU, or of torch's threads, does not survive a fork: then each worker loads.
    can_share = settings.device == "cpu" and settings.threads == 1
    worker = load_worker(settings) if can_share else None
    # Forking is safe with one thread, before any work on a GPU.
    assert threading.active_count() == 1
    stream.sendall(PID.pack(os.getpid()))
    while True:
        message, descriptors, *_ = socket.recv_fds(stream, 1, 1)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            stream.close()
            _run(descriptors[0], settings, worker)
        os.close(descriptors[0])
        stream.sendall(PID.pack(pid))


def main() -> None:
    """Run a worker; arguments: number of its socket, its settings, `PREFORK` for a fork server."""
    descriptor, settings = int(sys.argv[1]), load_settings(sys.argv[2])
    if sys.argv[3:] == [PREFORK]:
        _serve_forks(socket.socket(fileno=descriptor), settings)
    else:
        _run(descriptor, settings)


if __name__ == "__main__":
    main()
