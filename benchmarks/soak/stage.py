"""What can be broken: the service, its cluster, its vendor."""

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence

from soak.site import NODES
from soak.transport import Answer, ask
from support.ray_nodes import RayNodes
from support.service_process import ServiceProcess
from support.vendor_process import VendorProcess

# What a machine with much else to do may take for it.
_STOP_SECONDS = 150.0
_TRIES = 3


class Stage:
    """All that runs, as whoever breaks it finds it.

    Args:
        service: that is soaked.
        cluster: its nodes.
        vendor: the honest one.

    Attributes:
        down: Ray nodes without power.
        drained: nodes that the operator has let go.
        start_seconds: of each life of the service.
        ended: how often the service ended by itself.
        wrong: what went wrong on the way.
    """

    def __init__(self, service: ServiceProcess, cluster: RayNodes, vendor: VendorProcess) -> None:
        self.service = service
        self.cluster = cluster
        self.vendor = vendor
        self.down: set[str] = set()
        self.drained: set[str] = set()
        self.start_seconds: list[float] = []
        self.wrong: list[str] = []
        self.over = threading.Event()
        self.struck: Counter[str] = Counter()

    @property
    def up(self) -> Sequence[str]:
        """Ray nodes with power."""
        return [node for node in NODES if node not in self.down]

    def start(self) -> None:
        """Begin a life of the service; one that does not serve is given up for another."""
        for _ in range(_TRIES):
            try:
                self.start_seconds.append(self.service.start())
            except AssertionError as error:
                self.wrong.append(f"{_now()}: the service did not start: {error}")
                self.service.kill()
            else:
                return
        raise RuntimeError("the service does not start any more")

    def stop(self) -> None:
        """Ask the service to end, as an operator does."""
        try:
            code = self.service.stop(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"{_now()}: the service did not end when it was asked to")
            self.service.kill()
            return
        if code != 0:
            self.wrong.append(f"{_now()}: the service ended with {code} when it was asked to end")

    def look(self) -> None:
        """Start the service again if it has ended by itself, which it should not."""
        if self.service.has_ended:
            self.wrong.append(f"{_now()}: the service ended by itself")
            self.start()

    def operate(self, path: str) -> Answer | None:
        """A request of the operator's without a body; none: nobody answered."""
        return ask(self.service.address, self.service.key, "POST", path)


def _now() -> str:
    return time.strftime("%H:%M:%S")
