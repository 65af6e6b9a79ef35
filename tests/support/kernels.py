"""Kernels as they were written."""

from collections.abc import Callable
from typing import Any

Kernel = Callable[..., Any]


def plain(compiled: Kernel) -> Kernel:
    """The plain Python of a kernel."""
    function: Kernel = compiled.py_func  # type: ignore[attr-defined]
    return function
