"""Time of each Triton kernel of multi-LoRA training on a GPU, against what memory allows.

    python benchmarks/lora_kernels.py [--tokens N] [--ranks 16,16,...] [--dropout RATE]

For each shape of a linear layer, medians of 50 launches after the cache was overwritten: microseconds,
TB/s of the bytes that must be moved at least, and all six launches beside the frozen products of a
forward and a backward pass.
"""  # noqa: E501

import argparse
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from triton.testing import do_bench

from auctune.train.multilora import triton_kernels as kernels
from auctune.train.multilora.dropout import num_dropped_levels
from auctune.train.multilora.transfer import to_device
from auctune.train.multilora.triton_kernels import AdapterTable, Dropout, TokenBlocks, block_arrays

# In and out features of Llama 3's 8B: k and v; q and o; gate and up; down.
SHAPES = ((4096, 1024), (4096, 4096), (4096, 14_336), (14_336, 4096))
CUDA, TYPE = torch.device("cuda", 0), torch.bfloat16


def milliseconds(call: Callable[[], object]) -> float:
    """Return the median of 50 calls or more, in milliseconds."""
    return float(do_bench(call, warmup=20, rep=100, return_mode="median"))


def measure(
    shape: tuple[int, int], num_tokens: int, ranks: list[int], rate: float
) -> dict[str, tuple[float, int]]:
    """Return milliseconds of each launch, and the bytes that it moves at least."""
    wide, narrow = shape
    sizes = [rank * (wide + narrow) for rank in ranks]
    weights = [torch.randn(size, device=CUDA, dtype=TYPE) for size in sizes]
    gradients = [torch.zeros(size, device=CUDA) for size in sizes]
    offsets = np.array([[(0, rank * wide) for rank in ranks]])
    places = np.array(ranks, np.int32), np.array([7])
    table = AdapterTable.build(weights, gradients, offsets, *places, CUDA)
    length = num_tokens // len(ranks)
    segments = np.array([(n * length, (n + 1) * length, n) for n in range(len(ranks))], np.int32)
    dropout = Dropout(
        np.arange(num_tokens),
        np.arange(num_tokens, dtype=np.int32),
        np.full(len(ranks), num_dropped_levels(rate), np.int32),
    )
    arrays = block_arrays(segments, np.ones(len(ranks), np.float32), dropout if rate else None)
    blocks = TokenBlocks.of(segments, to_device(arrays, CUDA))
    x = torch.randn(num_tokens, wide, device=CUDA, dtype=TYPE)
    y = torch.randn(num_tokens, narrow, device=CUDA, dtype=TYPE)
    frozen = torch.randn(narrow, wide, device=CUDA, dtype=TYPE)
    hidden = kernels._launch_down(x, table, 0, blocks, is_a=True)
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "h": (lambda: kernels._launch_down(x, table, 0, blocks, is_a=True), wide),
        "y": (lambda: kernels._launch_up(y, hidden, table, 0, blocks, is_a=False), 2 * narrow),
        "e": (lambda: kernels._launch_down(y, table, 0, blocks, is_a=False), narrow),
        "dx": (lambda: kernels._launch_up(x, hidden, table, 0, blocks, is_a=True), 2 * wide),
        "dA": (lambda: kernels._launch_sum(hidden, x, table, 0, blocks, is_a=True), wide),
        "dB": (lambda: kernels._launch_sum(hidden, y, table, 0, blocks, is_a=False), narrow),
    }
    found = {name: (milliseconds(call), 2 * num_tokens * n) for name, (call, n) in calls.items()}
    products = milliseconds(lambda: x @ frozen.t()) + milliseconds(lambda: y @ frozen)
    return found | {"frozen": (products, 0)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of each kernel of multi-LoRA training.")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--ranks", default=",".join(["16"] * 8))
    parser.add_argument("--dropout", type=float, default=0.0)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(1, "no CUDA device on this machine: nothing was run\n")
    ranks = [int(rank) for rank in arguments.ranks.split(",")]
    title = f"{torch.cuda.get_device_name()}, {arguments.tokens} tokens, ranks {arguments.ranks}"
    table = Table("in x out", "h", "y", "e", "dx", "dA", "dB", "all / frozen", title=title)
    for shape in SHAPES:
        found = measure(shape, arguments.tokens, ranks, arguments.dropout)
        frozen = found.pop("frozen")[0]
        cells = [f"{1e3 * time:.0f} us, {moved / time / 1e9:.1f}" for time, moved in found.values()]
        total = sum(time for time, _ in found.values())
        table.add_row(f"{shape[0]} x {shape[1]}", *cells, f"{total / frozen:.2f}")
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
