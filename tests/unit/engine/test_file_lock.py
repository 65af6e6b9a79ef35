"""A folder belongs to one process at a time."""

import subprocess
import sys
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.file_lock import lock_file

# Takes the lock, leaves a child that holds it until its standard input closes, and is killed.
KILLED_MARKET = """
import os, subprocess, sys
from pathlib import Path
from auctune.engine.file_lock import lock_file
with lock_file(Path(sys.argv[1]), "market") as lock:
    node = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=int(sys.argv[2]), stdout=subprocess.DEVNULL, pass_fds=[lock],
    )
    os.kill(os.getpid(), 9)
"""


def test_a_lock_is_held_by_one_at_a_time_and_free_afterwards(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    refused = pytest.raises(InputError, match="the run: is in use by another process")
    with lock_file(path, "the run"), refused, lock_file(path, "the run"):
        raise AssertionError("held twice")
    with lock_file(path, "the run") as descriptor:
        assert descriptor > 2


def test_whoever_comes_after_a_killed_market_waits_for_its_nodes(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    node = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert node.stdin is not None
    assert node.stdout is not None
    market = subprocess.run(
        [sys.executable, "-c", KILLED_MARKET, str(path), str(node.stdout.fileno())],
        pass_fds=[node.stdout.fileno()],
        check=False,
    )
    assert market.returncode == -9
    waiting = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path\n"
            "from auctune.engine.file_lock import lock_file\n"
            "print('begin', flush=True)\n"
            "with lock_file(Path(sys.argv[1]), 'run'): print('held')",
            str(path),
        ],
        stdout=subprocess.PIPE,
    )
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == b"begin\n"
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(0.3)

    # The pipe that the left-over node reads from closes.
    node.stdin.close()
    node.stdout.close()

    assert waiting.stdout.readline() == b"held\n"
    assert waiting.wait() == 0
    assert node.wait() == 0
    waiting.stdout.close()
