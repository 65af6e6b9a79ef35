"""Fault injection: what can be broken, and the injector that breaks and recovers it at random."""

import heapq
import itertools
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from auctune.engine.runtime.nodes import NODE_WORKER
from soak.environment import Environment
from support.market_runs import descendants
from support.processes import kill
from support.service_process import command_line

AUCTION_ZONE = "owned"
# On a busy machine, nodes need half a minute from their start to their first slot.
_MEAN_SECONDS_BETWEEN = 40.0
_MIN_SECONDS_BETWEEN = 4.0
_POLL_SECONDS = 0.2


class NotInjectedError(Exception):
    """A fault has found nothing to break."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """What recovers from a fault, some seconds after its injection."""

    after_seconds: float
    apply: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault.

    Attributes:
        name: for the report.
        weight: relative frequency.
        inject: injects it; returns its recovery, or `None` if it needs none. Raises
            `NotInjectedError` if there is nothing to break.
    """

    name: str
    weight: float
    inject: Callable[[Environment, random.Random], Recovery | None]


class FaultInjector:
    """Injects faults at random moments, and applies their recoveries.

    Args:
        environment: to inject them into.
        faults: to draw from.
        rng: of moments and faults.
        on_fault: called with the name of each fault before it is injected.

    Faults that were injected and those that found nothing to break are counted by the environment.
    """

    def __init__(
        self,
        environment: Environment,
        faults: Sequence[Fault],
        rng: random.Random,
        on_fault: Callable[[str], None],
    ) -> None:
        self._environment = environment
        self._faults = faults
        self._rng = rng
        self._on_fault = on_fault
        self._numbers = itertools.count()
        self._recoveries: list[tuple[float, int, Callable[[], None]]] = []

    def run(self, until: float) -> None:
        """Inject faults until a time of the monotonic clock."""
        due = time.monotonic() + self._draw_pause()
        while (now := time.monotonic()) < until:
            self._environment.check_service()
            self._recover(now)
            if now >= due:
                self._inject()
                due = time.monotonic() + self._draw_pause()
            time.sleep(_POLL_SECONDS)

    def recover_all(self) -> None:
        """Apply all pending recoveries now."""
        self._environment.check_service()
        self._recover(float("inf"))

    def _inject(self) -> None:
        fault = self._rng.choices(self._faults, [fault.weight for fault in self._faults])[0]
        self._on_fault(fault.name)
        try:
            recovery = fault.inject(self._environment, self._rng)
        except NotInjectedError:
            self._environment.missed_fault_counts[fault.name] += 1
            return
        self._environment.fault_counts[fault.name] += 1
        if recovery is not None:
            at = time.monotonic() + recovery.after_seconds
            heapq.heappush(self._recoveries, (at, next(self._numbers), recovery.apply))

    def _recover(self, now: float) -> None:
        while self._recoveries and self._recoveries[0][0] <= now:
            heapq.heappop(self._recoveries)[2]()

    def _draw_pause(self) -> float:
        mean = _MEAN_SECONDS_BETWEEN - _MIN_SECONDS_BETWEEN
        return _MIN_SECONDS_BETWEEN + self._rng.expovariate(1 / mean)


def _kill_service(environment: Environment, rng: random.Random) -> None:
    environment.service.kill()
    time.sleep(rng.uniform(0, 4))
    environment.start_service()


def _restart_service(environment: Environment, _rng: random.Random) -> None:
    environment.stop_service()
    environment.start_service()


def _pause_service(environment: Environment, rng: random.Random) -> None:
    pid = environment.service.pid
    os.kill(pid, signal.SIGSTOP)
    time.sleep(rng.uniform(1, 8))
    os.kill(pid, signal.SIGCONT)


def _restart_head(environment: Environment, _rng: random.Random) -> None:
    # The new head has no state, so all Ray nodes restart with it.
    environment.cluster.tell("head")
    environment.nodes_down.clear()


def _kill_node(environment: Environment, rng: random.Random) -> Recovery:
    """Kill a Ray node for a shorter or longer time than `missing_seconds` of the launcher."""
    if len(environment.nodes_up) < 2:
        raise NotInjectedError
    node = rng.choice(environment.nodes_up)
    environment.nodes_down.add(node)
    environment.cluster.tell("kill", node)

    def start() -> None:
        # A restart of the head has started it, too.
        if node in environment.nodes_down:
            environment.cluster.tell("start", node)
            environment.nodes_down.discard(node)

    return Recovery(rng.uniform(2, 100), start)


def _drain_node(environment: Environment, rng: random.Random) -> Recovery:
    candidates = [node for node in environment.nodes_up if node not in environment.nodes_drained]
    if len(candidates) < 2:
        raise NotInjectedError
    node = rng.choice(candidates)
    environment.nodes_drained.add(node)
    route = f"/v1/zones/{AUCTION_ZONE}/nodes/{node}"
    environment.send("POST", f"{route}/drain")

    def return_node() -> None:
        # A service that is about to be killed may not respond.
        while environment.send("POST", f"{route}/return") is None:
            environment.check_service()
            time.sleep(0.5)
        environment.nodes_drained.discard(node)

    return Recovery(rng.uniform(5, 40), return_node)


def _kill_node_process(environment: Environment, rng: random.Random) -> None:
    # Node processes are descendants of the cluster, not of the service.
    _kill_child(environment.cluster.pid, NODE_WORKER, rng)


def _kill_vendor(environment: Environment, rng: random.Random) -> Recovery:
    vendor = environment.vendor
    if not vendor.is_there:
        raise NotInjectedError
    vendor.kill()
    return Recovery(rng.uniform(2, 30), vendor.restart)


def _pause_vendor(environment: Environment, rng: random.Random) -> Recovery:
    vendor = environment.vendor
    if not vendor.is_there:
        raise NotInjectedError
    vendor.freeze()

    def resume() -> None:
        if vendor.is_there:
            vendor.thaw()

    return Recovery(rng.uniform(2, 20), resume)


def child_killed(process: str, module: str) -> Fault:
    """Return the SIGKILL of a child process of the service.

    Args:
        process: name for the report.
        module: of the worker that the child runs.
    """

    # Else a module that was renamed would never be found.
    assert find_spec(module) is not None, module

    def inject(environment: Environment, rng: random.Random) -> None:
        _kill_child(environment.service.pid, module, rng)

    return Fault(f"{process} killed", 1.0, inject)


def _kill_child(pid: int, module: str, rng: random.Random) -> None:
    children = [child for child in descendants(pid) if module.encode() in command_line(child)]
    if not children:
        raise NotInjectedError
    kill(rng.choice(children))


COMMON_FAULTS = (
    Fault("service killed", 2.0, _kill_service),
    Fault("service stopped", 1.0, _restart_service),
    Fault("service paused", 0.7, _pause_service),
    Fault("Ray head restarted", 1.0, _restart_head),
    Fault("vendor killed", 1.0, _kill_vendor),
    Fault("vendor paused", 1.0, _pause_vendor),
)
NODE_FAULTS = (
    Fault("Ray node killed", 3.0, _kill_node),
    Fault("node drained", 1.0, _drain_node),
    Fault("node process killed", 1.5, _kill_node_process),
)
