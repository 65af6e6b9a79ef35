"""Errors of one job, which concern no other: no memory, no room for its data, a missing file.

They may be over by the job's next slot, so that only this one is lost.
"""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from auctune.domain.errors import AuctuneError
from auctune.engine.messages.base import ErrorRecord, Failed
from auctune.engine.runtime.requests import WorkerEndedError

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
    """Raise whatever memory, disks, PyTorch and Ray raise in the block as an error of one job.

    Raises:
        SlotError: in its place; the error itself is written to standard error, for operators.
    """
    try:
        yield
    except WorkerEndedError as error:
        raise to_slot_error(error) from error
    except AuctuneError:
        raise
    except Exception as error:
        raise to_slot_error(error) from error


def to_slot_error(error: Exception) -> SlotError:
    """Return an error in words for a job's owner, without paths; print it, for operators.

    If memory was too small, it may be over by the next slot.
    """
    traceback.print_exception(error)
    if isinstance(error, WorkerEndedError):
        # Of a process that was killed nobody knows why.
        return SlotError(_ENDED, out_of_memory=True)
    if "ray" in sys.modules:
        from ray.exceptions import ObjectStoreFullError, OutOfDiskError

        if isinstance(error, ObjectStoreFullError | OutOfDiskError):
            return SlotError(_ROOM, out_of_memory=True)
    if isinstance(error, MemoryError) or "memory" in str(error):
        return SlotError(_MEMORY, out_of_memory=True)
    # Errors of Ray that are an OSError are not about files.
    if isinstance(error, OSError) and type(error).__module__ == "builtins":
        return SlotError(_FILE)
    return SlotError(f"{_OTHER} ({type(error).__name__})")


def failed_message(error: Exception) -> Failed:
    """Return the message with which a worker reports an error of a job."""
    if not isinstance(error, AuctuneError):
        error = to_slot_error(error)
    record = ErrorRecord.of(error)
    if isinstance(error, SlotError):
        record = replace(record, out_of_memory=error.out_of_memory)
    return Failed(error=record)


def read_failure(message: Failed) -> AuctuneError:
    """Return the error that `failed_message` reported; one without a place as a `SlotError`."""
    record = message.error
    return record.to_error(partial(SlotError, out_of_memory=record.out_of_memory))
