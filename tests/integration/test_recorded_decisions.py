"""Every mechanism decides what it decided when its decisions were recorded, to the last bit.

A change that is meant to change nothing leaves this test and its file as they are.
"""

import json
import os
import subprocess
import sys

import pytest

from support import recorded_decisions
from support.recorded_decisions import RECORDED


@pytest.mark.slow
def test_all_decisions_and_payments_are_the_recorded_ones() -> None:
    recorded = json.loads(RECORDED.read_text())
    done = subprocess.run(
        [sys.executable, recorded_decisions.__file__],
        env={**os.environ, **recorded_decisions.ENVIRONMENT},
        stdout=subprocess.PIPE,
        check=True,
    )
    found = json.loads(done.stdout)
    assert {name for name in recorded if found.get(name) != recorded[name]} == set()
    assert found.keys() == recorded.keys()
