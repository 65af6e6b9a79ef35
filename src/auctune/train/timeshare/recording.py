"""Which stand-ins are recorded, alone, for how long: the two bundles of the paper.

The pure bundle is Table 1's, the mixed one Table 2's, thread by thread. Threads of one kind have
seeds of their own. Each is trained for about a minute of one processor core, long enough for its
curve to become flat.
"""

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auctune.domain.checks import check_positive
from auctune.train.deterministic import deterministic
from auctune.train.timeshare.curve_file import (
    read_manifest,
    write_curve,
    write_manifest,
)
from auctune.train.timeshare.stand_in import BATCH_SIZE, STAND_INS, make_stand_in

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
