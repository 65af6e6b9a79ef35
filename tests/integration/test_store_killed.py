"""kill -9 of the process that writes: what was acknowledged is there, and nothing in part."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.waits import WAIT_SECONDS

pytest_plugins = ["support.store_fixtures"]
pytestmark = pytest.mark.slow

KILLER = Path(__file__).with_name("store_killer.py")
ROUNDS = 10


def test_killed_writers_lose_no_acknowledged_unit_and_leave_none_in_part(database: str) -> None:
    killed = subprocess.run(
        [sys.executable, str(KILLER), database, str(ROUNDS), "20240813"],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert killed.returncode == 0, killed.stderr
    rounds = [json.loads(line) for line in killed.stdout.splitlines()]
    assert len(rounds) == ROUNDS
    assert [(seen["lost"], seen["in_part"]) for seen in rounds] == [(0, 0)] * ROUNDS
    written = [seen["whole"] for seen in rounds]
    assert written == sorted(set(written)), "each writer went on from the one before"
