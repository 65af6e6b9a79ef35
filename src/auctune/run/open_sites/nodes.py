"""The nodes of open sites: those of a cluster that is there, or of one that is started here."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from auctune.atomic_files import write_atomically
from auctune.edge.market import Site
from auctune.run.adopted_cluster import adopted
from auctune.run.edge.folder import EdgeFolder
from auctune.run.edge.resources import offered
from auctune.run.local_cluster import LocalCluster, drop_folder


class Nodes(Protocol):
    """Of a cluster to which this process is connected."""

    def mend(self) -> None:
        """Start again what is gone, if that is up to this process."""
        ...


class OthersNodes:
    """Whoever started them starts them again."""

    def mend(self) -> None:
        """Nothing."""


class OwnNodes:
    """A node a site, on this machine.

    Args:
        cluster: which.
        sites: all of them.
        place: where it is noted what was started.
    """

    def __init__(self, cluster: LocalCluster, sites: Sequence[Site], place: EdgeFolder) -> None:
        self._cluster, self._sites, self._place = cluster, sites, place
        self._note()

    def mend(self) -> None:
        """Start nodes that are gone."""
        gone = [site for site in self._sites if not self._cluster.has(site.id)]
        for site in gone:
            self._cluster.start_node(site.id, offered(site))
        if gone:
            self._note()

    def _note(self) -> None:
        processes = {site.id: self._cluster.process_of(site.id) for site in self._sites}
        known = {"folder": str(self._cluster.folder), "processes": processes}
        write_atomically(self._place.sites, json.dumps(known, indent=2).encode() + b"\n")


@contextmanager
def connected(sites: Sequence[Site], ray: str, place: EdgeFolder) -> Iterator[Nodes]:
    """Be connected to the nodes of sites.

    Args:
        sites: all of them.
        ray: address of a cluster that is there; empty: one is started on this machine.
        place: the folder of the sites.

    Raises:
        InputError: if there is no cluster at the address.
    """
    if ray:
        with adopted(ray, "ray.address"):
            yield OthersNodes()
        return
    # What a process that was killed has left.
    if place.sites.exists():
        drop_folder(Path(json.loads(place.sites.read_bytes())["folder"]))
    with LocalCluster({site.id: offered(site) for site in sites}) as cluster:
        yield OwnNodes(cluster, sites, place)
