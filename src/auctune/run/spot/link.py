"""Messages between coordinator and worker: a few words as JSON, and numbers as they lie in memory.

    4 bytes length of the words, 8 bytes length of the numbers, words, numbers

A message is whole or it is not there: of a worker killed in the middle of one, nothing remains but
the end of the stream. There is no memory that both can write, hence nothing half written, nothing
to clean up, and the same words would go over TCP to another machine.
"""

import json
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]

_HEADER = struct.Struct("!IQ")


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """A message.

    Attributes:
        words: plain values; "kind" says what it is.
        numbers: float32 [n], empty where there are none; the receiver's own.
    """

    words: dict[str, Any]
    numbers: Floats32


class LinkClosedError(Exception):
    """The other side is gone."""


class Link(Protocol):
    """One end of a connection; one thread may send while another receives."""

    def send(self, words: dict[str, Any], numbers: Floats32 | None = None) -> None:
        """Send a message.

        Raises:
            LinkClosedError: if the other side is gone, or takes nothing for too long.
        """
        ...

    def receive(self) -> Parcel:
        """Wait for the next message.

        Raises:
            LinkClosedError: if the other side is gone.
        """
        ...

    def close(self) -> None:
        """Let go of it; whoever waits on either side learns that."""
        ...


class SocketLink:
    """A `Link` over a stream socket.

    Args:
        stream: connected; owned by the link from now on.
        patience_seconds: that a receiver may take none of a message, before it counts as gone;
            0: for ever.
    """

    def __init__(self, stream: socket.socket, patience_seconds: float = 0.0) -> None:
        self._stream = stream
        if patience_seconds:
            # Of sending alone: nobody knows how long an answer takes.
            timeval = struct.pack("ll", int(patience_seconds), int(patience_seconds % 1 * 1e6))
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)

    def send(self, words: dict[str, Any], numbers: Floats32 | None = None) -> None:
        """See `Link`."""
        text = json.dumps(words).encode()
        body = b"" if numbers is None else numbers.tobytes()
        try:
            self._stream.sendall(_HEADER.pack(len(text), len(body)) + text)
            self._stream.sendall(body)
        except OSError as error:
            raise LinkClosedError(str(error)) from None

    def receive(self) -> Parcel:
        """See `Link`."""
        num_text, num_body = _HEADER.unpack(self._read(_HEADER.size))
        words: dict[str, Any] = json.loads(bytes(self._read(num_text)))
        return Parcel(words, np.frombuffer(self._read(num_body), dtype=np.float32))

    def close(self) -> None:
        """See `Link`."""
        # Unless the other side was quicker.
        with suppress(OSError):
            self._stream.shutdown(socket.SHUT_RDWR)
        self._stream.close()

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        view, done = memoryview(data), 0
        while done < size:
            try:
                count = self._stream.recv_into(view[done:])
            except OSError as error:
                raise LinkClosedError(str(error)) from None
            if count == 0:
                raise LinkClosedError("the end of the stream")
            done += count
        return data


def make_pair(patience_seconds: float) -> tuple[SocketLink, socket.socket]:
    """The coordinator's end, and the worker's as a socket to be handed to its process."""
    ours, theirs = socket.socketpair()
    return SocketLink(ours, patience_seconds), theirs
