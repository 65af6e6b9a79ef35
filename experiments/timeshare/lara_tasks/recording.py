"""Loss curves as small files.

`batches,loss`: how many batches had been trained, and the mean loss of those since the line
before. The first 200 batches have a line each; then each line is of w batches (the last of what is
left), with w the least that makes 3,000 lines at most. So sums are kept exactly at the end of each
line, and the mean over any stretch of batches is off by what its two ends cut a line at.

Which stand-ins are recorded, alone, for how long: the two bundles of the paper.

The pure bundle is Table 1's, the mixed one Table 2's, thread by thread. Threads of one kind have
seeds of their own. Each is trained for about a minute of one processor core, long enough for its
curve to become flat.
"""

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from auctune.train.timeshare.stand_in import BATCH_SIZE, STAND_INS, make_stand_in
from numpy.typing import NDArray

from auctune.domain.checks import check_positive
from auctune.domain.errors import InputError
from auctune.sim.atomic_file import AtomicFiles
from auctune.train.deterministic import deterministic

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


CHUNK = 100
LIBRARIES = ("torch", "numpy", "scikit-learn")

Progress = Callable[[int], None]
"""Told how many batches have been trained."""


@dataclass(frozen=True)
class Recording:
    """A training run to record.

    Attributes:
        name: of the curve.
        bundle: pure or mixed.
        kind: of the stand-in.
        seed: of its weights, data and draws.
        batches: to train, >= 1.
    """

    name: str
    bundle: str
    kind: str
    seed: int
    batches: int

    def __post_init__(self) -> None:
        check_positive(self.batches, "batches", "a number of batches >= 1")


LENGTHS = {
    "vit": 14_000,
    "lstm": 24_000,
    "cnn": 30_000,
    "resnet18": 7_000,
    "resnet34": 5_000,
    "dagger": 20_000,
    "audio": 20_000,
    "nlp": 20_000,
}

_PURE = ("vit", "lstm", "cnn", "resnet18", "resnet34")
_MIXED = ("vit", "vit", "dagger", "audio", "nlp", "resnet18", "resnet18", "nlp", "audio", "dagger")

RECORDINGS = (
    *(Recording(f"pure-{kind}", "pure", kind, 1, LENGTHS[kind]) for kind in _PURE),
    *(
        Recording(f"mixed-{number:02d}-{kind}", "mixed", kind, 100 + number, LENGTHS[kind])
        for number, kind in enumerate(_MIXED, start=1)
    ),
)


@dataclass(frozen=True)
class Recorded:
    """What came of a recording.

    Attributes:
        losses: of each batch, shape (batches,).
        seconds: of processor time, of one thread.
        memory_bytes: of the thread.
    """

    losses: NDArray[np.float64]
    seconds: float
    memory_bytes: int


def record(recording: Recording, progress: Progress) -> Recorded:
    """Train a stand-in, alone, on one thread of the processor."""
    losses = np.empty(recording.batches)
    with deterministic(threads=1):
        thread = make_stand_in(recording.kind, recording.seed)
        begun = time.process_time()
        for start in range(0, recording.batches, CHUNK):
            stop = min(start + CHUNK, recording.batches)
            losses[start:stop] = thread.losses(stop - start)
            progress(stop)
        return Recorded(losses, time.process_time() - begun, thread.memory_bytes)


def record_all(
    recordings: Sequence[Recording],
    folder: Path,
    listen: Callable[[Recording, int], None],
) -> Iterator[dict[str, Any]]:
    """Record stand-ins into a folder, one after the other; each is there once it is yielded.

    Args:
        recordings: which.
        folder: of the curves and their manifest; what it holds of other recordings stays.
        listen: told of batches trained.

    Yields:
        What the manifest says of each.
    """
    known = {entry["name"]: entry for entry in read_manifest(folder)}
    order = [recording.name for recording in RECORDINGS]
    for recording in recordings:
        recorded = record(recording, partial(listen, recording))
        entry = save(folder, recording, recorded)
        known[recording.name] = entry
        write_manifest(folder, sorted(known.values(), key=lambda one: order.index(one["name"])))
        yield entry


def save(folder: Path, recording: Recording, recorded: Recorded) -> dict[str, Any]:
    """Write the curve; returns what the manifest says of it."""
    name = f"{recording.name}.csv"
    write_curve(folder / name, recorded.losses)
    made = STAND_INS[recording.kind]
    return {
        **asdict(recording),
        "file": name,
        "task": made.task,
        "model": made.model,
        "batch_size": BATCH_SIZE,
        "batches_per_second": round(recording.batches / recorded.seconds, 1),
        "memory_bytes": recorded.memory_bytes,
        "last_loss": float(f"{recorded.losses[-200:].mean():.5g}"),
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """What the bits of a curve depend on beside the code."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}
