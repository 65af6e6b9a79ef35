"""Nodes kept going by keepers, one each, on one thread: an executor, wherever its nodes run."""

import threading
import time
from collections.abc import Iterable, Sequence
from functools import partial

from auctune.run.child import Calls, Message
from auctune.run.executor.executor import HearNode
from auctune.run.executor.link import Launch, NodeLink
from auctune.run.executor.messages import TaskOrder
from auctune.run.executor.node_keeper import KeeperParams, NodeKeeper, Order
from auctune.run.unix_time import unix_time

# Messages are acted on at once; so often is looked for those that do not come.
_LOOK_SECONDS = 0.2


class KeptExecutor:
    """An `Executor` that starts its nodes' processes at once, and keeps them going.

    Args:
        nodes: their ids.
        launch: starts their processes; closed with the executor.
        hear: told what the nodes say, on the executor's one thread; must not close the executor.
        params: when a node is taken to be stuck or lost.
    """

    def __init__(
        self,
        nodes: Iterable[str],
        launch: Launch,
        hear: HearNode,
        params: KeeperParams | None = None,
    ) -> None:
        self._launcher = launch
        self._params = params or KeeperParams()
        self._calls = Calls()
        self._keepers = {
            node: NodeKeeper(
                node,
                partial(self._launch, node),
                self._params,
                partial(hear, node),
                wall=unix_time,
                monotonic=time.monotonic,
            )
            for node in nodes
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

    def _launch(self, node: str, number: int) -> NodeLink:
        def hear(message: Message | None) -> None:
            self._calls.put(partial(self._keepers[node].heard, number, message))

        return self._launcher.start(node, hear)

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
        self._launcher.close()

    def _send(self, keeper: NodeKeeper) -> None:
        """Hand on the order that waits, unless another node is at one of its tasks."""
        if (wanted := keeper.wanted) and not any(
            wanted & other.busy for other in self._keepers.values()
        ):
            keeper.send()
