"""The process that compiles: it has a made-up market decide, or learn, and ends."""

import json
import sys
import threading
from typing import Any

from auctune.domain import Admission, Cluster, EnergyForecast, Node, NodeType
from auctune.registry import build
from auctune.run.child.parent import Parent
from auctune.service.zones.auction.startup import LESSONS
from auctune.service.zones.auction.warm_up import warm_up, warm_up_lessons

_SLOTS = 8


def synthetic_cluster(num_types: int) -> Cluster:
    """A node of each of some types: what kernels are compiled for says nothing of their size."""
    kinds = {f"{k}": NodeType(1000.0, 8.0, (0.01,) * _SLOTS) for k in range(num_types)}
    nodes = tuple(Node(name, name) for name in kinds)
    return Cluster(_SLOTS, 60.0, 0.5, kinds, nodes)


def main() -> None:
    """Compile what the argument asks for."""
    parent = Parent()
    threading.Thread(target=_end_when_asked, args=(parent,), daemon=True).start()
    work: dict[str, Any] = json.loads(sys.argv[1])
    cluster = synthetic_cluster(work["types"])
    if work["part"] == LESSONS:
        warm_up_lessons(
            cluster,
            lambda energy, days: build(
                work["mechanism"], cluster, work["settings"], history=days, energy=energy
            ),
        )
    else:

        def make(small: Cluster, energy: EnergyForecast) -> Admission:
            return build(work["mechanism"], small, work["settings"], energy=energy)

        warm_up(cluster, make, lambda share: parent.say("compiling", share=share))
    parent.say("compiled")
    parent.leave()


def _end_when_asked(parent: Parent) -> None:
    parent.stop.wait()
    parent.leave()


if __name__ == "__main__":
    main()
