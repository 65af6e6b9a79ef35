"""A zone's clock goes on when no file can be opened for a while, and ends with anything else."""

import asyncio
import errno

import pytest

from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.core.worker import run_every_slot


class Failing:
    """What a zone does as time passes: it fails with one error after the other."""

    def __init__(self, *errors: Exception) -> None:
        self._errors = list(errors)

    async def __call__(self) -> None:
        raise self._errors.pop(0)


def ends_with(*errors: Exception) -> list[Exception]:
    alarms: list[Exception] = []
    clock = SlotClock(0.0, 0.01, lambda: 5.0)
    asyncio.run(run_every_slot(clock, Failing(*errors), 0.01, alarms.append))
    return alarms


def test_too_many_open_files_do_not_end_it() -> None:
    end = RuntimeError("memory is wrong")
    full = [OSError(number, "too many open files") for number in (errno.EMFILE, errno.ENFILE)]
    assert ends_with(*full, end) == [end]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_other_errors_of_the_system_do(number: int) -> None:
    end = OSError(number, "no")
    assert ends_with(end) == [end]
