"""The soak counts the faults that it injects, and those that found nothing to break."""

import random
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from soak.faults import NODE_FAULTS, Fault, FaultInjector, child_killed
from support.processes import kill
from support.waits import poll

MODULE = "support.waits"


def injected(fault: Fault, **attributes: object) -> tuple[Counter[str], Counter[str]]:
    """The counts after a fault was injected once."""
    counts = {"fault_counts": Counter[str](), "missed_fault_counts": Counter[str]()}
    environment: Any = SimpleNamespace(**counts, **attributes)
    FaultInjector(cast(Any, environment), [fault], random.Random(0), lambda _: None)._inject()
    return counts["fault_counts"], counts["missed_fault_counts"]


@pytest.mark.parametrize("fault", NODE_FAULTS)
def test_a_fault_that_finds_nothing_to_break_is_not_counted_as_injected(fault: Fault) -> None:
    child = subprocess.Popen(["sleep", "600"])
    nowhere = SimpleNamespace(pid=child.pid)
    done, missed = injected(fault, cluster=nowhere, nodes_up=["one"], nodes_drained=set())
    kill(child.pid)
    child.wait()
    assert (done, missed) == ({}, {fault.name: 1})


def test_a_process_that_is_killed_is_counted() -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1], '{}'])"
    sleep = "import time; time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", program.format(MODULE), sleep])
    fault = child_killed("the child", MODULE)
    service = SimpleNamespace(pid=child.pid)
    poll(lambda: injected(fault, service=service)[0])
    assert child.wait() == 0
