"""Compiled kernels: whether they are there, and can be kept."""

from collections.abc import Iterator

from auctune.service.doctor.finding import Finding, ok, warn
from auctune.service.doctor.installation import Installation
from auctune.service.doctor.writing import why_not_written


def look(at: Installation) -> Iterator[Finding]:
    """Whether kernels of these sources are compiled, and their folder takes them."""
    from auctune.numerics.jit import kernel_folder, kernels_are_compiled

    folder = kernel_folder()
    reason = why_not_written(folder)
    if reason is not None:
        said = f"{folder} cannot be written ({reason}): each process compiles anew"
        yield warn("kernels", said, "NUMBA_CACHE_DIR=FOLDER, one that may be written")
    elif kernels_are_compiled():
        yield ok("kernels", f"compiled in {folder}")
    else:
        yield ok("kernels", "not compiled yet: the first start does that, half a minute or so")
