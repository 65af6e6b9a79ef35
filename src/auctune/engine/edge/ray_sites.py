"""Sites that are nodes of a Ray cluster.

A node of a site has `site:ID`, of which each actor takes a sliver, so that it stands there; and
`unit:TYPE` for each resource type, in thousandths, as Ray counts in whole numbers. A worker on a
GPU also takes Ray's own `GPU`, so that it sees that one alone.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from auctune.domain import InputError
from auctune.edge.market import Site
from auctune.engine.edge.sites import FreeResources, capacity_units, needed_units
from auctune.engine.messages.base import Array
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.ray.cluster import connect
from auctune.engine.runtime.ray.driver import ActorSpec, RayDriver, RayWorker
from auctune.engine.runtime.worker import WorkerSpec

_SITE, _UNIT = "site:", "unit:"
_SLIVER = 0.0001
_LEASE_SECONDS = 60.0
# Who is not placed waits for its slot's end.
_MISSING_SECONDS = math.inf


def node_resources(site: Site) -> dict[str, float]:
    """Return the resources that a site's node is started with."""
    units = capacity_units(site.capacity)
    return {f"{_SITE}{site.id}": 1.0, **{f"{_UNIT}{kind}": n for kind, n in units.items()}}


def actor_resources(site: str, needs: Mapping[str, float]) -> dict[str, float]:
    """Return what an actor at a site takes of its node."""
    units = needed_units(needs)
    return {f"{_SITE}{site}": _SLIVER, **{f"{_UNIT}{kind}": n for kind, n in units.items()}}


def worker_gpus(device: str, needs: Mapping[str, float]) -> float:
    """Return the GPUs that Ray gives a worker, of its `gpu` units.

    Ray takes a share of one GPU, or whole ones: what is beyond a whole number is rounded down, as
    a worker computes on one.

    Raises:
        InputError: if it computes on a GPU, and its needs have none.
    """
    if not device.startswith("cuda"):
        return 0.0
    units = needs.get("gpu", 0.0)
    if units <= 0:
        raise InputError("worker.gpu", "is missing", f"GPUs of a worker, as device is {device!r}")
    return units if units < 1 else float(math.floor(units))


class RaySites:
    """`Sites` of the cluster to which this process is connected.

    Args:
        names: of all sites that are used; the cluster may have others.
        driver: of the cluster.
    """

    def __init__(self, names: Collection[str], driver: RayDriver) -> None:
        self._names, self._driver = frozenset(names), driver

    @property
    def names(self) -> frozenset[str]:
        return self._names

    def alive(self) -> set[str]:
        return {*_nodes_by_site()} & self._names

    def free(self) -> FreeResources:
        """Return all that sites of a single node have.

        Of several nodes, only Ray knows which of them has what is free: such a site has nothing.
        """
        return FreeResources(
            {
                site: {
                    name.removeprefix(_UNIT): count
                    for name, count in nodes[0].items()
                    if name.startswith(_UNIT)
                }
                for site, nodes in _nodes_by_site().items()
                if len(nodes) == 1
            }
        )

    def restart_missing(self) -> None:
        """Whoever started the nodes restarts them."""

    def start(
        self, site: str, needs: Mapping[str, float], worker: WorkerSpec, on_message: OnMessage
    ) -> RayWorker:
        gpus = worker_gpus(worker.device, needs)
        spec = ActorSpec.of(
            worker,
            actor_resources(site, needs) | ({"GPU": gpus} if gpus else {}),
            lease_seconds=_LEASE_SECONDS,
            missing_seconds=_MISSING_SECONDS,
            keeps_arrays=True,
        )
        handle = self._driver.worker(spec, worker.messages, on_message)
        handle.start()
        return handle

    def fetch(self, handle: Any) -> Array:
        import ray

        # Ray's arrays are read-only views of shared memory; an empty one is no reference.
        return np.array(ray.get(handle) if isinstance(handle, ray.ObjectRef) else handle)


@contextmanager
def connect_sites(names: Collection[str], address: str, place: str) -> Iterator[RaySites]:
    """Connect to the sites of an existing cluster.

    Args:
        names: of all sites.
        address: of the cluster.
        place: of the address, for errors.

    Raises:
        InputError: if there is no cluster at the address.
    """
    with connect(address, place):
        driver = RayDriver()
        try:
            yield RaySites(names, driver)
        finally:
            driver.close()


def _nodes_by_site() -> dict[str, list[Mapping[str, float]]]:
    """Return the resources of the living nodes of each site."""
    import ray

    found: dict[str, list[Mapping[str, float]]] = {}
    for node in ray.nodes():
        for name in node["Resources"] if node["Alive"] else ():
            if name.startswith(_SITE):
                found.setdefault(name.removeprefix(_SITE), []).append(node["Resources"])
    return found
