"""A process that exits with its peer."""

import socket
import subprocess
import sys

PROGRAM = """
import signal, socket, sys
from auctune.run.spot.worker import exit_with_peer
stream = socket.socket(fileno=int(sys.argv[1]))
exit_with_peer(stream.fileno())
stream.sendall(stream.recv(1))
signal.pause()
"""


def test_a_process_exits_when_its_peer_is_gone_and_not_before() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
            )
        ours.sendall(b"x")
        assert ours.recv(1) == b"x", "messages are left to others"
        assert process.poll() is None
    try:
        assert process.wait(60) == 0
    finally:
        process.kill()
