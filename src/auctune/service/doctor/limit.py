"""A call with a time limit, whatever it hangs on: a disk, a driver, a server that is silent."""

import threading
from collections.abc import Callable
from typing import TypeVar

from auctune.domain import AuctuneError

T = TypeVar("T")


class HungError(AuctuneError):
    """A call has not come back in time."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """What a call returns, or raises.

    It runs on a thread of its own; one that does not come back is left to the end of the process.

    Args:
        seconds: that it may take.
        call: made once.

    Raises:
        HungError: if it takes longer.
    """
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not answers:
        raise HungError(f"did not end within {seconds:g} s")
    return answers[0]
