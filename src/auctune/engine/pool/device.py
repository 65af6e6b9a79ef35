"""The device of a pool, as the pool sees it: it sends requests, and returns what was replied.

The device decides nothing: the pool does, in the process that holds its log.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from auctune.domain import AuctuneError
from auctune.engine.messages.base import ErrorRecord
from auctune.engine.messages.pool import (
    ExportJob,
    JobExported,
    JobLoaded,
    LoadJob,
    MemoryState,
    PoolDone,
    PoolFailed,
    PoolReply,
    PoolRequest,
    ReleaseJob,
    SliceResult,
    SlicesTrained,
    StartPool,
    TrainQuantum,
)

T = TypeVar("T", PoolDone, JobLoaded, SlicesTrained, JobExported)


class JobFailedError(AuctuneError):
    """The code of a job, which may be a user's own, raised an error.

    Attributes:
        job: its id.
    """

    def __init__(self, job: str, message: str) -> None:
        super().__init__(message)
        self.job = job


def pool_failed(error: AuctuneError) -> PoolFailed:
    """Return the reply to a request that failed."""
    job = error.job if isinstance(error, JobFailedError) else None
    return PoolFailed(error=ErrorRecord.of(error), job=job)


class PoolDevice:
    """The device of a pool, as the pool sees it.

    Args:
        send: has a request handled, and returns the reply; what it raises, all methods raise.

    Attributes:
        memory: as of the newest reply.

    Raises (of all methods):
        JobFailedError: if the code of a job raises an error.
        AuctuneError: if the worker cannot do what is requested.
    """

    def __init__(self, send: Callable[[PoolRequest], PoolReply]) -> None:
        self._send = send
        self.memory = MemoryState()

    def start(self, request: StartPool) -> None:
        self._request(request, PoolDone)

    def load(self, request: LoadJob) -> JobLoaded:
        """Load a job.

        Raises:
            InputError: if it cannot be trained, or is too large for the device.
            CheckpointError: if its checkpoints cannot be used.
        """
        return self._request(request, JobLoaded)

    def train(self, request: TrainQuantum) -> Mapping[str, SliceResult]:
        """Return results by job; one for which there was no time is missing."""
        return self._request(request, SlicesTrained).results

    def export(self, request: ExportJob) -> bool:
        """Return whether the job has a result."""
        return self._request(request, JobExported).has_result

    def release(self, request: ReleaseJob) -> None:
        self._request(request, PoolDone)

    def _request(self, request: PoolRequest, response: type[T]) -> T:
        reply = self._send(request)
        if isinstance(reply, PoolFailed):
            if reply.job is not None:
                raise JobFailedError(reply.job, reply.error.found)
            raise reply.error.to_error(AuctuneError)
        assert isinstance(reply, response)
        self.memory = reply.memory
        return reply
