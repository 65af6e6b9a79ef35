"""The parent as its child process sees it: what it wants, and where answers go.

If the parent goes away, its end of the pipe closes and the child ends at once: all that counts is
on disk. While it lives the child says so every second, from a thread of its own, whatever it does.
"""

import json
import os
import queue
import signal
import sys
import threading
from types import TracebackType
from typing import NoReturn

from auctune.run.child.messages import Message, encode

_ALIVE_SECONDS = 1.0


class Parent:
    """The other end of the pipes; to be made first of all in a child process.

    Attributes:
        orders: what it wants, "stop" included.
        stop: set as soon as it wants the child to end.
    """

    def __init__(self) -> None:
        # Ctrl-C reaches all processes of a terminal; the parent tells its children what to do.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        # Whatever a library prints must not end up among the messages.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        # At the end of an interpreter a thread that blocks on standard input may hang or complain.
        sys.excepthook = _crash
        self._lock = threading.Lock()
        self.orders: queue.Queue[Message] = queue.Queue()
        self.stop = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._say_alive, daemon=True).start()

    def say(self, kind: str, **values: object) -> None:
        """Send a message."""
        try:
            with self._lock:
                self._out.write(encode({"kind": kind, **values}))
                self._out.flush()
        except BrokenPipeError:
            os._exit(1)

    def leave(self, code: int = 0) -> NoReturn:
        """End this process; all that was said is on its way."""
        sys.stderr.flush()
        os._exit(code)

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            message: Message = json.loads(line)
            if message["do"] == "stop":
                self.stop.set()
            self.orders.put(message)
        os._exit(1)

    def _say_alive(self) -> None:
        while not self.stop.wait(_ALIVE_SECONDS):
            self.say("alive")


def _crash(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    sys.__excepthook__(kind, error, traceback)
    sys.stderr.flush()
    os._exit(1)
