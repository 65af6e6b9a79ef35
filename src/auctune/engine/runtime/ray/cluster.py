"""Connect this process to a Ray cluster: an external one, or a local one of its own."""

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from auctune.domain import InputError
from auctune.engine.runtime.ray.local_cluster import (
    LocalCluster,
    drop_folder,
    silence_ray_output,
)
from auctune.files.atomic import write_atomically

NAMESPACE = "auctune"

EnsureNode = Callable[[str, Mapping[str, float]], None]
"""Starts a Ray node with resources for a node of the market, unless it is there or external.

To be called on the main thread: Ray nodes end with the thread that started them.
"""

_CONNECT_SECONDS = 5.0
_RETRY_SECONDS = 1.0
# Where the folder of a local cluster is recorded: it outlives a driver that is killed.
_RECORD = "ray-cluster.json"


def unreachable_reason(address: str) -> str:
    """Return why HOST:PORT does not answer, for which Ray itself would wait a minute, or ""."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdigit():
        return ""
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        return str(error)
    return ""


@contextmanager
def connect(address: str, place: str, namespace: str | None = None) -> Iterator[None]:
    """Be a driver of an external cluster.

    Args:
        address: of its head; a Ray node of it is on this machine.
        place: of the address, for errors.
        namespace: of the driver's named actors, or None.

    Raises:
        InputError: if the cluster does not answer, or no node of it is on this machine.
    """
    if why := unreachable_reason(address):
        raise InputError(place, f"{address!r} does not answer ({why})", "a cluster")
    silence_ray_output()
    import ray

    try:
        ray.init(
            address=address, namespace=namespace, log_to_driver=False, logging_level=logging.ERROR
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        found = f"{address!r} does not answer ({error})"
        raise InputError(place, found, "a cluster with a node on this machine") from None
    try:
        yield
    finally:
        ray.shutdown()


def open_cluster(
    address: str | None, work: Path, stop: threading.Event, unreachable: Callable[[str], None]
) -> AbstractContextManager[EnsureNode | None]:
    """Connect to a cluster, or start a local one.

    Args:
        address: of its head; None: a local one.
        work: folder in which that is recorded.
        stop: set to give up, with the result None.
        unreachable: called every second or so with the reason why the address does not answer.

    Raises:
        InputError: if the cluster cannot be used from here.
    """
    return _start_local(work) if address is None else _connect_when_up(address, stop, unreachable)


@contextmanager
def _start_local(work: Path) -> Iterator[EnsureNode | None]:
    record = work / _RECORD
    with contextlib.suppress(OSError, ValueError, LookupError):
        drop_folder(Path(json.loads(record.read_bytes())["folder"]))
    with LocalCluster({}, NAMESPACE) as cluster:
        work.mkdir(parents=True, exist_ok=True)
        write_atomically(record, json.dumps({"folder": str(cluster.folder)}).encode() + b"\n")

        def ensure_node(node: str, resources: Mapping[str, float]) -> None:
            if not cluster.has(node):
                # A node of the market takes a small share of a custom resource.
                whole = {kind: max(1.0, amount) for kind, amount in resources.items()}
                cluster.start_node(node, whole)

        yield ensure_node


@contextmanager
def _connect_when_up(
    address: str, stop: threading.Event, unreachable: Callable[[str], None]
) -> Iterator[EnsureNode | None]:
    while why := unreachable_reason(address):
        unreachable(f"the cluster at {address} does not answer ({why})")
        if stop.wait(_RETRY_SECONDS):
            yield None
            return
    with connect(address, "ray.address", NAMESPACE):
        yield lambda _node, _resources: None
