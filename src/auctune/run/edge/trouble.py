"""What befalls one job, and is no other's: no room for its data, no memory, a file that is gone.

It may be over by the job's next slot, so that this one alone comes to nothing.
"""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from auctune.domain.errors import AuctuneError

_ROOM = "the sites have no room for its data now"
_MEMORY = "there is too little memory for it now"
_ENDED = "a process that trained it ended, maybe for want of memory"
_FILE = "a file of it could not be read or written"
_OTHER = "what trained it ended with an error"


class TroubleError(AuctuneError):
    """A job's slot came to nothing.

    Args:
        why: for its owner.
        out_of_memory: whether it was for want of memory, as far as that is known.
    """

    def __init__(self, why: str, *, out_of_memory: bool = False) -> None:
        super().__init__(why)
        self.out_of_memory = out_of_memory


@contextmanager
def troubles() -> Iterator[None]:
    """A block of which a failure is one job's.

    Raises:
        TroubleError: in place of what memory, disks, PyTorch and Ray raise; that is written on
            standard error, for those who look after the sites.
    """
    import ray

    try:
        yield
    # PyTorch says with a RuntimeError that memory has run out.
    except (MemoryError, OSError, RuntimeError, ray.exceptions.RayError) as error:
        traceback.print_exc()
        raise TroubleError(in_words(error), out_of_memory=is_passing(error)) from error


def is_passing(error: Exception) -> bool:
    """Whether what an actor's call ended with may be over by the next slot."""
    return in_words(root_of(error)) in (_ROOM, _MEMORY, _ENDED)


def in_words(error: Exception) -> str:
    """What befell a job, without a word of where."""
    from ray import exceptions

    error = root_of(error)
    if isinstance(error, exceptions.ObjectStoreFullError | exceptions.OutOfDiskError):
        return _ROOM
    if isinstance(error, MemoryError | exceptions.OutOfMemoryError):
        return _MEMORY
    if "memory" in str(error):
        # Of any process that has crashed Ray says that its memory may have run out.
        return _ENDED if isinstance(error, exceptions.RayActorError) else _MEMORY
    # Ray's own are no files'.
    return _FILE if type(error).__module__ == "builtins" and isinstance(error, OSError) else _OTHER


def root_of(error: Exception) -> Exception:
    """What an actor's call ended with, without the way that it came."""
    from ray import exceptions

    while isinstance(error, exceptions.RayTaskError):
        error = error.cause
    return error
