"""What goes wrong in a thread: its code may be a user's own, and anything may come out of it."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from auctune.domain import AuctuneError, InputError


class ThreadFailedError(AuctuneError):
    """The code of a thread ended with an error of its own.

    Attributes:
        thread: its name.
    """

    def __init__(self, thread: str, what: str) -> None:
        super().__init__(f"{thread} failed {what}")
        self.thread = thread


@contextmanager
def named_failures(thread: str, doing: str) -> Iterator[None]:
    """A block that runs the code of a thread.

    Args:
        thread: its name.
        doing: what it is asked for, as errors say it.

    Raises:
        ThreadFailedError: naming thread, error and line, whatever went wrong in its code.
        InputError: naming the thread, if it refused what it was given.
    """
    try:
        yield
    except InputError as error:
        raise error.within(thread) from None
    except AuctuneError:
        raise
    except Exception as error:
        (*_, last) = traceback.extract_tb(error.__traceback__)
        what = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
        raise ThreadFailedError(thread, f"{doing}: {what}") from error
