"""Requests to a process that generates answers on one base, and its replies.

| request | replies |
| --- | --- |
| (its start) | `Ready`, or `Failed` without a request |
| `Generate` | `Generated` for each piece, or one `Failed` |
| `MeasureSizes` | `SizesMeasured`, or one `Failed` |
| `Cancel` | none: no further piece comes |
"""

from dataclasses import dataclass
from typing import Literal

from auctune.domain.generation import Piece, Request, RequestSize
from auctune.engine.messages.base import Alive, Failed, Ready, Response, Stop, WorkerMessages


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """Request for answers or a score; `id` is returned by the replies as `request`."""

    id: str
    request: Request
    type: Literal["generate"] = "generate"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSizes:
    """Request for the sizes of requests."""

    id: str
    requests: tuple[Request, ...]
    type: Literal["measure_sizes"] = "measure_sizes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """The replies to a request are not needed any more."""

    id: str
    type: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """A piece of the reply to a request."""

    request: str
    piece: Piece
    type: Literal["generated"] = "generated"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesMeasured(Response):
    """The sizes of some requests, in their order."""

    request: str
    sizes: tuple[RequestSize, ...]
    type: Literal["sizes_measured"] = "sizes_measured"


GeneratorRequest = Generate | MeasureSizes | Cancel | Stop
GeneratorReply = Alive | Ready | Generated | SizesMeasured | Failed
GENERATOR_MESSAGES = WorkerMessages(GeneratorRequest, GeneratorReply)
