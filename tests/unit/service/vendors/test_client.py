import asyncio

import pytest

from auctune.domain import InputError
from auctune.service.vendors import Fault, VendorError, VendorParams, VendorToken, retry
from auctune.service.vendors.protocol import TRANSIENT

TOKEN = VendorToken("s" * 32)


class Failing:
    """Fails in these ways, then returns 7; or fails in the last way for ever."""

    def __init__(self, *faults: Fault, for_ever: bool = False) -> None:
        self.calls = 0
        self._faults = faults
        self._for_ever = for_ever

    async def __call__(self) -> int:
        self.calls += 1
        if self.calls > len(self._faults) and not self._for_ever:
            return 7
        fault = self._faults[min(self.calls, len(self._faults)) - 1]
        raise VendorError("v", fault, f"call {self.calls}")


def run(call: Failing, seconds: float = 10.0) -> int:
    return asyncio.run(retry(call, "v", seconds))


def test_transient_faults_are_retried() -> None:
    call = Failing(*sorted(TRANSIENT))
    assert run(call) == 7
    assert call.calls == 4


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault not in TRANSIENT])
def test_other_faults_are_not_retried(fault: Fault) -> None:
    call = Failing(fault)
    with pytest.raises(VendorError) as caught:
        run(call)
    assert (caught.value.fault, call.calls) == (fault, 1)


def test_retries_end_in_time_and_name_the_last_fault() -> None:
    call = Failing(Fault.BUSY, for_ever=True)
    with pytest.raises(
        VendorError, match=r"late: no response within 0.5 s; last fault: busy: call"
    ):
        run(call, 0.5)
    assert call.calls > 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", ""),
        ("url", "http://vendor.example"),
    ],
)
def test_each_parameter_is_checked(name: str, value: object) -> None:
    values: dict[str, object] = {"name": "v", "url": "https://v", "token": TOKEN, name: value}
    with pytest.raises(InputError, match=name):
        VendorParams(**values)  # type: ignore[arg-type]


def test_a_token_does_not_show_in_the_parameters() -> None:
    assert "ssss" not in repr(VendorParams("v", "https://v", TOKEN))
