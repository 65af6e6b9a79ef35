"""Which rows of a concatenated batch belong to which adapter.

Rows of one adapter lie next to each other. The fused layers find the routing of the running pass
on a `Switchboard` that they share, since a model's forward method has no argument for it. It stays
there until the backward pass has ended: gradient checkpointing runs forward passes within it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

Bounds = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Segment:
    """Rows first, first + 1, ..., last - 1 of a batch, which belong to one adapter."""

    adapter: str
    first: int
    last: int


@dataclass(frozen=True)
class Routing:
    """The segments of one batch.

    Attributes:
        segments: in the order of their rows, without a gap, from row 0 on.
        row_keys: int64 [rows], a key for the dropout mask of each row.
    """

    segments: tuple[Segment, ...]
    row_keys: Tensor
    _columns: dict[tuple[object, ...], Tensor] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        starts = [segment.first for segment in self.segments]
        ends = [segment.last for segment in self.segments]
        if [0, *ends] != [*starts, len(self.row_keys)] or any(
            segment.first >= segment.last for segment in self.segments
        ):
            raise ValueError(f"segments do not cover {len(self.row_keys)} rows: {self.segments}")

    @property
    def num_rows(self) -> int:
        """Rows of the whole batch."""
        return len(self.row_keys)

    def column(
        self,
        segments: tuple[Segment, ...],
        values: tuple[float, ...],
        width: int,
        dtype: torch.dtype,
    ) -> Tensor:
        """[rows * width, 1]: the value of each token's segment; 1 outside of `segments`.

        Kept, since most layers of a model ask for the same one.
        """
        key = (segments, values, width, dtype)
        if key not in self._columns:
            column = torch.ones(self.num_rows, dtype=dtype)
            for segment, value in zip(segments, values, strict=True):
                column[segment.first : segment.last] = value
            tokens = column.repeat_interleave(width).unsqueeze(1)
            self._columns[key] = tokens.to(self.row_keys.device)
        return self._columns[key]


class Switchboard:
    """The routing of the pass that is running, if any."""

    def __init__(self) -> None:
        self.routing: Routing | None = None

    @contextmanager
    def connected(self, routing: Routing) -> Iterator[None]:
        """Fused layers follow `routing` within; forward and backward pass both belong inside."""
        if self.routing is not None:
            raise ValueError("a pass is running already; passes do not nest")
        self.routing = routing
        try:
            yield
        finally:
            self.routing = None
