"""Keys and values of the sequences that are under way, in one block of memory a layer.

Rows are sequences, columns tokens. All sequences end in the same column, so that a pass appends one
column; a shorter one has padding before its first token:

    row 0   . . a b c d
    row 1   a b c d e f
    row 2   . . . . a b

Memory is a little larger than what is used, in rows and columns, so that a pass writes its column
where it belongs; a sequence that ends is replaced by the last row.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

# Columns that a block has to spare at least once it grows.
_COLUMNS = 128


class KvLayer(CacheLayerMixin):  # type: ignore[misc]  # of an untyped class
    """Keys and values of one layer, [rows, heads, columns, head size]; all columns are kept."""

    is_sliding = False

    def __init__(self) -> None:
        super().__init__()
        self.num_rows = 0
        self.num_columns = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Take shapes, type and device from the first keys and values."""
        self.keys = key_states[:, :, :0].clone()
        self.values = value_states[:, :, :0].clone()
        self.num_rows = len(key_states)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append the columns of a pass; return all keys and values."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        first, last = self.num_columns, self.num_columns + key_states.shape[2]
        self.reserve(self.num_rows, last)
        self.num_columns = last
        self.keys[: self.num_rows, :, first:last] = key_states
        self.values[: self.num_rows, :, first:last] = value_states
        return self.keys[: self.num_rows, :, :last], self.values[: self.num_rows, :, :last]

    def reserve(self, num_rows: int, num_columns: int) -> None:
        """Have memory for so many rows and columns; what is there stays."""
        rows, columns = self.keys.shape[0], self.keys.shape[2]
        if num_rows <= rows and num_columns <= columns:
            return
        if num_rows > rows:
            rows = max(num_rows, 2 * rows)
        if num_columns > columns:
            columns = num_columns + _spare(num_columns)
        self._each(lambda block: _grown(block, rows, columns, self.num_rows, self.num_columns))

    def insert(self, other: "KvLayer", row: int) -> None:
        """Append a row of another cache, which has at most as many columns."""
        self.reserve(self.num_rows + 1, self.num_columns)
        first = self.num_columns - other.num_columns
        for block, source in ((self.keys, other.keys), (self.values, other.values)):
            block[self.num_rows, :, :first] = 0
            block[self.num_rows, :, first : self.num_columns] = source[row, :, : other.num_columns]
        self.num_rows += 1

    def copy(self, row: int, num_columns: int) -> "KvLayer":
        """Return the last columns of a row, as a layer of its own."""
        found = KvLayer()
        first = self.num_columns - num_columns
        found.update(
            self.keys[row : row + 1, :, first : self.num_columns],
            self.values[row : row + 1, :, first : self.num_columns],
        )
        return found

    def remove(self, row: int) -> None:
        """Drop a row; the last one takes its place."""
        last = self.num_rows - 1
        if row < last:
            for block in (self.keys, self.values):
                block[row, :, : self.num_columns] = block[last, :, : self.num_columns]
        self.num_rows = last

    def move(self, num_columns: int) -> None:
        """Shift all columns to the right, behind padding, or to the left, over padding."""

        def moved(block: Tensor) -> Tensor:
            rows, heads, _, size = block.shape
            # Zeros: padding has no weight, but infinity times nothing is not nothing.
            target = block.new_zeros(rows, heads, num_columns + _spare(num_columns), size)
            kept = min(self.num_columns, num_columns)
            source = block[: self.num_rows, :, self.num_columns - kept : self.num_columns]
            target[: self.num_rows, :, num_columns - kept : num_columns] = source
            return target

        self._each(moved)
        self.num_columns = num_columns

    def _each(self, change: Callable[[Tensor], Tensor]) -> None:
        self.keys, self.values = change(self.keys), change(self.values)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Columns that a pass of so many tokens sees, and where they begin."""
        return self.num_columns + query_length, 0

    def get_seq_length(self) -> int:
        """Columns so far."""
        return self.num_columns

    def get_max_length(self) -> int:
        """No limit."""
        return -1


def _spare(num_columns: int) -> int:
    return max(_COLUMNS, num_columns // 4)


def _grown(block: Tensor, rows: int, columns: int, used_rows: int, used_columns: int) -> Tensor:
    grown = block.new_empty(rows, block.shape[1], columns, block.shape[3])
    grown[:used_rows, :, :used_columns] = block[:used_rows, :, :used_columns]
    return grown


class KvBatch:
    """Keys and values of a batch of sequences, and which columns are padding.

    Args:
        device: of the model.
        num_rows: of a new batch, each without tokens.

    Attributes:
        cache: what a model is given as `past_key_values`.
        lengths: tokens of each row so far.
    """

    def __init__(self, device: torch.device, num_rows: int = 0) -> None:
        self.cache = Cache(layer_class_to_replicate=KvLayer)
        self.lengths = [0] * num_rows
        self._device = device

    @property
    def width(self) -> int:
        """Columns: the tokens of the longest row, and maybe some padding."""
        return self._layers[0].num_columns if self._layers else 0

    @property
    def _layers(self) -> list[KvLayer]:
        layers: list[KvLayer] = self.cache.layers
        return layers

    def mask(self, num_new: int) -> Tensor | None:
        """Return int64 [rows, width + num_new], 0 for padding; None if there is no padding."""
        if all(length == self.width for length in self.lengths):
            return None
        columns = torch.arange(self.width + num_new, device=self._device)
        starts = torch.tensor(self.lengths, device=self._device)
        return (columns >= self.width - starts.unsqueeze(1)).long()

    def num_bytes(self, num_rows: int, num_columns: int) -> int:
        """Bytes of so many rows and columns, as far as the layers are known."""
        return (
            num_rows
            * num_columns
            * sum(
                block.shape[1] * block.shape[3] * block.element_size()
                for layer in self._layers
                for block in (layer.keys, layer.values)
            )
        )

    def advance(self, num_new: int) -> None:
        """Count the tokens of a pass, whose keys and values the model has appended."""
        self.lengths = [length + num_new for length in self.lengths]

    def join(self, other: "KvBatch", copies: int) -> None:
        """Append the single row of another batch so many times."""
        if not self._layers:
            self.cache.layers = [_empty_like(layer) for layer in other._layers]
        width = max(self.width, other.width)
        for mine, theirs in zip(self._layers, other._layers, strict=True):
            if width > mine.num_columns:
                mine.move(width)
            for _ in range(copies):
                mine.insert(theirs, 0)
        self.lengths += other.lengths * copies

    def extract(self, row: int) -> "KvBatch":
        """Remove a row, and return it as a batch of its own."""
        found = KvBatch(self._device)
        found.lengths = [self.lengths[row]]
        found.cache.layers = [layer.copy(row, self.lengths[row]) for layer in self._layers]
        self.remove(row)
        return found

    def remove(self, row: int) -> None:
        """Drop a row; the last one takes its place. Padding that is wide in all rows goes too."""
        self.lengths[row] = self.lengths[-1]
        self.lengths.pop()
        if not self.lengths:
            self.cache.layers = []
            return
        longest = max(self.lengths)
        is_wide = self.width - longest > _spare(longest)
        for layer in self._layers:
            layer.remove(row)
            if is_wide:
                layer.move(longest)


def _empty_like(layer: KvLayer) -> KvLayer:
    empty = KvLayer()
    empty.lazy_initialization(layer.keys[:0], layer.values[:0])
    return empty
