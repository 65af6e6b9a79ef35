"""Kernels as they were written."""

from collections.abc import Callable
from typing import Any

Kernel = Callable[..., Any]


def plain(compiled: Kernel) -> Kernel:
    function: Kernel = compiled.py_func  # type: ignore[attr-defined]
    return function
