"""Errors of one job, which concern no other: no memory, no room for its data, a missing file.

They may be over by the job's next slot, so that only this one is lost.
"""

import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from auctune.domain.errors import AuctuneError, InputError
from auctune.engine.runtime.channel import Message, ParentChannel, error_record, read_error

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
    """Raise what memory, disks and PyTorch raise in the block as an error of one job.

    Raises:
        SlotError: in its place; the error itself is written to standard error, for operators.
    """
    try:
        yield
    # PyTorch reports with a RuntimeError that memory has run out.
    except (MemoryError, OSError, RuntimeError) as error:
        traceback.print_exc()
        raise to_slot_error(error) from error


def to_slot_error(error: Exception) -> SlotError:
    """Return an error in words for a job's owner, without paths.

    If memory was too small, it may be over by the next slot.
    """
    if "ray" in sys.modules:
        from ray.exceptions import ObjectStoreFullError, OutOfDiskError

        if isinstance(error, ObjectStoreFullError | OutOfDiskError):
            return SlotError(_ROOM, out_of_memory=True)
    if isinstance(error, MemoryError) or "memory" in str(error):
        return SlotError(_MEMORY, out_of_memory=True)
    if isinstance(error, OSError):
        return SlotError(_FILE)
    return SlotError(f"{_OTHER} ({type(error).__name__})")


def worker_ended() -> SlotError:
    """Return the error of a worker that ended: of a process that was killed nobody knows why."""
    return SlotError(_ENDED, out_of_memory=True)


def serve(parent: ParentChannel[Any], verbs: Mapping[str, Callable[[Message], Message]]) -> None:
    """Answer the requests of a worker's parent, until it is to stop.

    Args:
        parent: of the worker.
        verbs: by what a request says is to `do`; each returns the answer.
    """
    while (message := parent.inbox.get())["do"] != "stop":
        try:
            parent.send(verbs[message["do"]](message))
        except AuctuneError as error:
            parent.send({"kind": "failed", **error_record(error)})
        # Whatever a job's rows or the lack of memory bring about ends the worker of no other slot.
        except Exception as error:
            traceback.print_exc()
            found = to_slot_error(error)
            record = error_record(found) | {"out_of_memory": found.out_of_memory}
            parent.send({"kind": "failed", **record})


def read_failure(message: Mapping[str, Any]) -> AuctuneError:
    """Return the error of a worker's message `failed`."""
    error = read_error(message, SlotError)  # type: ignore[arg-type]
    if isinstance(error, InputError):
        return error
    return SlotError(message["found"], out_of_memory=message.get("out_of_memory", False))
