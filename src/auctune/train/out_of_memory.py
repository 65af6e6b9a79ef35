"""Memory that runs out, of a device or of the machine, by whatever error a library says it."""

import re
from collections.abc import Callable
from typing import TypeVar

import torch

Argument = TypeVar("Argument")
Result = TypeVar("Result")

# Messages of a plain RuntimeError when memory runs out: by torch of a CPU, by CUDA's runtime
# (torch.AcceleratorError) and driver, by Triton, which loads kernels, and by cuBLAS, cuDNN and
# their like, which allocate for themselves.
OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|CUDA (driver )?error: out of memory|"
    r"Triton Error \[CUDA\]: out of memory|(CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_"
    r"(ALLOC_FAILED|INTERNAL_ERROR_\w*ALLOCATION_FAILED)"
)


def run_or_out_of_memory(run: Callable[[Argument], Result], argument: Argument) -> Result | None:
    """Return what a function returns, or `None` if memory ran out in it."""
    try:
        return run(argument)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory ran out, of a device or of the machine."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and OUT_OF_MEMORY.search(str(error)) is not None


def free_cache() -> None:
    """Release the cached GPU memory that torch does not use."""
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
