"""Which resources a cluster's living nodes have, looked at every second.

The head of a cluster may go away and come back. What does not answer for long, or no longer knows
the driver's own node, is another cluster: its driver has to begin anew.
"""

import threading
import time
from collections.abc import Callable, Collection
from typing import Any

_LOOK_SECONDS = 1.0


class ClusterView:
    """What is known of the cluster.

    Args:
        nodes: asks for its nodes, as `ray.nodes` does; may hang or fail while the head is away.
        own: id of the driver's node.
    """

    def __init__(self, nodes: Callable[[], list[dict[str, Any]]], own: str) -> None:
        self._nodes = nodes
        self._own = own
        self._resources: frozenset[str] = frozenset()
        self._seen_at = time.monotonic()
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def age(self) -> float:
        """Seconds since the driver's own node was seen in it."""
        return time.monotonic() - self._seen_at

    def lacks(self, needs: Collection[str]) -> str:
        """A resource of these that no living node has; none: empty."""
        return next((one for one in needs if one not in self._resources), "")

    def _run(self) -> None:
        while True:
            try:
                alive = [node for node in self._nodes() if node["Alive"]]
            # What Ray raises while the head is away is of no one kind.
            except Exception:
                alive = []
            if any(node["NodeID"] == self._own for node in alive):
                self._seen_at = time.monotonic()
                self._resources = frozenset(kind for node in alive for kind in node["Resources"])
            time.sleep(_LOOK_SECONDS)
