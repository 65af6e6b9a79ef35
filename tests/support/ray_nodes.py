"""A Ray cluster of several nodes on this machine, of which a test takes nodes and the head away.

Each is a place for the node of its name, and a site of that name.

Run as a program it is the cluster, told by lines what to do:

| line | it |
| --- | --- |
| kill NODE | has the node lose its power, with all that runs there |
| start NODE | has it again |
| head | kills the head; as it knows nothing of before, all nodes begin anew with the next one |
"""

import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from auctune.engine.runtime.ray.local_cluster import LocalCluster, set_ray_environment

T = TypeVar("T")

CPUS = 4
_MAX_STARTS = 10


class RayNodes:
    """A cluster in a process of its own, which has the nodes end with it.

    Args:
        nodes: what its nodes are called in the market.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        # Its drivers are given the token as an operator would give it to them.
        set_ray_environment()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.ray_nodes", *nodes],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        )
        self.address = self._answer()

    @property
    def pid(self) -> int:
        """Of the process that all nodes descend from."""
        return self._process.pid

    def tell(self, *words: str) -> str:
        """Have something done, and wait until it is; what it answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """End all nodes."""
        self._process.communicate("", timeout=60)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"the Ray cluster has ended with {self._process.wait()}")
        return line


@contextmanager
def ray_nodes(*nodes: str) -> Iterator[RayNodes]:
    """A cluster with a block."""
    cluster = RayNodes(nodes)
    try:
        yield cluster
    finally:
        cluster.close()


def until_started(start: Callable[[], T]) -> T:
    """Start something of Ray's, however busy the machine: it gives a node half a minute."""
    for _ in range(_MAX_STARTS - 1):
        try:
            return start()
        except Exception:
            # Ray has no error of its own for it.
            traceback.print_exc()
    return start()


def main() -> None:
    from auctune.edge import Site
    from auctune.engine.edge.ray_sites import node_resources
    from auctune.engine.runtime.ray.params import default_node_resource

    has: dict[str, dict[str, float]] = {
        name: {
            "CPU": CPUS,
            default_node_resource(name): 1.0,
            **node_resources(Site(name, {"cpu": CPUS})),
        }
        for name in sys.argv[1:]
    }

    def start_cluster(port: int = 0) -> LocalCluster:
        return until_started(lambda: LocalCluster(has, port=port).__enter__())

    cluster = start_cluster()
    print(cluster.address, flush=True)
    for line in sys.stdin:
        match line.split():
            case ["kill", name]:
                cluster.kill(name)
            case ["start", name]:
                until_started(partial(cluster.start_node, name, has[name]))
            case ["head"]:
                port = int(cluster.address.rpartition(":")[2])
                cluster._cluster.head_node.kill_gcs_server(check_alive=False)
                cluster.close()
                cluster = start_cluster(port)
        print("done", flush=True)
    cluster.close()


if __name__ == "__main__":
    main()
