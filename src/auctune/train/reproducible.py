"""Bit-identical results: torch's deterministic algorithms, on a fixed number of threads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def prepare_deterministic() -> None:
    """Configure cuBLAS; call it before the first product on a GPU."""
    # cuBLAS reads it once, before its first product.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def deterministic(threads: int | None = None) -> Iterator[None]:
    """Context manager in which torch's results are deterministic.

    Args:
        threads: of torch on a CPU, as sums depend on them; `None`: unchanged.
    """
    before, threads_before = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    torch.use_deterministic_algorithms(True)
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        if threads is not None:
            torch.set_num_threads(threads_before)
