"""Arrays of the host on a device, by one transfer that nothing waits for."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Of tensors of all types, in bytes.
_ALIGNMENT = 16


def to_device(arrays: Sequence[NDArray[Any]], device: torch.device) -> list[Tensor]:
    """Return arrays as tensors on a device; those on a CPU share the arrays' memory."""
    if device.type == "cpu":
        return [torch.from_numpy(one) for one in arrays]
    return write_buffer(arrays, device)[1]


def write_buffer(
    arrays: Sequence[NDArray[Any]], device: torch.device, buffer: Tensor | None = None
) -> tuple[Tensor, list[Tensor]]:
    """Copy arrays to one block of device memory by one transfer; return it, and a view of each.

    Args:
        arrays: of any types.
        device: where the block is made.
        buffer: the block, if it is there already; it must have the right size.
    """
    ends = np.cumsum([-(-one.nbytes // _ALIGNMENT) * _ALIGNMENT for one in arrays]).tolist()
    # A pinned block stays allocated until the transfer from it is over: torch sees to it.
    host = torch.empty(ends[-1], dtype=torch.uint8, pin_memory=device.type == "cuda")
    if buffer is None:
        buffer = torch.empty(ends[-1], dtype=torch.uint8, device=device)
    assert len(buffer) == ends[-1], f"a buffer of {len(buffer)} bytes, {ends[-1]} are needed"
    views = []
    for start, array in zip([0, *ends], arrays, strict=False):
        part = slice(start, start + array.nbytes)
        source = torch.from_numpy(np.ascontiguousarray(array))
        host[part].view(source.dtype).copy_(source.view(-1))
        views.append(buffer[part].view(source.dtype).view(source.shape))
    buffer.copy_(host, non_blocking=True)
    return buffer, views
