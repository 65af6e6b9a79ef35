"""A clock that is set forward or back by mistake is not believed; time that passed is."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from auctune.engine import unix_time as module
from auctune.engine.messages.node import NODE_MESSAGES
from auctune.engine.runtime.local import WorkerProcess
from auctune.engine.unix_time import SteadyClock, clock_environment, unix_time

LIMIT = 120.0


@dataclass
class Machine:
    """A machine's two clocks."""

    unix: float = 1_800_000_000.0
    boot: float = 5_000.0

    def clock(self, offset: float | None = None) -> SteadyClock:
        return SteadyClock(LIMIT, offset, lambda: self.unix, lambda: self.boot)

    def wait(self, seconds: float) -> None:
        """Time passes, whether or not anybody runs."""
        self.unix += seconds
        self.boot += seconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_time_that_passes_is_believed_however_long_nobody_looked(machine: Machine) -> None:
    clock = machine.clock()
    for seconds in (0.0, 45.0, 400 * 86_400.0):
        machine.wait(seconds)
        assert clock() == machine.unix
        assert clock.seconds_off == 0.0


@pytest.mark.parametrize(
    "jump", [LIMIT + 1, 3_600.0, 400 * 86_400.0, -LIMIT - 1, -10_800.0, -400 * 86_400.0]
)
def test_a_jump_is_not_believed_and_time_goes_on(machine: Machine, jump: float) -> None:
    clock = machine.clock()
    machine.unix += jump
    for _ in range(3):
        machine.wait(1_000.0)
        assert clock() == machine.unix - jump
        assert clock.seconds_off == jump
    machine.unix -= jump
    assert (clock(), clock.seconds_off) == (machine.unix, 0.0)


def test_a_process_that_starts_believes_the_clock_as_it_is(machine: Machine) -> None:
    machine.unix += 400 * 86_400.0
    clock = machine.clock()
    assert (clock(), clock.seconds_off) == (machine.unix, 0.0)


def test_small_steps_forward_are_believed_one_by_one(machine: Machine) -> None:
    clock = machine.clock()
    for _ in range(3):
        machine.unix += LIMIT
        assert (clock(), clock.seconds_off) == (machine.unix, 0.0)
    machine.unix += LIMIT + 1
    assert clock() == machine.unix - LIMIT - 1


def test_time_never_goes_back(machine: Machine) -> None:
    clock = machine.clock()
    before = clock()
    for step in (-LIMIT, -3_600.0, 3_600.0, -1.0, LIMIT / 2, LIMIT, -7_200.0):
        machine.unix += step
        machine.wait(1.0)
        assert before < (before := clock()) <= machine.unix + 7_200.0 + LIMIT
    machine.unix += 7_200.0
    assert (clock(), clock.seconds_off) == (machine.unix, 0.0)


def test_a_process_that_was_stopped_between_two_readings_reads_them_again(
    machine: Machine,
) -> None:
    stops = [400.0, 0.0]

    def unix() -> float:
        now = machine.unix
        machine.wait(stops.pop(0) if stops else 0.0)
        return now

    clock = SteadyClock(LIMIT, machine.unix - machine.boot, unix, lambda: machine.boot)
    assert clock.seconds_off == 0.0
    assert stops == []


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process of its own, as far as the clock sees."""
    monkeypatch.setattr(module, "_now", None)
    monkeypatch.setattr(module, "_shared", None)
    monkeypatch.setenv("AUCTUNE_CLOCK", "")
    monkeypatch.delenv("AUCTUNE_CLOCK")
    yield
    module._now = None


def test_a_child_that_starts_after_the_jump_believes_what_its_service_does(
    machine: Machine, shared: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = machine.clock()
    parent.share()
    limit, offset = map(float, os.environ["AUCTUNE_CLOCK"].split(":"))
    machine.unix += 3_600.0
    child = SteadyClock(limit, offset, lambda: machine.unix, lambda: machine.boot)
    assert child() == parent() == machine.unix - 3_600.0


def test_a_child_that_starts_after_many_small_steps_believes_them_as_its_service_does(
    machine: Machine, shared: None
) -> None:
    assert clock_environment() == {}
    parent = machine.clock()
    parent.share()
    for _ in range(3):
        machine.unix += LIMIT
        machine.wait(1.0)
        assert parent() == machine.unix
    said: list[Any] = []
    process = WorkerProcess("support.environment", "AUCTUNE_CLOCK", said.append, NODE_MESSAGES)
    process.exit_reason()
    process.kill()
    limit, offset = map(float, said[0].what.partition(" in ")[0].split(":"))
    child = SteadyClock(limit, offset, lambda: machine.unix, lambda: machine.boot)
    assert child() == parent() == machine.unix
    machine.unix += LIMIT + 1
    assert child() == parent() == machine.unix - LIMIT - 1


def test_a_process_of_no_service_has_the_machine_s_time(shared: None) -> None:
    import time

    before = time.time()
    assert before <= unix_time() <= time.time()


def test_time_goes_back_in_no_process_either(machine: Machine, shared: None) -> None:
    assert isinstance(module._of_environment(), SteadyClock)
    clock = SteadyClock(math.inf, None, lambda: machine.unix, lambda: machine.boot)
    begins = clock()
    machine.wait(5.0)
    machine.unix -= 3_600.0
    assert clock() == begins + 5.0
    machine.unix += 400 * 86_400.0
    assert (clock(), clock.seconds_off) == (machine.unix, 0.0)
