"""KernelCompilation compiled in child processes, while the serving process does something else.

The compiler takes half a minute of a core, once on a machine. Children leave what they compiled in
the cache on disk, where this process and all others find it. That they may share the work, one
begins with what a bid needs and one with what a lesson needs. If a child fails, nothing is lost:
the serving process then compiles by itself.
"""

import queue
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import structlog

from auctune.numerics.jit import COMPILING, kernels_are_compiled
from auctune.run.base_facts import Report
from auctune.run.child import ChildProcess, Message
from auctune.service.config.auction import AuctionConfig

WORKER = ("-m", "auctune.service.zones.auction.kernel_worker")
BIDS, LESSONS = "bids", "lessons"

_log = structlog.get_logger(__name__)


class KernelCompilation:
    """What zones decide with, being compiled: a context, which ends the children.

    Args:
        zones: whose mechanisms are meant.
    """

    def __init__(self, zones: Iterable[AuctionConfig]) -> None:
        self._children: list[_CompilerProcess] = []
        if kernels_are_compiled():
            return
        kinds: dict[tuple[Any, ...], dict[str, Any]] = {}
        for entry in zones:
            name, settings = entry.mechanism
            key = (name, *sorted(settings.items()), len(entry.node_types))
            kinds[key] = {"mechanism": name, "settings": settings, "types": len(entry.node_types)}
        for kind in kinds.values():
            self._children += [_CompilerProcess({**kind, "part": part}) for part in (BIDS, LESSONS)]

    def wait(self, report: Report) -> None:
        """Until all is compiled.

        Args:
            report: told how far it is.
        """
        for child in self._children:
            child.wait(report)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self._children:
            child.process.kill()


class _CompilerProcess:
    def __init__(self, work: dict[str, Any]) -> None:
        self._inbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._is_over = False
        self.process = ChildProcess(WORKER, work, self._inbox.put)

    def wait(self, report: Report) -> None:
        while not self._is_over:
            message = self._inbox.get()
            if message is None:
                _log.warning("kernels could not be compiled ahead", reason=self.process.ending())
            elif message["kind"] == "compiling":
                report(COMPILING, message["share"])
            self._is_over = message is None or message["kind"] == "compiled"
