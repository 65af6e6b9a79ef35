"""Directory of one market run: its layout, copies of its inputs, and how it is started.

DIR/
  decisions.jsonl, report.json, report.html
  tasks/ID/adapter/       in PEFT's format
  tasks/ID/epochs/N/      the same of the last epochs
  tasks/ID/receipt.json, losses.jsonl, repair.json
  state/                  what a resumed run needs; nothing in it is for people
    inputs/               the market file and every file that it names
    profiles/             measured node types
    journal.jsonl         event log
    work/ID/checkpoints/  and data.jsonl, where a vendor repaired data
    nodes/ID.log          what a node's process wrote on standard error
  .lock                   held by the process that runs the market, and by its nodes

A run is started completely or not at all. Its inputs are copied to a staging folder beside the
state folder, with an event log that says that the run has started. An earlier run, in which the
inputs may be, is moved into the staging folder once they are copied; then the staged state folder
is renamed to its place. A start that was killed leaves its staging folder, by which the next one
knows that other files there are of a run.
"""

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from auctune.atomic_files import sync_path, write_atomically
from auctune.domain import InputError
from auctune.engine.event_log import EventLog, EventRecord
from auctune.engine.run_directory import RunDirectory, lock_file
from auctune.train.adapter_files import adapter_paths, pack_adapter

STAGING = ".state.new"
REPORTS = ("decisions.jsonl", "report.json", "report.html")


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that a market reads, with its size and time before it was read.

    Attributes:
        given: its name in the market file; empty for the market file itself.
        path: where it is; a folder is that of an adapter.
        size: in bytes.
        changed: time of its last change, in nanoseconds.
    """

    given: str
    path: Path
    size: int
    changed: int

    @classmethod
    def note(cls, given: str, path: Path) -> "InputFile":
        """Return a file as it is now.

        Raises:
            OSError: if it does not exist.
        """
        paths = adapter_paths(path) if path.is_dir() else [path]
        stats = [one.stat() for one in paths]
        size = sum(stat.st_size for stat in stats)
        return cls(given, path, size, max((stat.st_mtime_ns for stat in stats), default=0))

    def check_unchanged(self) -> None:
        """Make sure that it has not changed since.

        Raises:
            InputError: if it has.
        """
        try:
            unchanged = InputFile.note(self.given, self.path) == self
        except OSError:
            unchanged = False
        if not unchanged:
            raise InputError(
                str(self.path), "was changed while the market was prepared", "files that stay"
            )


class MarketDirectory(RunDirectory):
    """Directory of one market run."""

    @property
    def inputs(self) -> Path:
        """Copies of the market file and of the files that it names."""
        return self.state / "inputs"

    @property
    def input_files(self) -> Iterable[Path]:
        """Copies of inputs, and the profiles measured for the run."""
        return (*self.inputs.glob("*"), *self.state.glob("profiles/*"))

    @property
    def market(self) -> Path:
        """The copy of the market file."""
        return self.resolve("")

    def profile(self, node_type: str) -> Path:
        """Return the profile measured for a node type."""
        return self.state / "profiles" / f"{node_type}.json"

    @property
    def logs(self) -> Path:
        """Standard error of the nodes' workers."""
        return self.state / "nodes"

    def work(self, task: str) -> Path:
        """Return the folder of a task's checkpoints and repaired data."""
        return self.state / "work" / task

    def repaired(self, task: str) -> Path:
        """Return a task's data as its vendor repaired them."""
        return self.work(task) / "data.jsonl"

    def result(self, task: str) -> Path:
        """Return the folder of a task's result."""
        return self.root / "tasks" / task

    def resolve(self, given: str) -> Path:
        """Return the copy of a file that the market file names; the market file is ""."""
        names: dict[str, str] = json.loads((self.inputs / "names.json").read_bytes())
        return self.inputs / names[given]

    def exists(self) -> bool:
        """Return whether a run was started here; its event log may be damaged."""
        return self.event_log.exists()

    def clean_temp_files(self) -> None:
        """Remove temporary files of reports and results whose writers were killed."""
        for pattern in (*(f".{name}.*" for name in REPORTS), "tasks/*/.*.json*"):
            for path in self.root.glob(pattern):
                path.unlink()

    def locked(self) -> AbstractContextManager[int]:
        """Lock the run for this process, and yield the lock's descriptor.

        Raises:
            InputError: if another process holds it.
        """
        return lock_file(self.lock, str(self.root))

    def write_json(self, path: Path, value: object) -> None:
        """Write a JSON file that appears complete or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
        write_atomically(path, text.encode() + b"\n")


def check_new(folder: MarketDirectory, *, fresh: bool) -> None:
    """Make sure that a new run may use this directory.

    Args:
        folder: of the run.
        fresh: whether an earlier run in it may be deleted.

    Raises:
        InputError: if it holds an earlier run (and not `fresh`), or anything else.
    """
    root = folder.root
    if root.exists() and not root.is_dir():
        raise InputError(f"--out {root}", "is a file", "a folder that is new or empty")
    if folder.exists():
        if fresh:
            return
        raise InputError(
            f"--out {root}",
            "holds a run already",
            f"--resume {root} to go on with it, --fresh to delete it, or another folder",
        )
    names = {path.name for path in root.iterdir()} if root.exists() else set()
    of_a_run = {STAGING, "tasks", *REPORTS} if STAGING in names else set()
    if names - {folder.lock.name} - of_a_run:
        raise InputError(f"--out {root}", "holds other files", "a folder that is new or empty")


def begin(
    folder: MarketDirectory,
    files: Sequence[InputFile],
    profiles: Mapping[str, str],
    begun: EventRecord,
) -> None:
    """Start a run, in place of an earlier one; from here on it reads its copies alone.

    Args:
        folder: locked by this process.
        files: the market file, and those that it names.
        profiles: measured ones, as JSON, by node type.
        begun: first event of the log; the digests of all inputs are added to it.

    Raises:
        InputError: if a file has changed since it was noted; an earlier run stays then.
    """
    staging = MarketDirectory(folder.root / STAGING)
    _empty(staging.root)
    _copy_inputs(staging, files)
    for name, text in profiles.items():
        staging.profile(name).parent.mkdir(exist_ok=True)
        staging.profile(name).write_text(text)
    log = EventLog(staging.event_log)
    log.append(begun | {"inputs": staging.input_digests()})
    log.close()
    for path in (staging.state, *staging.state.rglob("*")):
        sync_path(path)
    for file in files:
        file.check_unchanged()
    _put_aside(folder, staging.root / "earlier")
    staging.state.replace(folder.state)
    sync_path(folder.root)
    shutil.rmtree(staging.root)


def _empty(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    # The folder itself stays throughout: it marks a start that is in progress.
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def _copy_inputs(staging: MarketDirectory, files: Sequence[InputFile]) -> None:
    staging.inputs.mkdir(parents=True)
    names = {}
    for index, file in enumerate(files):
        if file.given in names:
            continue
        names[file.given] = f"{index:03d}-{file.path.name[-60:]}"
        target = staging.inputs / names[file.given]
        if file.path.is_dir():
            pack_adapter(file.path, target)
        else:
            shutil.copyfile(file.path, target)
    (staging.inputs / "names.json").write_text(json.dumps(names, indent=1))


def _put_aside(folder: MarketDirectory, place: Path) -> None:
    """Move an earlier run, its event log first: without it the rest is not a run."""
    place.mkdir()
    folder.clean_temp_files()
    for name in ("state", "tasks", *REPORTS):
        if (folder.root / name).exists():
            (folder.root / name).rename(place / name)
