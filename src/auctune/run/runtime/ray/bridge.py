"""The process between an executor and a Ray cluster: Ray's driver.

It ends with its market, and Ray then ends its actors. Ray ends a driver that has lost its cluster:
in a process of its own that is no more than a message to the market.

| to the bridge | from the bridge |
| --- | --- |
| launch {link, node, needs, settings, module, cwd, log} | node {link, message} |
| tell {link, message} | gone {link, how} |
| end {link} | missing {what}, alive |
| stop | failed {place, found, expected} |
"""

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.run.runtime.channel import Message, ParentChannel, error_record
from auctune.run.runtime.messages import NodeSettings
from auctune.run.runtime.ray.clusters import Clustered, open_cluster
from auctune.run.runtime.ray.params import RayParams
from auctune.run.runtime.ray.placed import PlacedNode, Placement
from auctune.run.runtime.ray.relay import Relay
from auctune.run.runtime.ray.view import ClusterView

_LOOK_SECONDS = 1.0
# Ray itself gives up a head that has been away for a minute, as a rule.
_HEAD_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a bridge is started with.

    Attributes:
        work: the nodes' folder; in the actors' names, so that each market knows its own.
        params: of the cluster.
    """

    work: Path
    params: RayParams


class _Link:
    """One node, and what of it is held back until leases of an earlier life are over."""

    def __init__(self, number: int, parent: ParentChannel, trusted_at: float, lease: float) -> None:
        self._number = number
        self._parent = parent
        self._trusted_at = trusted_at
        self._held: list[Message] = []
        self.relay = Relay(self._hear, lease, time.monotonic)

    def say(self, message: Message) -> None:
        """To the market."""
        self._parent.send("node", link=self._number, message=message)

    def run(self, node: PlacedNode) -> None:
        """On a thread of its own."""
        how = node.run()
        self._parent.send("gone", link=self._number, how=how)

    def _hear(self, messages: Sequence[Message]) -> None:
        self._held.extend(messages)
        is_early = time.monotonic() < self._trusted_at
        while self._held and not (is_early and self._held[0]["kind"] == "ready"):
            self.say(self._held.pop(0))
        if self._held:
            self.say({"kind": "alive"})


class Bridge:
    """Carries what is said between a market and its nodes.

    Args:
        plan: of the cluster.
        parent: the market.
        cluster: to which this process is connected.
    """

    def __init__(self, plan: Plan, parent: ParentChannel, cluster: Clustered) -> None:
        import ray

        self._plan = plan
        self._parent = parent
        self._cluster = cluster
        self._links: dict[int, _Link] = {}
        self._trusted_at = time.monotonic() + plan.params.lease_seconds
        self._view = ClusterView(ray.nodes, ray.get_runtime_context().get_node_id())

    def run(self) -> None:
        """Until the market wants it to end, or the cluster is gone."""
        work = {"launch": self._launch, "tell": self._tell, "end": self._end}
        while self._view.age < _HEAD_SECONDS:
            try:
                message = self._parent.inbox.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if message["do"] == "stop":
                return
            work[message["do"]](message)
        raise InputError("ray.address", "the head of the cluster has gone away", "a cluster")

    def _launch(self, message: Message) -> None:
        params, number = self._plan.params, message["link"]
        self._cluster.make_room(message["node"], message["needs"])
        link = _Link(number, self._parent, self._trusted_at, params.lease_seconds)
        self._links[number] = link
        placement = Placement(
            name=f"{self._plan.work}:{message['node']}",
            needs=message["needs"],
            settings=NodeSettings(**message["settings"]),
            module=message["module"],
            cwd=message["cwd"],
            log=None if message["log"] is None else Path(message["log"]),
        )
        node = PlacedNode(
            placement,
            link.relay,
            link.say,
            self._why_waiting,
            params.lease_seconds,
            params.missing_seconds,
        )
        threading.Thread(target=link.run, args=(node,), daemon=True).start()

    def _tell(self, message: Message) -> None:
        self._links[message["link"]].relay.tell(message["message"])

    def _end(self, message: Message) -> None:
        self._links[message["link"]].relay.end()

    def _why_waiting(self, needs: Mapping[str, float]) -> str:
        if lacking := self._view.lacks(needs):
            return f"no Ray node with {lacking!r} is in the cluster"
        return f"no Ray node has room for {', '.join(f'{n:g} {kind}' for kind, n in needs.items())}"


def main(parent: ParentChannel, argument: dict[str, Any]) -> None:
    """Run a bridge; the argument is its `Plan`."""
    begun = time.monotonic()
    plan = Plan(Path(argument["work"]), RayParams(**argument["ray"]))

    def unreachable(why: str) -> None:
        if time.monotonic() - begun > plan.params.missing_seconds:
            parent.send("missing", what=why)

    try:
        with open_cluster(
            plan.params.address, plan.work, parent.stop_requested, unreachable
        ) as cluster:
            if cluster is not None:
                Bridge(plan, parent, cluster).run()
    except InputError as error:
        parent.send("failed", **error_record(error))
        parent.exit(1)
