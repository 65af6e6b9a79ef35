"""A child process as its parent holds it: started, told, listened to, and stopped."""

import json
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from auctune.run.child.messages import Hear, Message, encode
from auctune.run.child.nursed import ADDRESS, PROGRAMS, NoNurseryError, NursedProcess
from auctune.run.child.process_handle import ProcessHandle, Streams, start_fresh
from auctune.run.unix_time import clock_environment

_LAST_WORDS = 300


class ChildProcess:
    """A Python program that speaks JSON over its standard input and output.

    It ends by itself when its parent does, whose end of the pipe closes then.

    Args:
        program: arguments for the interpreter.
        argument: the program's own, as one JSON text.
        hear: called on a thread of this process.
        lock: descriptor of a lock to be held by the child too; none: there is no lock.
        log: file to which its standard error is added; none: it is kept only while it runs.
        environment: what differs from this process's own.
        device: that the child computes on, as torch names it. On a GPU it is an interpreter of its
            own, as CUDA does not survive a fork, and it sees that GPU alone.

    Raises:
        OSError: if it cannot be started.
    """

    def __init__(
        self,
        program: Sequence[str],
        argument: object,
        hear: Hear,
        *,
        lock: int | None = None,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
        device: str = "cpu",
    ) -> None:
        self._hear = hear
        # Held as long as the process, and closed with it.
        self._errors: IO[bytes] = tempfile.TemporaryFile() if log is None else log.open("a+b")  # noqa: SIM115
        self._begin = self._errors.seek(0, os.SEEK_END)
        theirs_in, self._stdin = _pipe()
        self._stdout, theirs_out = _pipe()
        try:
            with theirs_in, theirs_out:
                self._process = _start(
                    program,
                    json.dumps(argument),
                    Streams(
                        theirs_in.fileno(),
                        theirs_out.fileno(),
                        self._errors.fileno(),
                        () if lock is None else (lock,),
                    ),
                    {
                        **os.environ,
                        **clock_environment(),
                        **(environment or {}),
                        **visible_gpu(device, os.environ),
                    },
                    may_fork=device == "cpu",
                )
        except OSError:
            for ours in (self._stdin, self._stdout, self._errors):
                ours.close()
            raise
        # A child that is frozen reads nothing; what it is told must not hold up its parent.
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._listen, self._write)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._process.pid

    def tell(self, message: Message) -> None:
        """Send a message, without waiting for it to be read; one that has ended gets none."""
        self._outbox.put(encode(message))

    def ending(self) -> str:
        """How a process that has ended did so: its signal, or its last line on standard error."""
        code = self._process.wait()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        self._errors.seek(self._begin)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:_LAST_WORDS] if lines else f"exit code {code}"

    def ask_to_stop(self) -> None:
        """Let it put its work away and end; does not wait for it."""
        self.tell({"do": "stop"})

    def stop(self, seconds: float = 30.0) -> None:
        """See that it ends: it puts its work away first, but is killed if that takes too long.

        Not to be called on the thread that tells what it says.
        """
        self.ask_to_stop()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()

    def kill(self) -> None:
        """End it at once, if it has not ended, and let go of it."""
        self._process.kill()
        self._process.wait()
        self._outbox.put(None)
        for thread in self._threads:
            thread.join()
        self._errors.close()

    def _write(self) -> None:
        # That it has ended is heard as well.
        with suppress(BrokenPipeError), self._stdin as stdin:
            for line in iter(self._outbox.get, None):
                stdin.write(line)
                stdin.flush()

    def _listen(self) -> None:
        with self._stdout as stdout:
            for line in stdout:
                # A killed process may leave half a line.
                if line.endswith(b"\n"):
                    self._hear(json.loads(line))
        self._hear(None)


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")


def visible_gpu(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that shows a child the one GPU that it computes on.

    A process that sees others as well may open a context on the first of them, half a gigabyte in
    nobody's profile. Empty for a CPU, and for "cuda" without a number: who says that alone, such as
    Ray's nodes, has a GPU chosen for it.
    """
    number = re.fullmatch(r"cuda:(\d+)", device)
    if number is None:
        return {}
    seen = environment.get("CUDA_VISIBLE_DEVICES")
    if seen is None:
        return {"CUDA_VISIBLE_DEVICES": number[1]}
    names, index = seen.split(","), int(number[1])
    return {"CUDA_VISIBLE_DEVICES": names[index].strip()} if index < len(names) else {}


def device_in_child(device: str, environment: Mapping[str, str]) -> str:
    """Return the name by which a child started with `device` knows it."""
    return "cuda" if visible_gpu(device, environment) else device


def _start(
    program: Sequence[str],
    argument: str,
    streams: Streams,
    environment: Mapping[str, str],
    *,
    may_fork: bool,
) -> ProcessHandle:
    """By the nursery if there is one that can, otherwise as an interpreter of its own."""
    address = environment.get(ADDRESS) if may_fork else None
    if address is not None and program[0] == "-m" and program[1] in PROGRAMS:
        with suppress(NoNurseryError):
            return NursedProcess(address, program[1], argument, streams, environment)
    return start_fresh(program, argument, streams, environment)
