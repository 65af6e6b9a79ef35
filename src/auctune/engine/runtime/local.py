"""Worker processes of this machine: forked by the fork server, or fresh interpreters.

Workers that train on a CPU are forked by the standard library's fork server, which has imported
torch and transformers beforehand (`auctune.engine.runtime.preload`). All others are interpreters of
their own: CUDA does not survive a fork, and the rest needs none of these libraries.
"""

import asyncio
import json
import logging
import multiprocessing
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import connection, forkserver, reduction
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO, Any

from setproctitle import setproctitle

from auctune.engine.messages.base import Stop, WorkerMessages
from auctune.engine.runtime.channel import MessageError, OnMessage, decode, encode, run_worker
from auctune.engine.runtime.nodes import NODE_WORKER, NodeSettings, node_worker
from auctune.engine.runtime.worker import WorkerSpec
from auctune.engine.unix_time import clock_environment

STDERR_TAIL = 300
_MAX_LOG_BYTES = 64 * 1024**2
_EXIT_CODE_SECONDS = 5.0
_UNKNOWN_CODE = 255
_SAFE_PATH = "PYTHONSAFEPATH"
# The second is the older name of the first.
_ALLOCATOR_SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_PRELOAD = ("__main__", "auctune.engine.runtime.preload")
PRELOAD = "AUCTUNE_PRELOAD"
"""Variable that tells the fork server what else to load: a module and an argument, as JSON."""
_FRESH = "from auctune.engine.runtime.channel import main; main()"
_FORKING = multiprocessing.get_context("forkserver")
# The standard library reaps all children of a process in whatever thread starts or polls one.
_fork_lock = threading.Lock()
_fork_server_of: int | None = None
# What the fork server preloads, as JSON of module and argument.
_preload = json.dumps(["", None])
_log = logging.getLogger(__name__)


def start_fork_server(module: str = "", argument: object = None) -> None:
    """Start the fork server of this process, if it has none; does not wait until it is ready.

    It ends with this process. Without it, all workers are fresh interpreters.

    Args:
        module: whose `preload` the fork server calls with the argument, to share with the workers
            what it loads; "": none. A fork server that is there already does not call it, which is
            logged: then each worker loads for itself.
        argument: plain values.
    """
    global _fork_server_of, _preload
    preload = json.dumps([module, argument])
    if _fork_server_of == os.getpid():
        if module and preload != _preload:
            _log.warning(
                "a fork server is there already: workers of %s load for themselves", module
            )
        return
    # A worker may have workers of its own, as those of a rented job.
    multiprocessing.current_process().daemon = False
    forkserver.set_forkserver_preload(list(_PRELOAD))
    _preload = preload
    with _use_fork_server():
        forkserver.ensure_running()
    _fork_server_of = os.getpid()


def wait_for_fork_server() -> None:
    """Wait until the fork server has preloaded everything: it forks nothing before.

    Raises:
        OSError: if it ends.
    """
    process = _FORKING.Process(target=_do_nothing)
    _start_forked(process)
    process.join()


def _do_nothing() -> None:
    pass


def _start_forked(process: ForkServerProcess) -> None:
    with _use_fork_server():
        try:
            process.start()
        except EOFError:
            raise OSError(0, "the fork server has ended") from None


@contextmanager
def _use_fork_server() -> Iterator[None]:
    """Set the environment of a fork server that the block starts, again if it was killed.

    It ignores the current folder, where a file of the user's must not shadow a module.
    """
    changes = {_SAFE_PATH: "1", PRELOAD: _preload}
    with _fork_lock:
        before = {name: os.environ.get(name) for name in changes}
        os.environ |= changes
        try:
            yield
        finally:
            for name, value in before.items():
                del os.environ[name]
                if value is not None:
                    os.environ[name] = value


class WorkerProcess:
    """Handle of a worker process of this machine; see `WorkerHandle`.

    Args:
        module: of the worker; its `main` is called with a `ParentChannel` and the argument.
        argument: plain values.
        on_message: called on a thread of this handle.
        messages: `MESSAGES` of the module.
        lock: descriptor of a lock that the worker holds too, or None.
        log: file to which its standard error is appended; None: kept only while it runs.
        environment: what differs from this process's environment.
        device: that the worker computes on, as torch names it. It sees no GPU but this one, and
            `device` of the argument becomes the name by which it knows it.
        num_devices: of the GPUs that it sees, which are those from `device` on.
        fork: whether the fork server starts it, if there is one and the device is a CPU. It needs
            what the fork server has imported, and its environment does not differ.
        niceness: of the process and its children, 0 to 19: the larger, the less of busy cores it
            gets.

    Raises:
        OSError: if it cannot be started.
    """

    def __init__(
        self,
        module: str,
        argument: object,
        on_message: OnMessage,
        messages: WorkerMessages,
        *,
        lock: int | None = None,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
        device: str = "cpu",
        num_devices: int = 1,
        fork: bool = False,
        niceness: int = 0,
    ) -> None:
        _check_may_block()
        self._on_message, self._messages = on_message, messages
        fork = fork and device == "cpu" and not environment and _has_fork_server()
        full_environment = {
            **os.environ,
            **clock_environment(),
            **(environment or {}),
            **device_environment(device, num_devices, os.environ),
        }
        # Open as long as the process runs, and closed with it.
        self._stderr: IO[bytes] = tempfile.TemporaryFile() if log is None else open_log(log)  # noqa: SIM115
        self._begin = self._stderr.seek(0, os.SEEK_END)
        self._connection, worker_end = multiprocessing.Pipe()
        try:
            with worker_end:
                start: StartProcess = _ForkedProcess if fork else _start_interpreter
                self._process = start(
                    module,
                    worker_end.fileno(),
                    self._stderr.fileno(),
                    lock,
                    full_environment,
                )
        except OSError:
            self._connection.close()
            self._stderr.close()
            raise
        if niceness:
            # One that has ended already is reported by the thread that receives.
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, niceness)
        # A frozen worker reads nothing; messages to it must not block its parent.
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        argument = argument_in_child(argument, device, num_devices, os.environ)
        self._outbox.put(json.dumps(argument).encode())
        self._failure = ""
        # Of several threads that kill it, each file is closed by one: a descriptor that was closed
        # twice may be another file's by then.
        self._releasing = threading.Lock()
        # Its last line on standard error, read before that is closed.
        self._last_line: str | None = None
        self._threads: list[threading.Thread] = []
        try:
            for work in (self._receive, self._write):
                thread = threading.Thread(target=work, daemon=True)
                thread.start()
                self._threads.append(thread)
        except RuntimeError:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_gone(self) -> bool:
        return self._process.poll() is not None

    def is_lost(self) -> bool:
        return False

    def send(self, message: object) -> None:
        self._outbox.put(encode(message, self._messages.requests))

    def exit_reason(self) -> str:
        """Return the signal that ended the process, its last line on standard error, or its code.

        Of a process that was killed here because its message could not be handled: the error. Also
        known once the handle is released.
        """
        _check_may_block()
        code = self._process.wait()
        if self._failure:
            return self._failure
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        line = self._read_last_line() if code else ""
        return line or f"exit code {code}"

    def request_stop(self) -> None:
        self.send(Stop())

    def stop(self, timeout: float = 30.0) -> None:
        """Have the worker save its work and exit within so many seconds, or kill it.

        Not to be called on the thread that calls `on_message`.
        """
        self.request_stop()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """Kill the process, if it has not ended, and release the handle; by any thread, also twice.

        Not to be called on the thread that calls `on_message`.
        """
        _check_may_block()
        self._process.kill()
        failed = self._process.wait() > 0
        self._outbox.put(None)
        for thread in self._threads:
            thread.join()
        with self._releasing:
            if failed:
                self._read_last_line()
            self._connection.close()
            self._stderr.close()

    def _read_last_line(self) -> str:
        if self._last_line is None:
            self._stderr.seek(self._begin)
            lines = self._stderr.read().decode(errors="replace").strip().splitlines()
            self._last_line = lines[-1][:STDERR_TAIL] if lines else ""
        return self._last_line

    def _write(self) -> None:
        # The end of the worker is reported by the thread that receives.
        with suppress(OSError):
            for frame in iter(self._outbox.get, None):
                self._connection.send_bytes(frame)

    def _receive(self) -> None:
        try:
            while (frame := self._next_frame()) is not None:
                self._on_message(decode(frame, self._messages.replies))
        except Exception as error:
            # Otherwise the process would run on, unheeded and without an end.
            _log.exception("a worker's message could not be handled")
            why = error if isinstance(error, MessageError) else type(error).__name__
            self._failure = f"sent a message that could not be handled ({why})"
            self._process.kill()
        self._on_message(None)

    def _next_frame(self) -> bytes | None:
        try:
            return self._connection.recv_bytes()
        # A killed worker may leave half a frame.
        except (EOFError, OSError):
            return None


class AsyncWorker:
    """A worker process for an event loop, which never waits for it.

    A thread of its own starts the process, waits for its end and kills it: to start one can take
    half a minute, while the fork server imports its modules.

    Args:
        start: returns the process; called on the thread, with a function for its messages.
        on_message: called on the loop with each message.
        on_end: called on the loop with the reason, when the process has ended or cannot be
            started; not after `kill`.
    """

    def __init__(
        self,
        start: Callable[[OnMessage], WorkerProcess],
        on_message: Callable[[Any], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._start, self._on_message, self._on_end = start, on_message, on_end
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._process: WorkerProcess | None = None
        self._unsent: list[object] = []
        self._has_ended = threading.Event()
        self._is_killed = False
        self._closed: asyncio.Future[None] = self._loop.create_future()
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def pid(self) -> int | None:
        """Process id, None before the process has started."""
        return None if self._process is None else self._process.pid

    def send(self, message: object) -> None:
        """Send a message, once the process has started."""
        with self._lock:
            if self._process is None:
                self._unsent.append(message)
            else:
                self._process.send(message)

    def kill(self) -> None:
        """Have the process killed; no message comes from now on."""
        self._is_killed = True
        self._has_ended.set()

    async def closed(self) -> None:
        """Wait until the process is gone."""
        await asyncio.shield(self._closed)

    def _run(self) -> None:
        try:
            self._call(self._on_end, self._exit_reason())
        finally:
            self._call(self._closed.set_result, None, always=True)

    def _exit_reason(self) -> str:
        try:
            process = self._start(self._receive)
        except (OSError, RuntimeError) as error:
            # A `RuntimeError`: the system has no thread left.
            why = error.strerror if isinstance(error, OSError) else error
            return f"it cannot be started ({why})"
        with self._lock:
            self._process = process
            for message in self._unsent:
                process.send(message)
            self._unsent.clear()
        try:
            self._has_ended.wait()
            return "it was killed" if self._is_killed else process.exit_reason()
        finally:
            process.kill()

    def _receive(self, message: Any) -> None:
        if message is None:
            self._has_ended.set()
        else:
            self._call(self._on_message, message)

    def _call(self, function: Callable[[Any], object], value: object, always: bool = False) -> None:
        def call() -> None:
            if always or not self._is_killed:
                function(value)

        # The loop may be closed by now.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)


class LocalLauncher:
    """Starts workers as processes of this machine.

    Args:
        workers: by name.
        lock: descriptor of a lock that they hold too, or None.
    """

    def __init__(self, workers: Mapping[str, WorkerSpec], *, lock: int | None = None) -> None:
        self._workers, self._lock = dict(workers), lock

    def start(self, name: str, on_message: OnMessage) -> WorkerProcess:
        return start_worker(self._workers[name], on_message, lock=self._lock)

    def close(self) -> None:
        """Nothing but the workers was started."""


def start_worker(
    worker: WorkerSpec, on_message: OnMessage, *, lock: int | None = None
) -> WorkerProcess:
    """Start a worker on this machine; arguments as of `WorkerProcess`."""
    return WorkerProcess(
        worker.module,
        worker.argument,
        on_message,
        worker.messages,
        lock=lock,
        log=worker.log,
        device=worker.device,
        num_devices=worker.num_devices,
        fork=worker.fork,
        niceness=worker.niceness,
    )


def start_node(
    settings: NodeSettings,
    on_message: OnMessage,
    *,
    log: Path | None = None,
    module: str = NODE_WORKER,
) -> WorkerProcess:
    """Start a node's worker on this machine."""
    return start_worker(node_worker(settings, log, module), on_message)


def visible_gpus(
    device: str, environment: Mapping[str, str], num_devices: int = 1
) -> dict[str, str]:
    """Return the variable that shows a worker the GPUs that it computes on, from `device` on.

    A process that sees others as well may open a context on the first of them, half a gigabyte that
    no profile counts. Empty for a CPU, and for "cuda" without a number: such as Ray's nodes, it has
    GPUs chosen for it.
    """
    number = re.fullmatch(r"cuda:(\d+)", device)
    if number is None:
        return {}
    first = int(number[1])
    last = first + num_devices
    seen = environment.get("CUDA_VISIBLE_DEVICES")
    names = [str(one) for one in range(last)] if seen is None else seen.split(",")
    chosen = [name.strip() for name in names[first:last]]
    return {"CUDA_VISIBLE_DEVICES": ",".join(chosen)} if len(chosen) == num_devices else {}


def gpu_allocator(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of torch's allocator for a worker on a GPU, unless the user has set any.

    Widths of passes change all the time; segments that cannot grow leave the memory in pieces.
    """
    if not device.startswith("cuda") or any(name in environment for name in _ALLOCATOR_SETTINGS):
        return {}
    return {_ALLOCATOR_SETTINGS[0]: "expandable_segments:True"}


def device_environment(
    device: str, num_devices: int, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables of a worker on devices, from `device` on, unlike its parent's."""
    return visible_gpus(device, environment, num_devices) | gpu_allocator(device, environment)


def argument_in_child(
    argument: Any, device: str, num_devices: int, environment: Mapping[str, str]
) -> Any:
    """Return a worker's argument, with `device` as the worker knows it if that is a GPU."""
    if device == "cpu":
        return argument
    return {**argument, "device": device_in_child(device, environment, num_devices)}


def device_in_child(device: str, environment: Mapping[str, str], num_devices: int = 1) -> str:
    """Return the name by which a worker started with `device` knows it."""
    return "cuda" if visible_gpus(device, environment, num_devices) else device


def open_log(log: Path) -> IO[bytes]:
    """Open a log to append to; one that is long becomes the former log first."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > _MAX_LOG_BYTES:
            log.replace(log.with_name(f"{log.name}.1"))
    return log.open("a+b")


def _check_may_block() -> None:
    """Check that this is not the thread of an event loop, which all requests would wait for."""
    assert asyncio._get_running_loop() is None, "use AsyncWorker on an event loop"


def _has_fork_server() -> bool:
    return _fork_server_of == os.getpid()


def _start_interpreter(
    module: str,
    channel: int,
    stderr: int,
    lock: int | None,
    environment: dict[str, str],
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        # -P: a file of the user's in the current folder must not shadow a module.
        [sys.executable, "-P", "-c", _FRESH, module, str(channel)],
        stdin=subprocess.DEVNULL,
        stdout=stderr,
        stderr=stderr,
        pass_fds=(channel,) if lock is None else (channel, lock),
        env=environment,
    )


class _ForkedProcess:
    """A child of the fork server, with the interface of `subprocess.Popen`."""

    def __init__(
        self,
        module: str,
        channel: int,
        stderr: int,
        lock: int | None,
        environment: dict[str, str],
    ) -> None:
        descriptors = [_Descriptor(one) for one in (channel, stderr, lock) if one is not None]
        self._process = _FORKING.Process(
            target=_run_forked,
            args=(module, descriptors, environment, os.getpid()),
            daemon=True,
        )
        _start_forked(self._process)
        assert self._process.pid is not None
        self.pid = self._process.pid
        # The library takes all workers of a fork server that was killed for ended ones.
        self._pidfd = _open_pidfd(self.pid)
        # At the end of this process, a thread may still use it.
        weakref.finalize(self, os.close, self._pidfd).atexit = False

    def poll(self) -> int | None:
        return self.wait() if connection.wait([self._pidfd], 0) else None

    def wait(self, timeout: float | None = None) -> int:
        if not connection.wait([self._pidfd], timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        # The fork server reports the code a moment after the end, unless it has ended itself.
        connection.wait([self._process.sentinel], _EXIT_CODE_SECONDS)
        with _fork_lock:
            code = self._process.exitcode
        return _UNKNOWN_CODE if code is None else code

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


StartProcess = Callable[
    [str, int, int, int | None, dict[str, str]], "subprocess.Popen[bytes] | _ForkedProcess"
]
"""Starts a worker: module, descriptors of its channel, its standard error and a lock, or None, and
its environment -> its process."""


def _open_pidfd(pid: int) -> int:
    """Return a descriptor of a process that can be waited for; one that is ready if it is gone."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return os.open(os.devnull, os.O_RDONLY)


class _Descriptor:
    """A file descriptor that a forked worker inherits, where it is a plain number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _detach, (reduction.DupFd(self._number),)


def _detach(duplicate: Any) -> int:
    number: int = duplicate.detach()
    return number


def _run_forked(
    module: str, descriptors: list[int], environment: dict[str, str], parent: int
) -> None:
    # A lock, if there is one, stays open.
    channel, stderr, *_ = descriptors
    for stream in (1, 2):
        os.dup2(stderr, stream)
    os.close(stderr)
    os.environ.clear()
    os.environ.update(environment)
    setproctitle(f"auctune -m {module} for {parent}")
    run_worker(module, Connection(channel))
