"""A Ray cluster that is there already, with this process as one of its drivers."""

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from auctune.domain import InputError
from auctune.run.local_cluster import hush, reread_token

_ANSWER_SECONDS = 5.0


def why_silent(address: str) -> str:
    """Why nobody answers at HOST:PORT, for which Ray itself would wait a minute; none: empty."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdigit():
        return ""
    try:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        return str(error)
    return ""


@contextmanager
def adopted(address: str, place: str, namespace: str | None = None) -> Iterator[None]:
    """Be a driver of a cluster.

    Args:
        address: of its head; a Ray node of it is on this machine.
        place: where the address was said, for errors.
        namespace: of the driver's named actors; none: its own.

    Raises:
        InputError: if nobody answers there, or no node of it is on this machine.
    """
    if why := why_silent(address):
        raise InputError(place, f"{address!r} does not answer ({why})", "a cluster")
    import ray

    hush()
    reread_token()
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
