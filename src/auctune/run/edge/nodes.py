"""Ray nodes of sites: those of an existing cluster, or of one that is started on this machine."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from auctune.atomic_files import write_atomically
from auctune.domain import InputError
from auctune.edge.market import Site
from auctune.run.edge.edge_folder import EdgeFolder
from auctune.run.edge.resources import node_resources
from auctune.run.runtime.ray.cluster import connect as connect_external
from auctune.run.runtime.ray.local_cluster import LocalCluster, drop_folder


class SiteNodes:
    """Nodes of sites.

    Args:
        sites: all of them.
        folder: where is noted what was started.
        cluster: a node a site on this machine; None: an existing cluster, whose nodes are restarted
            by whoever started them.
    """

    def __init__(
        self, sites: Sequence[Site], folder: EdgeFolder, cluster: LocalCluster | None
    ) -> None:
        self._sites, self._folder, self._cluster = sites, folder, cluster
        self._note()

    def restart_missing(self) -> None:
        """Start nodes again that are gone, if this process started them."""
        if self._cluster is None:
            return
        gone = [site for site in self._sites if not self._cluster.has(site.id)]
        for site in gone:
            self._cluster.start_node(site.id, node_resources(site))
        if gone:
            self._note()

    def _note(self) -> None:
        if self._cluster is not None:
            processes = {site.id: self._cluster.process_of(site.id) for site in self._sites}
            known = {"folder": str(self._cluster.folder), "processes": processes}
            write_atomically(self._folder.sites, json.dumps(known, indent=2).encode() + b"\n")


@contextmanager
def connect(sites: Sequence[Site], ray: str, place: str, folder: EdgeFolder) -> Iterator[SiteNodes]:
    """Connect to the nodes of sites.

    Args:
        sites: all of them.
        ray: address of an existing cluster; empty: one is started on this machine.
        place: of the address, for errors.
        folder: of the sites.

    Raises:
        InputError: if there is no cluster at the address.
    """
    if ray:
        with connect_external(ray, place):
            yield SiteNodes(sites, folder, None)
        return
    if folder.sites.exists():
        # A process that was killed has left it.
        drop_folder(Path(json.loads(folder.sites.read_bytes())["folder"]))
    with LocalCluster({site.id: node_resources(site) for site in sites}) as cluster:
        yield SiteNodes(sites, folder, cluster)


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
