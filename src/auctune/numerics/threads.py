"""Small linear algebra on one thread.

The products inside a quasi-Newton step are tiny: threads of the BLAS library that wait for each
other there cost more than they save, and many times more on a machine that is busy. One thread
also adds up in one order, so that a result does not depend on how many there are.
"""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """A block in which the BLAS libraries of this process use one thread."""
    limit: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limit


@cache
def _controller() -> ThreadpoolController:
    # Looking for loaded libraries takes milliseconds; those of scipy are loaded by now.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
