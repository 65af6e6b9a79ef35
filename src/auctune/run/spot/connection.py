"""Message channel between coordinator and worker: a JSON header, and an array as raw bytes.

    4 bytes length of the header, 8 bytes length of the array, header, array

A message is read whole or not at all: a worker that is killed while it sends leaves the end of the
stream, and no shared memory that would be half written.
"""

import json
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]

_LENGTHS = struct.Struct("!IQ")


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message.

    Attributes:
        header: plain values; "kind" is its type.
        array: float32 [n], empty if there is none; owned by the receiver.
    """

    header: dict[str, Any]
    array: Floats32


class ConnectionClosedError(Exception):
    """The other side is gone."""


class Connection:
    """One end of a stream socket; one thread may send while another receives.

    Args:
        stream: connected; owned by the connection.
        send_timeout: seconds that a receiver may accept nothing before it counts as gone; 0: no
            limit. Receiving has no timeout, as an answer may take any time.
    """

    def __init__(self, stream: socket.socket, send_timeout: float = 0.0) -> None:
        self._stream = stream
        if send_timeout:
            timeval = struct.pack("ll", int(send_timeout), int(send_timeout % 1 * 1e6))
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeval)

    def send(self, header: dict[str, Any], array: Floats32 | None = None) -> None:
        """Send a message.

        Raises:
            ConnectionClosedError: if the other side is gone, or accepts nothing for too long.
        """
        text = json.dumps(header).encode()
        body = b"" if array is None else array.tobytes()
        try:
            self._stream.sendall(_LENGTHS.pack(len(text), len(body)) + text)
            self._stream.sendall(body)
        except OSError as error:
            raise ConnectionClosedError(str(error)) from None

    def receive(self) -> Message:
        """Wait for the next message.

        Raises:
            ConnectionClosedError: if the other side is gone.
        """
        num_text, num_body = _LENGTHS.unpack(self._read(_LENGTHS.size))
        header: dict[str, Any] = json.loads(bytes(self._read(num_text)))
        return Message(header, np.frombuffer(self._read(num_body), dtype=np.float32))

    def close(self) -> None:
        """Close it; a thread that waits on either side gets an error. May be called again."""
        # Fails if the other side closed first.
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
                raise ConnectionClosedError(str(error)) from None
            if count == 0:
                raise ConnectionClosedError("the end of the stream")
            done += count
        return data


def open_pair(send_timeout: float) -> tuple[Connection, socket.socket]:
    """Return the coordinator's end, and the worker's as a socket to pass to its process."""
    ours, theirs = socket.socketpair()
    return Connection(ours, send_timeout), theirs
