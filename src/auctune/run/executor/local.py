"""Nodes as child processes of this machine, one each."""

import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from auctune.run.child import Calls, Message
from auctune.run.executor.executor import HearNode
from auctune.run.executor.messages import NodeSettings, TaskOrder
from auctune.run.executor.node_keeper import KeeperParams, NodeKeeper, Order
from auctune.run.executor.node_process import WORKER, NodeProcess

# Messages are acted on at once; so often is looked for those that do not come.
_LOOK_SECONDS = 0.2


class LocalExecutor:
    """An `Executor` that starts its nodes' processes at once, and keeps them going.

    Args:
        settings: of each node, by its id.
        hear: told what the nodes say, on the executor's one thread; must not close the executor.
        params: when a node is taken to be stuck or lost.
        logs: folder for what nodes write on standard error, NODE.log; none: nobody keeps it.
        lock: descriptor of a lock that nodes hold too; none: there is none.
        program: a node's, as arguments for the interpreter.
    """

    def __init__(
        self,
        settings: Mapping[str, NodeSettings],
        hear: HearNode,
        *,
        params: KeeperParams | None = None,
        logs: Path | None = None,
        lock: int | None = None,
        program: Sequence[str] = WORKER,
    ) -> None:
        self._settings = dict(settings)
        self._params = params or KeeperParams()
        self._logs = logs
        self._lock = lock
        self._program = program
        if logs is not None:
            logs.mkdir(parents=True, exist_ok=True)
        self._calls = Calls()
        self._keepers = {
            node: NodeKeeper(
                node,
                partial(self._launch, node),
                self._params,
                partial(hear, node),
                wall=time.time,
                monotonic=time.monotonic,
            )
            for node in self._settings
        }
        self._thread = threading.Thread(target=self._run, name="executor", daemon=True)
        self._thread.start()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their ids."""
        return tuple(self._keepers)

    def start(
        self, slot: int, node: str, orders: Sequence[TaskOrder], until: float | None = None
    ) -> None:
        """Have a node train a slot; see `Executor`."""
        order = Order(slot, tuple(orders), until)
        self._calls.put(partial(self._keepers[node].give, order))

    def close(self) -> None:
        """End all nodes' processes, those that do not end by themselves by force."""
        self._calls.close()
        self._thread.join()

    def _launch(self, node: str, number: int) -> NodeProcess:
        def hear(message: Message | None) -> None:
            self._calls.put(partial(self._keepers[node].heard, number, message))

        return NodeProcess(
            self._settings[node],
            hear,
            lock=self._lock,
            log=None if self._logs is None else self._logs / f"{node}.log",
            program=self._program,
        )

    def _run(self) -> None:
        while not self._calls.is_closed:
            for keeper in self._keepers.values():
                keeper.look()
                self._send(keeper)
            # What has been said must be heard before anyone is taken to be silent.
            self._calls.make(_LOOK_SECONDS)
        for keeper in self._keepers.values():
            keeper.ask_to_stop()
        deadline = time.monotonic() + self._params.stop_seconds
        for keeper in self._keepers.values():
            keeper.stop(max(0.0, deadline - time.monotonic()))

    def _send(self, keeper: NodeKeeper) -> None:
        """Hand on the order that waits, unless another node is at one of its tasks."""
        if (wanted := keeper.wanted) and not any(
            wanted & other.busy for other in self._keepers.values()
        ):
            keeper.send()
