"""From options of `auctune timeshare` to curves, bundles and allocators."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.sim.timeshare.recorded import RecordedCurve
    from auctune.timeshare import Allocator


def read_allocator(label: str) -> "Allocator":
    """The allocator of a text such as `lara:estimator=mixture`.

    Raises:
        InputError: naming `--allocator`.
    """
    from auctune.parameter_text import parse_label
    from auctune.registry import timeshare_allocator
    from auctune.train.timeshare.estimators import ESTIMATORS

    name, settings = parse_label(label, "--allocator", "allocator")
    try:
        return timeshare_allocator(name, settings, ESTIMATORS)
    except InputError as error:
        own = error.place == "allocator"
        place = "--allocator" if own else f"--allocator {label}: {error.place}"
        raise InputError(place, error.found, error.expected) from None


def read_allocators(labels: Sequence[str] | None) -> "list[tuple[str, Allocator]]":
    """Labels and their allocators, each once; none: one of each kind.

    Raises:
        InputError: naming `--allocator`.
    """
    from auctune.registry import timeshare_allocator_names

    named = [(label, read_allocator(label)) for label in labels or timeshare_allocator_names()]
    for index, (label, allocator) in enumerate(named):
        if allocator in [other for _, other in named[:index]]:
            raise InputError("--allocator", f"{label} is there twice", "each allocator once")
    return named


def read_recorded(folder: Path | None) -> "tuple[RecordedCurve, ...]":
    """The curves of a folder, or those of this package.

    Raises:
        InputError: naming the file.
    """
    from auctune.sim.timeshare.recorded import SHIPPED, read_curves

    return read_curves(SHIPPED if folder is None else folder)
