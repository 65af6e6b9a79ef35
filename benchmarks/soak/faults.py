"""What breaks: the service, Ray's nodes and head, processes of jobs, a vendor; and who drains."""

import os
import random
import signal
import time

from soak.fault import Cure
from soak.stage import Stage
from support.market_runs import descendants
from support.processes import kill
from support.service_process import command_line


class ServiceKilled:
    """kill -9 of the service, and a new start soon after."""

    name, weight = "service killed", 2.0

    def strike(self, stage: Stage, draw: random.Random) -> Cure | None:
        """See `Fault`."""
        stage.service.kill()
        time.sleep(draw.uniform(0, 4))
        stage.start()
        return None


class ServiceStopped:
    """SIGTERM, and a new start."""

    name, weight = "service stopped", 1.0

    def strike(self, stage: Stage, draw: random.Random) -> Cure | None:
        """See `Fault`."""
        stage.stop()
        stage.start()
        return None


class NodeKilled:
    """A Ray node without power, for longer or shorter than it may be missing."""

    name, weight = "Ray node killed", 3.0

    def __init__(self, zone: str) -> None:
        self._zone = zone

    def strike(self, stage: Stage, draw: random.Random) -> Cure | None:
        """See `Fault`."""
        if len(stage.up) < 2:
            return None
        node = draw.choice(stage.up)
        stage.down.add(node)
        stage.cluster.tell("kill", node)

        def power() -> None:
            if node in stage.down:
                stage.cluster.tell("start", node)
                stage.down.discard(node)

        return Cure(draw.uniform(2, 100), power)


class HeadRestarted:
    """A new head that knows nothing of before: all Ray nodes begin anew."""

    name, weight = "Ray head restarted", 1.0

    def strike(self, stage: Stage, draw: random.Random) -> Cure | None:
        """See `Fault`."""
        stage.cluster.tell("head")
        stage.down.clear()
        return None


class NodeProcessKilled:
    """kill -9 of the process of a node of the market; its Ray node stays."""

    name, weight = "node process killed", 1.5

    def strike(self, stage: Stage, draw: random.Random) -> Cure | None:
        """See `Fault`."""
        # They are the cluster's children, and look after themselves there.
        found = _children(stage.cluster.pid, b"auctune.run.workers.node")
        if found:
            kill(draw.choice(found))
        return None


class NodeDrained:
    """An operator lets a node go, and has it back later."""

    name, weight = "node drained", 1.0

    def __init__(self, zone: str) -> None:
        self._zone = zone

    def strike(self, stage: Stage, draw: random.Random) -> Cure | None:
        """See `Fault`."""
        free = [node for node in stage.up if node not in stage.drained]
        if len(free) < 2:
            return None
        node = draw.choice(free)
        stage.drained.add(node)
        place = f"/v1/zones/{self._zone}/nodes/{node}"
        stage.operate(f"{place}/drain")

        def give_back() -> None:
            # A service that is about to be killed may not answer; it is asked until it does.
            while stage.operate(f"{place}/return") is None:
                stage.look()
                time.sleep(0.5)
            stage.drained.discard(node)

        return Cure(draw.uniform(5, 40), give_back)


class ChildKilled:
    """kill -9 of a process that the service has for its jobs.

    Args:
        called: for people.
        program: what stands in its command line.
    """

    weight = 1.0

    def __init__(self, called: str, program: bytes) -> None:
        self.name = f"{called} killed"
        self._program = program

    def strike(self, stage: Stage, draw: random.Random) -> Cure | None:
        """See `Fault`."""
        found = _children(stage.service.pid, self._program)
        if found:
            kill(draw.choice(found))
        return None


class VendorKilled:
    """The honest vendor dies, and comes back."""

    name, weight = "vendor killed", 1.0

    def strike(self, stage: Stage, draw: random.Random) -> Cure | None:
        """See `Fault`."""
        if not stage.vendor.is_there:
            return None
        stage.vendor.kill()
        return Cure(draw.uniform(2, 30), stage.vendor.restart)


class VendorFrozen:
    """The honest vendor says nothing for a while."""

    name, weight = "vendor frozen", 1.0

    def strike(self, stage: Stage, draw: random.Random) -> Cure | None:
        """See `Fault`."""
        if not stage.vendor.is_there:
            return None
        stage.vendor.freeze()

        def thaw() -> None:
            if stage.vendor.is_there:
                stage.vendor.thaw()

        return Cure(draw.uniform(2, 20), thaw)


class ServiceFrozen:
    """The service is held up for a while, as by a machine with much else to do."""

    name, weight = "service held up", 0.7

    def strike(self, stage: Stage, draw: random.Random) -> Cure | None:
        """See `Fault`."""
        pid = stage.service.pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(draw.uniform(1, 8))
        os.kill(pid, signal.SIGCONT)
        return None


COMMON = (
    ServiceKilled(),
    ServiceStopped(),
    ServiceFrozen(),
    HeadRestarted(),
    VendorKilled(),
    VendorFrozen(),
)


def _children(pid: int, program: bytes) -> list[int]:
    return [one for one in descendants(pid) if program in command_line(one)]
