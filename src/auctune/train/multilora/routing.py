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
        width: tokens of a row, for modules that see all tokens as one row of tokens.
    """

    segments: tuple[Segment, ...]
    row_keys: Tensor
    width: int
    _kept: dict[tuple[object, ...], Tensor] = field(default_factory=dict, repr=False)

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

    def by_row(
        self, segments: tuple[Segment, ...], values: tuple[float, ...], dtype: torch.dtype
    ) -> Tensor:
        """[rows]: the value of each row's segment; 0 outside of `segments`.

        Kept, since the layers of a model ask for few different ones, and on a GPU each would be
        a transfer of its own.
        """
        key = (segments, values, dtype)
        if key not in self._kept:
            rows = torch.zeros(self.num_rows, dtype=dtype)
            for segment, value in zip(segments, values, strict=True):
                rows[segment.first : segment.last] = value
            self._kept[key] = rows.to(self.row_keys.device)
        return self._kept[key]

    def by_token(
        self,
        segments: tuple[Segment, ...],
        values: tuple[float, ...],
        width: int,
        dtype: torch.dtype,
    ) -> Tensor:
        """[rows * width, 1]: the same for each token."""
        key = (segments, values, width, dtype)
        if key not in self._kept:
            rows = self.by_row(segments, values, dtype)
            self._kept[key] = rows.repeat_interleave(width).unsqueeze(1)
        return self._kept[key]


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
