"""Record loss curves of the paper's tasks: the curves that `auctune timeshare simulate` plays.

    python experiments/timeshare/record_curves.py [NAME ...] [--out DIR] [--batches N]

The pure bundle is that of Table 1, the mixed one that of Table 2, job by job. Each task is trained
alone for about a minute of one processor core, until its curve is flat. Repeat the command to
continue a stopped recording with the next curve.

A curve is a CSV file `batches,loss`: the number of batches trained, and the mean loss since the
line before. The first 200 batches have a line each, then each line has w batches, with w the least
that makes 3,000 lines at most. So sums are exact at the end of each line.
"""

import argparse
import json
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auctune.domain.checks import check_count
from auctune.domain.errors import InputError
from auctune.files.atomic import AtomicFiles
from auctune.sim.figures import exits
from auctune.train.reproducible import deterministic
from lara_tasks.tasks import BATCH_SIZE, TASKS, make_task

FIRST_LINES = 200
MAX_LINES = 3000
MANIFEST = "manifest.json"
# Libraries that the bits of a curve depend on.
LIBRARIES = ("torch", "numpy", "scikit-learn")


@dataclass(frozen=True)
class Recording:
    """A training run to record.

    Attributes:
        name: of the curve.
        bundle: pure or mixed.
        kind: name of the task.
        seed: of its weights, data and draws.
        batches: to train, >= 1.
    """

    name: str
    bundle: str
    kind: str
    seed: int
    batches: int

    def __post_init__(self) -> None:
        check_count(self.batches, "batches", 1)


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


def line_ends(num_batches: int) -> NDArray[np.int64]:
    """Return the number of batches at the end of each line of a curve's file."""
    first = np.arange(1, min(num_batches, FIRST_LINES) + 1)
    width = max(-(-(num_batches - len(first)) // (MAX_LINES - FIRST_LINES)), 1)
    ends = np.append(np.arange(len(first) + width, num_batches, width), num_batches)
    return np.concatenate([first, ends[ends > len(first)]])


def downsampled(losses: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the lines of a curve: the number of batches at the end of each, and its mean loss."""
    ends = line_ends(len(losses))
    sums = np.add.reduceat(losses, np.append(0, ends[:-1]))
    return ends, sums / np.diff(ends, prepend=0)


def write_curve(path: Path, losses: NDArray[np.float64]) -> None:
    """Write a curve's file, losses to five digits."""
    with AtomicFiles([path]) as (file,):
        file.write("batches,loss\n")
        for end, loss in zip(*downsampled(losses), strict=True):
            file.write(f"{end},{loss:.5g}\n")


def read_manifest(folder: Path) -> list[dict[str, Any]]:
    """Return the entries of a folder's manifest; an empty list without one.

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
        raise InputError(str(path), "is damaged", "the manifest of recorded curves") from None


def record_all(recordings: Sequence[Recording], folder: Path) -> Iterator[dict[str, Any]]:
    """Record tasks into a folder one after the other, and yield each one's manifest entry.

    What the folder holds of other recordings stays.
    """
    entries = {entry["name"]: entry for entry in read_manifest(folder)}
    order = [recording.name for recording in RECORDINGS]
    for recording in recordings:
        entry = _record(recording, folder)
        entries[recording.name] = entry
        curves = sorted(entries.values(), key=lambda one: order.index(one["name"]))
        with AtomicFiles([folder / MANIFEST]) as (file,):
            file.write(json.dumps({"curves": curves}, indent=1) + "\n")
        yield entry


def _record(recording: Recording, folder: Path) -> dict[str, Any]:
    task, file = TASKS[recording.kind], f"{recording.name}.csv"
    with deterministic(threads=1):
        job = make_task(recording.kind, recording.seed)
        begun = time.process_time()
        losses = job.losses(recording.batches)
        seconds = time.process_time() - begun
    write_curve(folder / file, losses)
    return {
        **asdict(recording),
        "file": file,
        "task": task.area,
        "model": task.model,
        "batch_size": BATCH_SIZE,
        "batches_per_second": round(recording.batches / seconds, 1),
        "memory_bytes": job.memory_bytes,
        "last_loss": float(f"{losses[-200:].mean():.5g}"),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in LIBRARIES},
        },
    }


def choose(names: Sequence[str], folder: Path) -> list[Recording]:
    """Return the named recordings, or without names those that the folder does not have.

    Raises:
        InputError: naming an unknown recording.
    """
    available = [recording.name for recording in RECORDINGS]
    for name in names:
        if name not in available:
            raise InputError("NAME", repr(name), f"some of {', '.join(available)}")
    recorded = {entry["name"] for entry in read_manifest(folder)}
    chosen = names or [name for name in available if name not in recorded]
    return [recording for recording in RECORDINGS if recording.name in chosen]


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="curves; all that are missing")
    parser.add_argument("--out", type=Path, default=Path("curves"), help="folder (%(default)s)")
    parser.add_argument("--batches", type=int, help="batches per curve; about a minute's")
    parsed = parser.parse_args(arguments)
    parsed.out.mkdir(parents=True, exist_ok=True)
    chosen = choose(parsed.names, parsed.out)
    if parsed.batches is not None:
        chosen = [replace(recording, batches=parsed.batches) for recording in chosen]
    for entry in record_all(chosen, parsed.out):
        print(
            f"{entry['name']}: {entry['batches']} batches, "
            f"{entry['batches_per_second']:g} a second, loss {entry['last_loss']:g}",
            flush=True,
        )


if __name__ == "__main__":
    with exits():
        main()
