"""Errors of one job, which concern no other: no memory, no room for its data, a missing file.

They may be over by the job's next slot, so that only this one is lost.
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


class SlotError(AuctuneError):
    """A job's slot was not trained.

    Args:
        why: for its owner.
        out_of_memory: whether memory was too small, as far as that is known.
        rows_lost: whether rows of a lost site are needed that no other site can read.
    """

    def __init__(self, why: str, *, out_of_memory: bool = False, rows_lost: bool = False) -> None:
        super().__init__(why)
        self.out_of_memory, self.rows_lost = out_of_memory, rows_lost


@contextmanager
def as_slot_error() -> Iterator[None]:
    """Raise what memory, disks, PyTorch and Ray raise in the block as an error of one job.

    Raises:
        SlotError: in its place; the error itself is written to standard error, for operators.
    """
    import ray

    try:
        yield
    # PyTorch reports with a RuntimeError that memory has run out.
    except (MemoryError, OSError, RuntimeError, ray.exceptions.RayError) as error:
        traceback.print_exc()
        raise SlotError(describe(error), out_of_memory=is_transient(error)) from error


def is_transient(error: Exception) -> bool:
    """Return whether the error of an actor's call may be over by the next slot."""
    return describe(error) in (_ROOM, _MEMORY, _ENDED)


def describe(error: Exception) -> str:
    """Return an error in words for a job's owner, without paths."""
    from ray import exceptions

    error = unwrap(error)
    if isinstance(error, exceptions.ObjectStoreFullError | exceptions.OutOfDiskError):
        return _ROOM
    if isinstance(error, MemoryError | exceptions.OutOfMemoryError):
        return _MEMORY
    if "memory" in str(error):
        # Of any process that has crashed Ray says that its memory may have run out.
        return _ENDED if isinstance(error, exceptions.RayActorError) else _MEMORY
    # Errors of Ray that are an OSError are not about files.
    return _FILE if type(error).__module__ == "builtins" and isinstance(error, OSError) else _OTHER


def unwrap(error: Exception) -> Exception:
    """Return the error that an actor's call ended with, as it was raised."""
    from ray import exceptions

    while isinstance(error, exceptions.RayTaskError):
        error = error.cause
    return error
