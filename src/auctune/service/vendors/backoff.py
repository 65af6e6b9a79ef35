"""Pauses between tries of a call that can be repeated without harm.

The n-th is uniform between 0 and min(longest, first * 2^n): "full jitter", so that callers that
failed together do not come back together (M. Brooker, Exponential Backoff and Jitter, 2015).
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from auctune.domain.checks import check_positive
from auctune.service.vendors.fault import Fault, VendorError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to pause.

    Attributes:
        first_seconds: the longest that the first pause can be.
        longest_seconds: the longest that any can be.
    """

    first_seconds: float = 0.1
    longest_seconds: float = 10.0

    def __post_init__(self) -> None:
        check_positive(self.first_seconds, "first_seconds", "seconds > 0")
        check_positive(self.longest_seconds, "longest_seconds", "seconds > 0")

    def pauses(self, uniform: Callable[[], float] = random.random) -> Iterator[float]:
        """Seconds, without an end; `uniform` draws from [0, 1)."""
        bound = self.first_seconds
        while True:
            bound = min(bound, self.longest_seconds)
            yield uniform() * bound
            bound *= 2


async def persist(
    call: Callable[[], Awaitable[T]], vendor: str, seconds: float, backoff: Backoff
) -> T:
    """What `call` returns, tried again after transient faults until the time is over.

    Raises:
        VendorError: a fault that is not transient; or LATE, with the last of those that are.
    """
    last: VendorError | None = None
    try:
        async with asyncio.timeout(seconds):
            for pause in backoff.pauses():
                try:
                    return await call()
                except VendorError as error:
                    if not error.is_transient:
                        raise
                    last = error
                await asyncio.sleep(pause)
    except TimeoutError:
        pass
    cause = f"; at last: {last.fault}: {last.detail}" if last else ""
    raise VendorError(vendor, Fault.LATE, f"no answer within {seconds:g} s{cause}")
