"""Compiles the kernels of auctions at startup, in child processes or in the serving process.

The compiler takes half a minute of a core, once on a machine: kernels are cached on disk, where all
processes find them. `KernelCompilation` compiles them in child processes while the serving process
does something else; if a child fails, the serving process compiles by itself. To share the work,
one child starts with what a bid needs, and another with what learning needs.

Run as a worker, this module is such a child. It compiles by having a mechanism go through some
days of a small synthetic market: kernels are compiled for types of arguments, not for sizes.
"""

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from types import TracebackType
from typing import Any, Literal

import structlog

from auctune.auction.candidates import list_candidates
from auctune.auction.dual.scenarios import descend
from auctune.auction.pricing.exponential import price_cells
from auctune.auction.search.schedule_search import find_best
from auctune.domain import (
    Admission,
    Cluster,
    Node,
    NodeType,
    Quote,
    RepeatedEnergy,
    Task,
)
from auctune.engine.base_facts import Report, StartupTask
from auctune.engine.messages.base import Alive, Response, Stop, WorkerMessages
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.runtime.local import WorkerProcess
from auctune.numerics.jit import COMPILING, is_compiled
from auctune.registry.mechanisms import build
from auctune.service.config.auction import AuctionConfig

_WORKER = "auctune.service.zones.auction.startup"
_PARTS: tuple[Literal["bids", "learning"], ...] = ("bids", "learning")

_SLOTS = 8
_DAYS = 3
_BIDS = 6
_MORE_THAN_ANY_NODE = 1e300

# Called from Python, and compiled last of their parts.
_KERNELS = (find_best, list_candidates, descend)
# These prices have a kernel of their own.
_KERNELS_OF_PRICING = {"exponential": (price_cells,)}

# Mechanism, settings and number of node types of what `warm_up` has compiled in this process.
_warmed_up: set[tuple[Any, ...]] = set()

_log = structlog.get_logger(__name__)


def kernels_are_compiled(settings: Mapping[str, str]) -> bool:
    """Return whether this environment has compiled the kernels of such an auction before."""
    own = _KERNELS_OF_PRICING.get(settings.get("pricing", ""), ())
    return is_compiled(*_KERNELS, *own)


class KernelCompilation(StartupTask):
    """Kernels of some zones, being compiled in child processes."""

    def __init__(self, zones: Iterable[AuctionConfig]) -> None:
        self._children: list[_Compiler] = []
        works: dict[tuple[Any, ...], dict[str, Any]] = {}
        for entry in zones:
            name, settings = entry.mechanism
            if kernels_are_compiled(settings):
                continue
            key = (name, *sorted(settings.items()), len(entry.node_types))
            works[key] = {"mechanism": name, "settings": settings, "types": len(entry.node_types)}
        for work in works.values():
            self._children += [_Compiler({**work, "part": part}) for part in _PARTS]

    def wait(self, report: Report) -> None:
        for child in self._children:
            child.wait(report)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self._children:
            child.process.kill()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiling:
    """Progress of a compiler; `share` is of the whole, in [0, 1]."""

    share: float
    type: Literal["compiling"] = "compiling"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled(Response):
    """All kernels are compiled."""

    type: Literal["compiled"] = "compiled"


CompilerReply = Alive | Compiling | Compiled
MESSAGES = WorkerMessages(Stop, CompilerReply)
Parent = ParentChannel[CompilerReply, Stop]


class _Compiler:
    def __init__(self, work: dict[str, Any]) -> None:
        self._inbox: queue.SimpleQueue[CompilerReply | None] = queue.SimpleQueue()
        self._is_done = False
        self.process = WorkerProcess(_WORKER, work, self._inbox.put, MESSAGES)

    def wait(self, report: Report) -> None:
        while not self._is_done:
            message = self._inbox.get()
            if message is None:
                _log.warning(
                    "kernels could not be compiled ahead", reason=self.process.exit_reason()
                )
            elif isinstance(message, Compiling):
                report(COMPILING, message.share)
            self._is_done = message is None or isinstance(message, Compiled)


def warm_up(
    mechanism: str,
    settings: Mapping[str, str],
    cluster: Cluster,
    progress: Callable[[float], None],
) -> None:
    """Compile what bids need, once in a process: have a mechanism decide in all its ways."""
    small = _shrink(cluster)
    key = (mechanism, *sorted(settings.items()), len(small.node_types))
    if key in _warmed_up:
        return
    admission = build(mechanism, small, settings, energy=RepeatedEnergy(small))
    last = _DAYS * _SLOTS
    for slot in range(last):
        progress(slot / last)
        admission.advance(slot)
        for number in range(_BIDS):
            admission.advance(slot)
            _bid(admission, _task(small, slot, number), slot, number)
    restored = build(mechanism, small, settings, energy=RepeatedEnergy(small))
    restored.load(admission.save())
    restored.lose_node(small.nodes[0].id, last, ())
    restored.state()
    progress(1.0)
    _warmed_up.add(key)


def warm_up_learning(mechanism: str, settings: Mapping[str, str], cluster: Cluster) -> None:
    """Compile what learning needs: have a mechanism learn from the bids of a day."""
    day = [_task(cluster, slot, number) for slot in range(_SLOTS) for number in range(_BIDS)]
    build(mechanism, cluster, settings, history=[day], energy=RepeatedEnergy(cluster)).advance(0)


def synthetic_cluster(num_types: int) -> Cluster:
    """Return a small cluster with one node of each of some types."""
    node_types = {f"{k}": NodeType(1000.0, 8.0, (0.01,) * _SLOTS) for k in range(num_types)}
    nodes = tuple(Node(name, name) for name in node_types)
    return Cluster(_SLOTS, 60.0, 0.5, node_types, nodes)


def _bid(mechanism: Admission, task: Task, slot: int, number: int) -> None:
    mechanism.preview(task, slot)
    menu = mechanism.quote(task, slot)
    if number == 1 and menu.lines:
        line = menu.lines[0]
        mechanism.take(replace(task, id=f"{task.id}-line", bid=line.price), line, slot)
    decision = mechanism.offer(task, slot)
    if decision.schedule is not None and number % 2:
        mechanism.release(task, decision.schedule.cells)
        mechanism.plan_rest(replace(task, quotes=()), slot + 1)
    if number == 0:
        for beyond in (
            replace(task, id="work", work=_MORE_THAN_ANY_NODE),
            replace(task, id="memory", memory_gb=_MORE_THAN_ANY_NODE),
        ):
            mechanism.preview(beyond, slot)


def _shrink(cluster: Cluster) -> Cluster:
    slots = min(_SLOTS, cluster.slots)
    node_types = {
        name: replace(kind, energy_cost=kind.energy_cost[:slots])
        for name, kind in cluster.node_types.items()
    }
    first = {node.type: node for node in reversed(cluster.nodes)}
    return replace(
        cluster,
        slots=slots,
        node_types={name: node_types[name] for name in node_types if name in first},
        nodes=tuple(first[name] for name in node_types if name in first),
    )


def _task(cluster: Cluster, slot: int, number: int) -> Task:
    speeds = {name: kind.compute / 4 for name, kind in cluster.node_types.items()}
    memory = min(kind.memory_gb for kind in cluster.node_types.values()) - cluster.base_memory_gb
    return Task(
        id=f"{slot}-{number}",
        arrival=slot + 1,
        deadline=slot + min(cluster.slots - 1, 2 + number),
        work=min(speeds.values()) * (1 + number % 3),
        memory_gb=memory / 8,
        bid=Decimal(1 + 3 * number),
        throughput=speeds,
        quotes=(Quote("vendor", Decimal("0.1"), 1),) if number == 2 else (),
    )


def main(parent: Parent, work: dict[str, Any]) -> None:
    """Compile what the argument names, and report the progress to the parent process."""
    threading.Thread(target=_exit_on_stop, args=(parent,), daemon=True).start()
    mechanism, settings = work["mechanism"], work["settings"]
    cluster = synthetic_cluster(work["types"])
    if work["part"] == "learning":
        warm_up_learning(mechanism, settings, cluster)
    else:
        warm_up(mechanism, settings, cluster, partial(_report, parent))
    parent.send(Compiled())


def _report(parent: Parent, share: float) -> None:
    parent.send(Compiling(share=share))


def _exit_on_stop(parent: Parent) -> None:
    parent.stop_requested.wait()
    parent.exit()
