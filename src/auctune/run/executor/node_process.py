"""A node process as the market holds it: started, told, listened to, and stopped."""

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict
from typing import IO

from auctune.domain import AuctuneError
from auctune.run.executor.messages import Message, NodeSettings, TaskOrder, encode, order_record

_STOP_SECONDS = 30.0
_LAST_WORDS = 2000


class NodeError(AuctuneError):
    """A node process ended, or could not do what it was told."""


class NodeProcess:
    """A child process that trains.

    Args:
        node: the node's id.
        settings: what it loads and how it computes.
        inbox: where its messages go as (node, message); (node, None) when it has ended.
    """

    def __init__(
        self,
        node: str,
        settings: NodeSettings,
        inbox: "queue.Queue[tuple[str, Message | None]]",
    ) -> None:
        self.node = node
        self._inbox = inbox
        # Held as long as the process, and closed with it.
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "auctune.run.executor.worker", json.dumps(asdict(settings))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
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

    def last_words(self) -> str:
        """The end of what it wrote on standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-_LAST_WORDS:].strip()

    def stop(self) -> None:
        """Let it put its tasks away, then end; kill it if it takes too long."""
        if self._process.poll() is None:
            try:
                self._tell({"do": "stop"})
                self._process.wait(_STOP_SECONDS)
            except (NodeError, subprocess.TimeoutExpired):
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
        except (BrokenPipeError, ValueError):
            raise NodeError(f"node {self.node} has ended: {self.last_words()}") from None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # A killed process may leave half a line.
            if line.endswith(b"\n"):
                self._inbox.put((self.node, json.loads(line)))
        self._process.stdout.close()
        self._inbox.put((self.node, None))
