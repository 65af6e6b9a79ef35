"""A process that ends with its starter."""

import socket
import subprocess
import sys

PROGRAM = """
import signal, socket, sys
from auctune.run.tether import tether
stream = socket.socket(fileno=int(sys.argv[1]))
tether(stream.fileno())
stream.sendall(stream.recv(1))
signal.pause()
"""


def test_a_process_ends_when_its_starter_is_gone_and_not_before() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
            )
        ours.sendall(b"x")
        assert ours.recv(1) == b"x", "messages are not the tether's"
        assert process.poll() is None
    try:
        assert process.wait(60) == 0
    finally:
        process.kill()
