"""The same bits from the same numbers: torch's deterministic algorithms, on a set of threads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def prepare_deterministic() -> None:
    """To be called before the first product on a GPU."""
    # cuBLAS reads it once, before its first product.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def deterministic(threads: int | None = None) -> Iterator[None]:
    """A block in which torch's results are the same each time.

    Args:
        threads: of torch on a CPU, as sums depend on them; none: as many as there are now.
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
