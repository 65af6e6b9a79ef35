"""The process between a coordinator and a Ray cluster: Ray's driver.

It ends with its coordinator, and Ray then ends its actors. Ray ends a driver that has lost its
cluster: in a process of its own that is no more than a message to the coordinator.

| to the bridge | from the bridge |
| --- | --- |
| launch {number, needs, call} | ready {host} |
| end {number} | gone {number, how, is_lost} |
| stop | free {count} |
| | unreachable {why}, failed {place, found, expected}, alive |

`is_lost`: the instance is gone, and not its worker alone. `free`: so many more spot instances would
fit onto the cluster, said every second.
"""

import queue
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.run.instances.actor import Call, InstanceActor
from auctune.run.runtime.channel import Message, ParentChannel, error_record
from auctune.run.runtime.ray.clusters import Clustered, open_cluster

_LOOK_SECONDS = 0.1
_FREE_SECONDS = 1.0
# Ray sees within two seconds that a machine is gone.
_ANSWER_SECONDS = 5.0
_ANSWERS, _PAUSE_SECONDS = 6, 0.4


@dataclass(frozen=True, slots=True)
class Plan:
    """What a bridge is started with.

    Attributes:
        address: of the cluster; none: one of its own.
        work: folder in which that is noted.
        rooms: Ray nodes of a cluster of its own, by their names.
        spot: what a spot instance takes.
    """

    address: str | None
    work: str
    rooms: dict[str, dict[str, float]]
    spot: dict[str, float]


@dataclass(eq=False)
class _Placed:
    """An instance: its actor, and a reference to how its worker ended."""

    actor: Any
    ending: Any


class Bridge:
    """Carries instances to a cluster.

    Args:
        plan: of the cluster.
        parent: the coordinator.
        cluster: to which this process is connected.
    """

    def __init__(self, plan: Plan, parent: ParentChannel, cluster: Clustered) -> None:
        import ray

        self._plan, self._parent = plan, parent
        self._placed: dict[int, _Placed] = {}
        self._said_free = 0.0
        for name, room in plan.rooms.items():
            cluster.make_room(name, room)
        parent.send("ready", host=ray.util.get_node_ip_address())

    def run(self) -> None:
        """Until the coordinator wants it to end."""
        work = {"launch": self._launch, "end": self._end}
        while True:
            try:
                message = self._parent.inbox.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                self._look()
                continue
            if message["do"] == "stop":
                return
            work[message["do"]](message)

    def _launch(self, message: Message) -> None:
        import ray

        needs = dict(message["needs"])
        make = ray.remote(InstanceActor).options(
            num_cpus=needs.pop("CPU", 0),
            num_gpus=needs.pop("GPU", 0),
            resources=needs,
            max_restarts=0,
            max_task_retries=0,
        )
        actor = make.remote()
        self._placed[message["number"]] = _Placed(actor, actor.live.remote(Call(**message["call"])))

    def _end(self, message: Message) -> None:
        import ray

        placed = self._placed.pop(message["number"], None)
        if placed is not None:
            ray.kill(placed.actor)

    def _look(self) -> None:
        import ray

        references = {placed.ending: number for number, placed in self._placed.items()}
        if references:
            ended, _ = ray.wait(list(references), num_returns=len(references), timeout=0)
            for reference in ended:
                self._say_gone(references[reference], reference)
        now = time.monotonic()
        if now - self._said_free > _FREE_SECONDS:
            self._said_free = now
            self._parent.send("free", count=self._free())

    def _say_gone(self, number: int, reference: Any) -> None:
        import ray

        try:
            how, is_lost = str(ray.get(reference)), False
            # Of a machine that goes, the worker may go first, and its actor live to tell.
            actor = self._placed[number].actor
            for _ in range(_ANSWERS):
                ray.get(actor.answer.remote(), timeout=_ANSWER_SECONDS)
                time.sleep(_PAUSE_SECONDS)
        except ray.exceptions.RayError as error:
            how, is_lost = f"was lost with its actor ({type(error).__name__})", True
        self._end({"number": number})
        self._parent.send("gone", number=number, how=how, is_lost=is_lost)

    def _free(self) -> int:
        """How many more spot instances fit onto the nodes that there are."""
        from ray._private.state import available_resources_per_node

        return sum(
            _fitting(node, self._plan.spot) for node in available_resources_per_node().values()
        )


def _fitting(has: Mapping[str, float], needs: Mapping[str, float]) -> int:
    return min(int(has.get(kind, 0.0) / amount + 1e-6) for kind, amount in needs.items())


def main(parent: ParentChannel, argument: dict[str, Any]) -> None:
    """Run a bridge; the argument is its `Plan`."""
    plan = Plan(**argument)

    def unreachable(why: str) -> None:
        parent.send("unreachable", why=why)

    try:
        with open_cluster(
            plan.address, Path(plan.work), parent.stop_requested, unreachable
        ) as cluster:
            if cluster is not None:
                Bridge(plan, parent, cluster).run()
    except InputError as error:
        parent.send("failed", **error_record(error))
        parent.exit(1)
