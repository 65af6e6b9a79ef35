"""A node process as the market holds it: started, told, listened to, and stopped."""

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO

from auctune.domain import AuctuneError
from auctune.run.executor.messages import Message, NodeSettings, TaskOrder, encode, order_record

_WORKER = "auctune.run.executor.worker"
_STOP_SECONDS = 30.0
_LAST_WORDS = 300


class NodeError(AuctuneError):
    """A node process ended, or could not do what it was told."""


class NodeProcess:
    """A child process that trains.

    Args:
        node: the node's id.
        settings: what it loads and how it computes.
        inbox: where its messages go as (node, message); (node, None) once it has ended, last.
        lock: descriptor of the market's lock, to be held by the child too; none: there is no lock.
        log: file to which its standard error is added; none: it is kept only while it runs.
    """

    def __init__(
        self,
        node: str,
        settings: NodeSettings,
        inbox: "queue.Queue[tuple[str, Message | None]]",
        lock: int | None = None,
        log: Path | None = None,
    ) -> None:
        self.node = node
        self._inbox = inbox
        # Held as long as the process, and closed with it.
        self._errors: IO[bytes] = tempfile.TemporaryFile() if log is None else log.open("a+b")  # noqa: SIM115
        self._begin = self._errors.seek(0, os.SEEK_END)
        self._process = subprocess.Popen(
            # -P: a file of the user's in the current folder is no module of ours.
            [sys.executable, "-P", "-m", _WORKER, json.dumps(asdict(settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            pass_fds=() if lock is None else (lock,),
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """Of the child."""
        return self._process.pid

    def measure(self, effort: str) -> None:
        """Ask for a profile."""
        self._tell({"do": "measure", "effort": effort})

    def train(self, slot: int, orders: Sequence[TaskOrder]) -> None:
        """Ask for a slot's work."""
        self._tell({"do": "train", "slot": slot, "tasks": [order_record(o) for o in orders]})

    def ending(self) -> str:
        """How a process that has ended did so: its signal, or its last line on standard error."""
        code = self._process.wait()
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        self._errors.seek(self._begin)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:_LAST_WORDS] if lines else f"exit code {code}"

    def ask_to_stop(self) -> None:
        """Let it put its tasks away and end; does not wait for it."""
        self._tell({"do": "stop"})

    def stop(self) -> None:
        """See that it ends: it puts its tasks away first, but is killed if that takes too long."""
        self.ask_to_stop()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            # What could not be told to a node that is gone needs not be told.
            self._process.stdin = None
        self._reader.join()
        self._errors.close()

    def _tell(self, message: Message) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(encode(message))
            self._process.stdin.flush()
        except BrokenPipeError:
            # It has ended, which the inbox says too.
            return

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # A killed process may leave half a line.
            if line.endswith(b"\n"):
                self._inbox.put((self.node, json.loads(line)))
        self._process.stdout.close()
        self._inbox.put((self.node, None))
