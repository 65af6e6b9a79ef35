"""Messages that workers of all kinds share, and how a kind of worker declares its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from pydantic import ConfigDict, Field, TypeAdapter

from auctune.domain import AuctuneError, InputError
from auctune.domain.errors import OutOfMemoryError, RepairableError

Array = NDArray[Any]
"""An array of a message: float32, int64 or uint8, of one dimension."""

Arrays = Sequence[Any]
"""Arrays of a message: the type of its field `arrays`, which is sent beside the others. On a Ray
cluster some may be references into the object store."""


class Response:
    """Reply that completes a request."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Request to save all work and to exit."""

    type: Literal["stop"] = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """Heartbeat of a worker; every worker sends it once a second."""

    type: Literal["alive"] = "alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A worker's process runs.

    Attributes:
        pid: its id.
        host: its machine, if it is another one.
        node: id of its Ray node, if it is on a cluster.
    """

    pid: int
    host: str = ""
    node: str = ""
    type: Literal["started"] = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The worker takes requests."""

    type: Literal["ready"] = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """The machine or the cluster of a worker is missing."""

    what: str
    type: Literal["missing"] = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """Progress of what takes long before a worker is ready; `share` is of the whole, in [0, 1]."""

    what: str
    share: float
    type: Literal["preparing"] = "preparing"


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An error as plain values; only an `InputError` has a place.

    Attributes:
        place, found, expected: of an `InputError`; of another error, `found` is its text.
        repairable: whether a vendor may repair the data.
        out_of_memory: whether memory was too small.
        unreadable: whether a file could not be read now.
    """

    place: str
    found: str
    expected: str
    repairable: bool = False
    out_of_memory: bool = False
    unreadable: bool = False

    @classmethod
    def of(cls, error: AuctuneError) -> "ErrorRecord":
        """Return an error as plain values."""
        if isinstance(error, InputError):
            is_repairable = isinstance(error, RepairableError)
            return cls(error.place, error.found, error.expected, repairable=is_repairable)
        return cls("", str(error), "", out_of_memory=isinstance(error, OutOfMemoryError))

    def to_error(self, otherwise: Callable[[str], AuctuneError]) -> AuctuneError:
        """Return the error that it was made of; one without a place as `otherwise`."""
        if self.place:
            kind = RepairableError if self.repairable else InputError
            return kind(self.place, self.found, self.expected)
        return otherwise(self.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Response):
    """A request failed, or the worker could not start, and exits.

    Attributes:
        error: why.
        request: id of the request; empty if there is none.
    """

    error: ErrorRecord
    request: str = ""
    type: Literal["failed"] = "failed"


class WorkerMessages:
    """Unions of the requests to a kind of worker, and of its replies.

    Args:
        requests: union of the requests, `Stop` among them.
        replies: union of the replies, `Alive` among them.
    """

    def __init__(self, requests: Any, replies: Any) -> None:
        self.requests, self.replies = _adapter(requests), _adapter(replies)


def _adapter(union: Any) -> TypeAdapter[Any]:
    if isinstance(union, type):
        # A single class, as of a worker whose only request is `Stop`.
        return TypeAdapter(union)
    # Losses need not be finite, and both ends are Python.
    config = ConfigDict(ser_json_inf_nan="constants")
    return TypeAdapter(Annotated[union, Field(discriminator="type")], config=config)


IDLE_MESSAGES = WorkerMessages(Stop, Alive)
"""Messages of a worker that only runs until it is stopped."""
