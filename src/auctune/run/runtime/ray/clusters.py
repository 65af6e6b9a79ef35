"""The cluster as a bridge holds it: one that was adopted, or one of its own on this machine."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from auctune.atomic_files import write_atomically
from auctune.run.adopted_cluster import adopted, why_silent
from auctune.run.local_cluster import LocalCluster, drop_folder

NAMESPACE = "auctune"

_KNOCK_SECONDS = 1.0
# Where the folder of a cluster of one's own is noted: it outlives a bridge that is killed.
_NOTE = "ray-cluster.json"


class Clustered(Protocol):
    """A cluster to which this process is connected."""

    def make_room(self, node: str, needs: Mapping[str, float]) -> None:
        """See that there is a Ray node for a node of the market, as far as it is ours to see to.

        On the thread that opened the cluster.
        """
        ...


class Adopted:
    """A cluster that others look after."""

    def make_room(self, node: str, needs: Mapping[str, float]) -> None:
        """It has what its operator gives it."""


class Own:
    """A cluster of this process, with a Ray node for each node of the market."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def make_room(self, node: str, needs: Mapping[str, float]) -> None:
        """Start its Ray node, if there is none or none any more."""
        if not self._cluster.has(node):
            # Marks are there whole; a node takes a sliver.
            self._cluster.start_node(node, {kind: max(1.0, has) for kind, has in needs.items()})


def open_cluster(
    address: str | None, work: Path, stop: threading.Event, unreachable: Callable[[str], None]
) -> AbstractContextManager[Clustered | None]:
    """Connect to a cluster, or start one.

    Args:
        address: of its head; none: one of our own.
        work: folder in which that is noted.
        stop: set when nobody wants it any more; then there may be none.
        unreachable: told, every second or so, why nobody answers at the address.

    Raises:
        InputError: if the cluster cannot be used from here.
    """
    return _own(work) if address is None else _adopt(address, stop, unreachable)


@contextmanager
def _own(work: Path) -> Iterator[Clustered | None]:
    note = work / _NOTE
    with contextlib.suppress(OSError, ValueError, LookupError):
        drop_folder(Path(json.loads(note.read_bytes())["folder"]))
    with LocalCluster({}, NAMESPACE) as cluster:
        work.mkdir(parents=True, exist_ok=True)
        write_atomically(note, json.dumps({"folder": str(cluster.folder)}).encode() + b"\n")
        yield Own(cluster)


@contextmanager
def _adopt(
    address: str, stop: threading.Event, unreachable: Callable[[str], None]
) -> Iterator[Clustered | None]:
    while why := why_silent(address):
        unreachable(f"the cluster at {address} does not answer ({why})")
        if stop.wait(_KNOCK_SECONDS):
            yield None
            return
    with adopted(address, "ray.address", NAMESPACE):
        yield Adopted()
