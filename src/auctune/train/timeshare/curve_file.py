"""Loss curves as small files.

`batches,loss`: how many batches had been trained, and the mean loss of those since the line
before. The first 200 batches have a line each; then each line is of w batches (the last of what is
left), with w the least that makes 3,000 lines at most. So sums are kept exactly at the end of each
line, and the mean over any stretch of batches is off by what its two ends cut a line at.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auctune.atomic_files import AtomicFiles
from auctune.domain.errors import InputError

FIRST = 200
MOST_LINES = 3000
MANIFEST = "manifest.json"


def bins(num_batches: int) -> NDArray[np.int64]:
    """How many batches there have been at the end of each line."""
    first = np.arange(1, min(num_batches, FIRST) + 1)
    width = max(-(-(num_batches - len(first)) // (MOST_LINES - FIRST)), 1)
    ends = np.append(np.arange(len(first) + width, num_batches, width), num_batches)
    return np.concatenate([first, ends[ends > len(first)]])


def thinned(losses: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The lines of a curve: batches at the end of each, and its mean loss.

    Args:
        losses: of all batches, one at least.
    """
    ends = bins(len(losses))
    sums = np.add.reduceat(losses, np.append(0, ends[:-1]))
    return ends, sums / np.diff(ends, prepend=0)


def write_curve(path: Path, losses: NDArray[np.float64]) -> None:
    """Write a curve's file, losses to five digits."""
    with AtomicFiles([path]) as (file,):
        file.write("batches,loss\n")
        for end, loss in zip(*thinned(losses), strict=True):
            file.write(f"{end},{loss:.5g}\n")


def read_manifest(folder: Path) -> list[dict[str, Any]]:
    """What is known of the curves of a folder; nothing if there are none.

    Raises:
        InputError: if the file is damaged.
    """
    path = folder / MANIFEST
    if not path.exists():
        return []
    try:
        curves: list[dict[str, Any]] = json.loads(path.read_bytes())["curves"]
        return [curve for curve in curves if curve["name"]]
    except (ValueError, LookupError, TypeError):
        raise InputError(str(path), "is damaged", "what `auctune timeshare record` wrote") from None


def write_manifest(folder: Path, curves: Sequence[dict[str, Any]]) -> None:
    """Write what is known of the curves of a folder."""
    with AtomicFiles([folder / MANIFEST]) as (file,):
        file.write(json.dumps({"curves": list(curves)}, indent=1) + "\n")
