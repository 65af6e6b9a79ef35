"""Workers as processes of this machine, and the provider that rents them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from auctune.engine.runtime.channel import ErrorRecord, Message, read_error
from auctune.engine.runtime.local import StartProcess, WorkerProcess
from auctune.engine.spot.prefork import PreforkServer
from auctune.engine.spot.provider import (
    InstanceProvider,
    PurchaseOption,
    TraceCapacity,
    check_trace_length,
)
from auctune.engine.spot.traces import MarketTrace
from auctune.engine.spot.worker import (
    WORKER,
    SpotRunError,
    Weights,
    WorkerAlive,
    WorkerExited,
    WorkerFailed,
    WorkerMessage,
    WorkerReady,
    WorkerSettings,
    dump_settings,
)
from auctune.spot.job import SpotJob
from auctune.train.data_parallel.batches import Contribution, RowRange


class LocalWorker:
    """A `WorkerHandle` of a process of this machine.

    Args:
        settings: of the worker.
        log: file to which its standard error is appended.
        start_process: as of `WorkerProcess`.
    """

    def __init__(
        self, settings: WorkerSettings, log: Path, start_process: StartProcess | None
    ) -> None:
        self._settings, self._log, self._start_process = settings, log, start_process
        self._process: WorkerProcess | None = None
        # Of the weights that it was sent last.
        self._step = -1

    @property
    def pid(self) -> int:
        """Id of its process, once it has started."""
        assert self._process is not None
        return self._process.pid

    def start(self, on_message: Callable[[WorkerMessage], None]) -> None:
        def receive(message: Message | None) -> None:
            on_message(_read_message(message))

        try:
            self._process = WorkerProcess(
                WORKER,
                dump_settings(self._settings),
                receive,
                log=self._log,
                device=self._settings.device,
                start=self._start_process,
            )
        # The system has no process or no thread left.
        except (OSError, RuntimeError) as error:
            raise _start_error(error) from None

    def compute(self, part: RowRange, weights: Weights) -> None:
        assert self._process is not None
        message: Message = {"do": "compute", "first": part.first, "stop": part.stop}
        if self._step != weights.step:
            message["array"], self._step = weights.values, weights.step
        self._process.send(message)

    def is_lost(self) -> bool:
        # A process that exits leaves its instance to another.
        return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()


def _read_message(message: Message | None) -> WorkerMessage:
    if message is None:
        return WorkerExited()
    match message.pop("kind"):
        case "alive":
            return WorkerAlive()
        case "ready":
            return WorkerReady(**message)
        case "gradient":
            return Contribution(message["array"], message["loss"], message["hits"])
        case _:
            return WorkerFailed(read_error(cast(ErrorRecord, message), SpotRunError))


def _start_error(error: OSError | RuntimeError) -> SpotRunError:
    why = error.strerror if isinstance(error, OSError) else error
    return SpotRunError(f"a worker's process cannot be started: {why}")


class LocalLauncher:
    """A `Launcher` of processes of this machine.

    Args:
        settings: of the workers.
        log: file to which their standard error is appended.
        warm: fork workers from a process that has loaded base and data: they start in milliseconds,
            and share the memory of the base. Otherwise each loads for itself, as a new machine
            would; so does each on a GPU, whose state does not survive a fork.

    Raises:
        SpotRunError: if that process cannot load what the settings name.
    """

    def __init__(self, settings: WorkerSettings, log: Path, *, warm: bool = False) -> None:
        self._settings, self._log = settings, log
        try:
            forks = warm and settings.device == "cpu"
            self._server = PreforkServer(settings, log) if forks else None
        except OSError as error:
            raise _start_error(error) from None

    def launch(self, option: PurchaseOption) -> LocalWorker:
        start = None if self._server is None else self._server.start
        return LocalWorker(self._settings, self._log, start)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()


@dataclass(frozen=True, slots=True, eq=False)
class LocalProvider:
    """A `ProviderFactory`: a recorded market, with processes of this machine as instances.

    Attributes:
        trace: the market; its slot 0 is the job's first.
        warm: fork workers from a process that has everything loaded; otherwise each loads for
            itself, as a new machine would.
    """

    trace: MarketTrace
    warm: bool = False

    def check(self, job: SpotJob) -> None:
        check_trace_length(self.trace, job)

    def identity(self) -> dict[str, Any]:
        return {"provider": "market", "trace": self.trace.digest}

    def open(self, settings: WorkerSettings, log: Path) -> InstanceProvider:
        launcher = LocalLauncher(settings, log, warm=self.warm)
        return InstanceProvider(self.trace, launcher, TraceCapacity(self.trace))
