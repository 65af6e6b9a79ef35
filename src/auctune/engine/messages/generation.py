"""Requests to a process that generates answers on one base, and its replies.

| request | replies |
| --- | --- |
| (its start) | `Ready`, or `Failed` without a request |
| `Generate` | `Generated` with its pieces, or one `Failed` |
| `MeasureSize` | `SizeMeasured`, or one `Failed` |
| `Cancel` | none: no further piece comes |
"""

from dataclasses import dataclass
from typing import Literal

from auctune.domain.generation import Piece, Request, RequestSize
from auctune.engine.messages.base import Alive, Failed, Ready, Response, Stop, WorkerMessages


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate:
    """Request for answers or a score; `id` is returned by the replies as `request`.

    Attributes:
        user: any name; users share the process.
        weight: of the user, as of `FairShare`.
    """

    id: str
    user: str = ""
    weight: float = 1.0
    request: Request
    type: Literal["generate"] = "generate"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSize:
    """Request for the size of a user's request; attributes as of `Generate`."""

    id: str
    user: str = ""
    weight: float = 1.0
    request: Request
    type: Literal["measure_size"] = "measure_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """The replies to a request are not needed any more."""

    id: str
    type: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedPiece:
    """A piece of the reply to a request.

    Attributes:
        seconds: of the processor, that the request has used since its last piece.
    """

    request: str
    piece: Piece
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """Pieces of the replies to some requests, such as those of a step."""

    pieces: tuple[GeneratedPiece, ...]
    type: Literal["generated"] = "generated"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeMeasured(Response):
    """The size of a request."""

    request: str
    size: RequestSize
    type: Literal["size_measured"] = "size_measured"


GeneratorRequest = Generate | MeasureSize | Cancel | Stop
GeneratorReply = Alive | Ready | Generated | SizeMeasured | Failed
GENERATOR_MESSAGES = WorkerMessages(GeneratorRequest, GeneratorReply)
