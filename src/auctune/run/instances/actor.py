"""An instance's actor: calls the coordinator, and has a worker speak to it.

A plain class, made an actor of Ray by the bridge. The worker is a process of its own, as on one
machine; it ends with its link to the coordinator, and with the actor.
"""

import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from auctune.run.instances.calling import call

# As of `auctune.run.spot.launcher`, with a second tether: to the actor.
_WORKER = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
from auctune.run.tether import tether
tether(int(sys.argv[1]))
tether(int(sys.argv[3]))
from auctune.run.spot.worker import main
main()
"""


@dataclass(frozen=True, slots=True)
class Call:
    """Whom a worker calls, and what it is started with.

    Attributes:
        host, port, token: see `auctune.run.instances.calling`.
        settings: of the worker, as its JSON.
        log: file to which its standard error is added.
    """

    host: str
    port: int
    token: str
    settings: str
    log: str


class InstanceActor:
    """One instance."""

    def live(self, told: Call) -> str:
        """Have a worker at work until it ends; how it did."""
        try:
            stream = call(told.host, told.port, told.token)
        except OSError as error:
            return f"does not reach the coordinator ({error.strerror or error})"
        ours, theirs = socket.socketpair()
        with ours, stream, theirs, Path(told.log).open("ab") as log:
            worker = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-c", _WORKER),
                    *(str(stream.fileno()), told.settings, str(theirs.fileno())),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(stream.fileno(), theirs.fileno()),
            )
            stream.close()
            theirs.close()
            code = worker.wait()
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def answer(self) -> bool:
        """That it is there."""
        return True
