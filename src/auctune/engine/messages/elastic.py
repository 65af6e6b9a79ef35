"""Requests to the workers of an elastic job and to the store of a site, and their responses.

A worker first sends `Ready`, a gradient worker `GradientWorkerReady`. Each request names its
response; any may be answered by `Failed` instead. Weights and gradients are float32
[num_parameters]; a request without weights uses those of the previous request. Rows are uint8
[bytes], as `dump_rows` of the gradient worker writes them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np

from auctune.domain.epoch_metrics import EpochMetrics
from auctune.domain.training import Method
from auctune.engine.messages.base import (
    Alive,
    Arrays,
    Failed,
    Ready,
    Response,
    Stop,
    WorkerMessages,
)
from auctune.train.checkpoint import Checkpoint
from auctune.train.data_parallel.batches import ChunkRows, Contribution, RowRange
from auctune.train.job import CurvePoint, ReducerProgress
from auctune.train.row_cursor import DataCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Contributions:
    """Micro-batches: a column for each field of `Contribution`; the arrays are the gradients."""

    losses: Sequence[float] = ()
    hits: Sequence[int] = ()
    num_targets: Sequence[int] = ()
    num_tokens: Sequence[int] = ()
    arrays: Arrays = ()

    def with_contributions(self, contributions: Sequence[Contribution]) -> Self:
        """Return the message with some micro-batches."""
        return replace(
            self,
            losses=[one.loss for one in contributions],
            hits=[one.hits for one in contributions],
            num_targets=[one.num_targets for one in contributions],
            num_tokens=[one.num_tokens for one in contributions],
            arrays=[one.gradient for one in contributions],
        )

    def split(self) -> list[Contribution]:
        """Return each micro-batch."""
        columns = (self.arrays, self.losses, self.hits, self.num_targets, self.num_tokens)
        return [Contribution(*values) for values in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFields:
    """A checkpoint: `arrays` are its tensors, of these names."""

    names: Sequence[str] = ()
    state: dict[str, Any] = field(default_factory=dict)
    arrays: Arrays = ()

    def with_checkpoint(self, checkpoint: Checkpoint) -> Self:
        """Return the message with a checkpoint."""
        arrays = [np.asarray(one).reshape(-1) for one in checkpoint.tensors.values()]
        return replace(self, names=[*checkpoint.tensors], state=checkpoint.state, arrays=arrays)

    def checkpoint(self) -> Checkpoint:
        """Return the checkpoint."""
        return Checkpoint(dict(zip(self.names, self.arrays, strict=True)), self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientWorkerReady(Ready):
    """The worker has loaded the base of this digest."""

    base_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFile:
    """Read the job's rows from its file: `FileLoaded`."""

    type: Literal["load_file"] = "load_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLoaded(Response):
    """The rows of the job's file; `notes` say which are truncated or left out."""

    counts: DataCounts
    notes: tuple[str, ...]
    type: Literal["file_loaded"] = "file_loaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadChunks:
    """Load rows of chunks of these numbers, and maybe, last, rows to measure by: `ChunksLoaded`."""

    chunks: Sequence[int]
    has_validation: bool
    arrays: Arrays
    type: Literal["load_chunks"] = "load_chunks"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksLoaded(Response):
    """Counts of the rows that can be trained on by chunk, and of those to measure by."""

    sizes: Mapping[int, int]
    num_validation_rows: int
    type: Literal["chunks_loaded"] = "chunks_loaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitializeAdapter:
    """Initialize the adapter: `AdapterInitialized`.

    If the job starts from another one, references of pairs are computed by that one later; its
    archive is the array, uint8 [bytes], unless it is in a file here.
    """

    arrays: Arrays = ()
    type: Literal["initialize_adapter"] = "initialize_adapter"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterInitialized(Response):
    """Shapes of the adapter's parameters by their names, and its weights before the first step."""

    shapes: Mapping[str, tuple[int, ...]]
    arrays: Arrays
    type: Literal["adapter_initialized"] = "adapter_initialized"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Compute micro-batches at these weights: `Computed`."""

    parts: Sequence[ChunkRows | RowRange]
    arrays: Arrays = ()
    type: Literal["compute"] = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate:
    """Evaluate rows to measure by, from `first` on, at these weights: `Computed`."""

    first: int
    count: int
    arrays: Arrays = ()
    type: Literal["validate"] = "validate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed(Contributions, Response):
    """Micro-batches that were computed; rows that are only evaluated have no gradient."""

    type: Literal["computed"] = "computed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Export the adapter of these weights: `Exported`; `metrics` are those of an epoch's."""

    metrics: EpochMetrics | None = None
    arrays: Arrays = ()
    type: Literal["export"] = "export"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported(Response):
    """Files of an adapter: their names, and their contents as uint8 [bytes]."""

    names: Sequence[str]
    arrays: Arrays
    type: Literal["exported"] = "exported"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReducer(CheckpointFields):
    """Start from a checkpoint, or from first weights: `Reduced`.

    Attributes:
        names: empty without a checkpoint: then the only array is the first weights.
        num_parameters: of the adapter; read only with a checkpoint.
        counts, shapes: of the rows of a file, and of the adapter's parameters by name.
        total_rows: over all epochs, where `counts` is None: the rows are chunks at sites.
    """

    base_digest: str
    num_parameters: int
    counts: DataCounts | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    total_rows: int = 0
    type: Literal["start_reducer"] = "start_reducer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce(Contributions):
    """Add gradients up in their order: `Added`, or `Reduced` after a step.

    Attributes:
        num_rows: rows of each micro-batch.
        is_last: whether they end a batch, so that a step is taken.
    """

    num_rows: Sequence[int]
    is_last: bool
    type: Literal["reduce"] = "reduce"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountValidated(Contributions):
    """Count rows of the validation data of a file: `Added`, or `Reduced` at an epoch's end.

    Attributes:
        num_rows: rows of each micro-batch.
        is_last: whether they end the validation of an epoch.
    """

    num_rows: Sequence[int]
    is_last: bool
    type: Literal["count_validated"] = "count_validated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Added(Response):
    """Micro-batches were added or counted, and more will follow before the weights change."""

    type: Literal["added"] = "added"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced(Response):
    """Progress and weights of the training: at its start, after a step, and at an epoch's end.

    Attributes:
        points: of the curve: all known ones at the start, later that of the step.
        warnings: on the checkpoint.
        arrays: the weights; at an epoch's end, they may be those of an earlier one again.
    """

    progress: ReducerProgress
    points: Sequence[CurvePoint] = ()
    warnings: Sequence[str] = ()
    arrays: Arrays
    type: Literal["reduced"] = "reduced"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveReducer:
    """Return all that training goes on from: `ReducerSaved`."""

    type: Literal["save_reducer"] = "save_reducer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducerSaved(CheckpointFields, Response):
    """A checkpoint of the training."""

    type: Literal["reducer_saved"] = "reducer_saved"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRows:
    """Read the rows of a site, and cut them into chunks: `RowsRead`.

    Attributes:
        source: file of the rows; an upload's content is the array, uint8 [bytes].
        seed: draws the order of rows.
        method: of the job.
        place: how errors call the file.
        sha256: of the content that was read before, or None.
    """

    site: str
    source: str
    num_chunks: int
    seed: int
    method: Method
    place: str
    sha256: str | None
    arrays: Arrays = ()
    type: Literal["read_rows"] = "read_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsRead(Response):
    """Chunks of a site's rows; `sizes` are the bytes of their texts."""

    sha256: str
    num_rows: int
    sizes: Sequence[int]
    arrays: Arrays
    type: Literal["rows_read"] = "rows_read"


# Requests that are answered: those of a worker, without `Stop`.
GradientRequest = LoadFile | LoadChunks | InitializeAdapter | Compute | Validate | Export
GradientResponse = FileLoaded | ChunksLoaded | AdapterInitialized | Computed | Exported
GradientReply = Alive | GradientWorkerReady | GradientResponse | Failed
GRADIENT_MESSAGES = WorkerMessages(GradientRequest | Stop, GradientReply)
ReducerRequest = StartReducer | Reduce | CountValidated | SaveReducer
ReducerResponse = Added | Reduced | ReducerSaved
ReducerReply = Alive | Ready | ReducerResponse | Failed
REDUCER_MESSAGES = WorkerMessages(ReducerRequest | Stop, ReducerReply)
StoreReply = Alive | Ready | RowsRead | Failed
STORE_MESSAGES = WorkerMessages(ReadRows | Stop, StoreReply)
