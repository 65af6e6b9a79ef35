"""Small linear algebra on one thread.

The products inside a quasi-Newton step are tiny: threads of the BLAS library that wait for each
other there cost more than they save, and many times more on a machine that is busy. One thread
also adds up in one order, so that a result does not depend on how many there are.

The number of threads belongs to the process, and blocks of several of its threads may overlap in
any order: the first to begin sets it, the last to end puts it back. threadpoolctl lets no thread
change it while another one that did so is alive: so threads that end at once do.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, Thread
from typing import Protocol

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Return a block in which the BLAS libraries of this process use one thread."""
    _shared.enter()
    try:
        yield
    finally:
        _shared.leave()


class _Limit(Protocol):
    def restore_original_limits(self) -> None: ...


class _Shared:
    """The limit, while anyone is inside."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._num_inside = 0
        self._limit: _Limit | None = None

    def enter(self) -> None:
        with self._lock:
            if self._num_inside == 0:
                _apart(self._set)
            self._num_inside += 1

    def leave(self) -> None:
        with self._lock:
            self._num_inside -= 1
            if self._num_inside == 0:
                _apart(self._put_back)

    def _set(self) -> None:
        self._limit = _controller().limit(limits=1, user_api="blas")

    def _put_back(self) -> None:
        assert self._limit is not None
        self._limit.restore_original_limits()
        self._limit = None


def _apart(act: Callable[[], None]) -> None:
    """Do it in a thread that is over when it is done."""
    thread = Thread(target=act)
    thread.start()
    thread.join()


_shared = _Shared()


@cache
def _controller() -> ThreadpoolController:
    # Looking for loaded libraries takes milliseconds; those of scipy are loaded by now.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
