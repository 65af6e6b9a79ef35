"""One node on the cluster, from its placement to its end, on a thread of its own."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auctune.run.runtime.channel import Message
from auctune.run.runtime.messages import NodeSettings
from auctune.run.runtime.ray.actor import NodeActor
from auctune.run.runtime.ray.relay import Relay

_LOOK_SECONDS = 0.2
_SAY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Placement:
    """What is placed.

    Attributes:
        name: of the actor; one at a time has it.
        needs: resources that it takes.
        settings, module, cwd, log: of the node's worker.
    """

    name: str
    needs: Mapping[str, float]
    settings: NodeSettings
    module: str
    cwd: str
    log: Path | None


class PlacedNode:
    """One node.

    Args:
        placement: what, and where.
        relay: carries what is said.
        say: tells the market what is not the node's own word.
        why_waiting: why a node with such needs has no place yet.
        lease_seconds, missing_seconds: as of `RayParams`.
    """

    def __init__(
        self,
        placement: Placement,
        relay: Relay,
        say: Callable[[Message], None],
        why_waiting: Callable[[Mapping[str, float]], str],
        lease_seconds: float,
        missing_seconds: float,
    ) -> None:
        self._placement = placement
        self._relay = relay
        self._say = say
        self._why_waiting = why_waiting
        self._lease_seconds = lease_seconds
        self._missing_seconds = missing_seconds
        self._begun_at = time.monotonic()
        self._said_at = self._begun_at

    def run(self) -> str:
        """Have it live; how it ended, once it can do nothing any more."""
        import ray

        actor = self._make()
        if actor is None:
            return "was ended before it had a place"
        try:
            return self._live(actor)
        finally:
            ray.kill(actor)

    def _make(self) -> Any:
        """The actor; one of an earlier life that has its name is ended first."""
        import ray

        placement, needs = self._placement, dict(self._placement.needs)
        make = ray.remote(NodeActor).options(
            name=placement.name,
            num_cpus=needs.pop("CPU", 0),
            num_gpus=needs.pop("GPU", 0),
            resources=needs,
            max_restarts=0,
            max_task_retries=0,
        )
        while not self._relay.is_to_end:
            try:
                return make.remote(
                    placement.settings,
                    placement.module,
                    placement.cwd,
                    placement.log,
                    self._lease_seconds,
                )
            except ValueError:
                _end_named(placement.name)
                self._wait("an earlier one is still there")
                time.sleep(_LOOK_SECONDS)
        return None

    def _live(self, actor: Any) -> str:
        import ray

        reference = None
        while self._relay.ending is None:
            if reference is None:
                reference = actor.exchange.remote(self._relay.request())
            ready, _ = ray.wait([reference], timeout=_LOOK_SECONDS)
            if ready:
                reference = None
                try:
                    self._relay.take(ray.get(ready[0]))
                except ray.exceptions.ActorUnavailableError:
                    time.sleep(_LOOK_SECONDS)
                except ray.exceptions.RayError as error:
                    # The node may be cut off and not gone: by then it is.
                    time.sleep(max(0.0, self._relay.left))
                    return f"was lost with its actor ({type(error).__name__})"
            elif not self._relay.has_begun:
                if self._relay.is_to_end:
                    return "was ended before it had a place"
                self._wait(self._why_waiting(self._placement.needs))
            elif self._relay.left < 0:
                return f"was not heard of for {self._lease_seconds:g} s"
        return self._relay.ending

    def _wait(self, why: str) -> None:
        """Say that the node has no place yet: after a while that it is missing."""
        now = time.monotonic()
        if now - self._said_at < _SAY_SECONDS:
            return
        self._said_at = now
        is_missing = now - self._begun_at > self._missing_seconds
        self._say({"kind": "missing", "what": why} if is_missing else {"kind": "alive"})


def _end_named(name: str) -> None:
    import ray

    try:
        ray.kill(ray.get_actor(name))
    except ValueError:
        # It has gone meanwhile.
        return
