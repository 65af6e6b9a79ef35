"""Ray nodes of sites: their units as resources, those that are free, and how to connect.

A node of a site has `site:ID`, of which each actor takes a sliver, so that it stands there; and
`unit:TYPE` for each resource type, in thousandths, as Ray counts in whole numbers. On an existing
cluster a worker on a GPU also takes Ray's own `GPU`, so that it sees that one alone.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from auctune.atomic_files import write_atomically
from auctune.domain import InputError
from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.edge.market import Site
from auctune.engine.runtime.ray.cluster import connect as connect_external
from auctune.engine.runtime.ray.local_cluster import LocalCluster, drop_folder

_SITE = "site:"
_THOUSANDTHS = 1000
_SLIVER = 0.0001
# Rounding errors of a product of decimals are not a thousandth.
_SLACK = 1e-6


def node_resources(site: Site) -> dict[str, float]:
    """Return the resources of a site's node, rounded up."""
    units = {
        f"unit:{kind}": float(math.ceil(units * _THOUSANDTHS - _SLACK))
        for kind, units in site.capacity.items()
    }
    return {f"{_SITE}{site.id}": 1.0, **units}


def actor_resources(site: str, needs: Mapping[str, float]) -> dict[str, float]:
    """Return what an actor at a site takes, rounded down: what fits the market fits the nodes."""
    units = {
        f"unit:{kind}": float(math.floor(units * _THOUSANDTHS + _SLACK))
        for kind, units in needs.items()
    }
    return {f"{_SITE}{site}": _SLIVER, **{name: count for name, count in units.items() if count}}


def worker_gpus(device: str, needs: Mapping[str, float]) -> float:
    """Return the GPUs that Ray gives a worker on a cluster, of its `gpu` units.

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


def sites_alive() -> set[str]:
    """Return the sites that have a node."""
    return set(_nodes_by_site())


def _nodes_by_site() -> dict[str, list[Mapping[str, float]]]:
    """Return the resources of the living nodes of each site."""
    import ray

    found: dict[str, list[Mapping[str, float]]] = {}
    for node in ray.nodes():
        for name in node["Resources"] if node["Alive"] else ():
            if name.startswith(_SITE):
                found.setdefault(name.removeprefix(_SITE), []).append(node["Resources"])
    return found


class FreeResources:
    """Units of sites that no actor has taken, counted as Ray counts.

    Args:
        free: by site and resource of Ray.
    """

    def __init__(self, free: Mapping[str, Mapping[str, float]]) -> None:
        self._free = {site: dict(units) for site, units in free.items()}

    @classmethod
    def of_nodes(cls) -> "FreeResources":
        """Return all that sites of a single node have.

        Of several nodes, only Ray knows which of them has what is free: such a site has nothing.
        """
        found = _nodes_by_site()
        return cls({site: nodes[0] for site, nodes in found.items() if len(nodes) == 1})

    def reserve(self, site: str, needs: Mapping[str, float], *, force: bool = False) -> bool:
        """Take an actor's units if they are free, and return whether they were.

        Args:
            site: where.
            needs: of the market, by resource type.
            force: take them in any case, as the plan has it.
        """
        free = self._free.setdefault(site, {})
        units = actor_resources(site, needs)
        fits = all(free.get(name, 0.0) >= count for name, count in units.items())
        if fits or force:
            for name, count in units.items():
                free[name] = free.get(name, 0.0) - count
        return fits

    def reserve_slot(self, job: EdgeJob, part: SlotPlan) -> None:
        """Take what a job's slot needs."""
        for site, count in part.workers.items():
            for _ in range(count):
                self.reserve(site, job.worker, force=True)
        self.reserve(part.server, job.server, force=True)


class SiteNodes:
    """Nodes of sites, each started on this machine.

    Args:
        sites: all of them.
        record: file of what was started.
        cluster: with a node a site; None: an existing one, whose nodes are restarted by whoever
            started them.
    """

    def __init__(self, sites: Sequence[Site], record: Path, cluster: LocalCluster | None) -> None:
        self._sites, self._record, self._cluster = sites, record, cluster
        self._write()

    def restart_missing(self) -> None:
        """Start nodes again that are gone, if this process started them."""
        if self._cluster is None:
            return
        gone = [site for site in self._sites if not self._cluster.has(site.id)]
        for site in gone:
            self._cluster.start_node(site.id, node_resources(site))
        if gone:
            self._write()

    def _write(self) -> None:
        if self._cluster is not None:
            processes = {site.id: self._cluster.process_of(site.id) for site in self._sites}
            started = {"folder": str(self._cluster.folder), "processes": processes}
            write_atomically(self._record, json.dumps(started, indent=2).encode() + b"\n")


@contextmanager
def connect(sites: Sequence[Site], ray: str, place: str, record: Path) -> Iterator[SiteNodes]:
    """Connect to the nodes of sites.

    Args:
        sites: all of them.
        ray: address of an existing cluster; empty: one is started on this machine.
        place: of the address, for errors.
        record: file of what was started here.

    Raises:
        InputError: if there is no cluster at the address.
    """
    if ray:
        with connect_external(ray, place):
            yield SiteNodes(sites, record, None)
        return
    if record.exists():
        # A process that was killed has left it.
        drop_folder(Path(json.loads(record.read_bytes())["folder"]))
    with LocalCluster({site.id: node_resources(site) for site in sites}) as cluster:
        yield SiteNodes(sites, record, cluster)


def check_device(device: str, place: str) -> None:
    """Check that this machine has a device of torch.

    Raises:
        InputError: naming `place`.
    """
    if device == "cpu":
        return
    from auctune.train.base import check_device as check

    try:
        check(device, "float32")
    except InputError as error:
        raise error.at(place) from None
