"""Actor of a node: starts the node's worker beside itself, and carries its messages.

A plain class, made an actor of Ray by the agent.
"""

import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from auctune.engine.runtime.channel import Message
from auctune.engine.runtime.local import WorkerProcess, start_node
from auctune.engine.runtime.messages import NodeSettings

# A call waits so long for a message of the worker.
_WAIT_SECONDS = 0.2


class NodeActor:
    """Holds the worker of one node, and kills it if the agent makes no calls any more.

    Args:
        settings: of the node.
        module: of its worker.
        cwd: folder in which paths are relative.
        log: file for the worker's standard error, or None.
        lease_seconds: without a call after which the worker is killed.
    """

    def __init__(
        self, settings: NodeSettings, module: str, cwd: str, log: Path | None, lease_seconds: float
    ) -> None:
        self._changed = threading.Condition()
        self._messages: list[Message] = []
        self._exit_reason: str | None = None
        self._lease_seconds = lease_seconds
        self._called_at = time.monotonic()
        self._worker: WorkerProcess | None = None
        with suppress(OSError):
            os.chdir(cwd)
        # Messages of the worker come after the one that reports its start.
        with self._changed:
            try:
                self._worker = start_node(settings, self._on_message, log=log, module=module)
            except OSError as error:
                self._exit_reason = f"cannot be started ({error.strerror})"
            else:
                pid, host = self._worker.pid, socket.gethostname()
                self._messages.append({"kind": "started", "pid": pid, "host": host})
        threading.Thread(target=self._watch, daemon=True).start()

    def exchange(self, requests: Sequence[Message]) -> tuple[list[Message], str | None]:
        """Send requests to the worker; return its messages since the last call.

        Waits a moment if there are none. The second value is how the worker exited, or None while
        it runs.
        """
        with self._changed:
            self._called_at = time.monotonic()
            if self._worker is not None:
                for request in requests:
                    self._worker.send(request)
            self._changed.wait_for(lambda: self._messages or self._exit_reason, _WAIT_SECONDS)
            messages, self._messages = self._messages, []
            return messages, self._exit_reason

    def _on_message(self, message: Message | None) -> None:
        if message is None:
            assert self._worker is not None
            reason = self._worker.exit_reason()
        with self._changed:
            if message is not None:
                self._messages.append(message)
            elif self._exit_reason is None:
                self._exit_reason = reason
            self._changed.notify_all()

    def _watch(self) -> None:
        """Kill the worker once the agent has made no call for the time of the lease."""
        with self._changed:
            while self._exit_reason is None:
                remaining = self._called_at + self._lease_seconds - time.monotonic()
                if remaining <= 0:
                    self._exit_reason = "was left alone by its market"
                    break
                self._changed.wait(remaining)
        if self._worker is not None:
            self._worker.kill()
