"""How a service is asked to stop: by SIGTERM, or SIGINT (Ctrl-C).

The first one lets requests end and everything be put away; the second one waits for no request.
"""

import asyncio
import contextlib
import signal
from collections.abc import Iterator

import uvicorn

from auctune.service.api.request_head import LimitedServer

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StoppableServer(LimitedServer):
    """A server that leaves signals to its owner.

    uvicorn's own would end the process by the signal that it got, before anything is put away.
    """

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class Stop:
    """A wish to stop, from the first moment of the running loop on."""

    def __init__(self) -> None:
        self._server: uvicorn.Server | None = None
        self._asked = 0
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._ask)

    def of(self, server: uvicorn.Server) -> None:
        """Whom to tell; at once, if it was asked for already."""
        self._server = server
        self._tell()

    def _ask(self) -> None:
        self._asked += 1
        self._tell()

    def _tell(self) -> None:
        if self._server is not None and self._asked > 0:
            self._server.should_exit = True
            self._server.force_exit = self._asked > 1
