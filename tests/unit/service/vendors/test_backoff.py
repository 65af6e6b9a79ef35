import asyncio
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auctune.domain import InputError
from auctune.service.vendors import Backoff, Fault, VendorError
from auctune.service.vendors.backoff import persist


@given(st.floats(0.001, 1), st.floats(0.001, 100), st.floats(0, 1, exclude_max=True))
def test_a_pause_is_a_share_of_a_bound_that_doubles_up_to_the_longest(
    first: float, longest: float, share: float
) -> None:
    pauses = islice(Backoff(first, longest).pauses(lambda: share), 8)
    expected = [share * min(longest, first * 2**n) for n in range(8)]
    assert list(pauses) == pytest.approx(expected)


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_pauses_without_length_are_refused(seconds: float) -> None:
    with pytest.raises(InputError):
        Backoff(first_seconds=seconds)
    with pytest.raises(InputError):
        Backoff(longest_seconds=seconds)


class Failing:
    """Fails in these ways, then returns 7; the last way again and again if it is not to end."""

    def __init__(self, *faults: Fault, ends: bool = True) -> None:
        self.calls = 0
        self._faults = faults
        self._ends = ends

    async def __call__(self) -> int:
        self.calls += 1
        if self.calls > len(self._faults) and self._ends:
            return 7
        fault = self._faults[min(self.calls, len(self._faults)) - 1]
        raise VendorError("v", fault, f"call {self.calls}")


def run(call: Failing, seconds: float = 10.0) -> int:
    return asyncio.run(persist(call, "v", seconds, Backoff(0.001, 0.01)))


def test_what_may_be_over_in_a_moment_is_tried_again() -> None:
    call = Failing(Fault.BUSY, Fault.UNREACHABLE, Fault.LATE)
    assert run(call) == 7
    assert call.calls == 4


@pytest.mark.parametrize(
    "fault", [fault for fault in Fault if fault not in (Fault.BUSY, Fault.UNREACHABLE, Fault.LATE)]
)
def test_what_would_be_the_same_again_is_not_tried_again(fault: Fault) -> None:
    call = Failing(fault)
    with pytest.raises(VendorError) as caught:
        run(call)
    assert (caught.value.fault, call.calls) == (fault, 1)


def test_trying_ends_with_the_time_and_says_what_was_wrong_at_last() -> None:
    call = Failing(Fault.BUSY, ends=False)
    with pytest.raises(VendorError, match=r"late: no answer within 0.1 s; at last: busy: call"):
        run(call, 0.1)
    assert call.calls > 1
