"""The folder of one market run, and what lies where in it.

DIR/
  decisions.jsonl, report.json, report.html
  tasks/ID/adapter/       in PEFT's format
  tasks/ID/receipt.json, losses.jsonl, repair.json
  state/                  what a resumed run goes on from; nothing in it is for people
    inputs/               the market file and every file that it names
    profiles/             measured node types
    journal.jsonl         what happened, in order
    work/ID/checkpoints/  and data.jsonl, where a vendor did work
    lock                  held by the process that runs the market
"""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError
from auctune.run.vendors.atomic_file import write_atomically

MARKET = "market.toml"
_DRAFT = ".state.new"
_OWN = {"state", _DRAFT}


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of one run."""

    root: Path

    @property
    def state(self) -> Path:
        """What a resumed run needs."""
        return self.root / "state"

    @property
    def inputs(self) -> Path:
        """Copies of the market file and of the files that it names."""
        return self.state / "inputs"

    @property
    def market(self) -> Path:
        """The copy of the market file."""
        return self.inputs / MARKET

    @property
    def journal(self) -> Path:
        """What happened."""
        return self.state / "journal.jsonl"

    def profile(self, node_type: str) -> Path:
        """The profile measured for a node type."""
        return self.state / "profiles" / f"{node_type}.json"

    def work(self, task: str) -> Path:
        """A task's checkpoints and repaired data."""
        return self.state / "work" / task

    def repaired(self, task: str) -> Path:
        """A task's data after its vendor's work."""
        return self.work(task) / "data.jsonl"

    def result(self, task: str) -> Path:
        """What a task's owner gets."""
        return self.root / "tasks" / task

    def resolve(self, given: str) -> Path:
        """Where the copy of a file lies that the market file names."""
        names: dict[str, str] = json.loads((self.inputs / "names.json").read_bytes())
        return self.inputs / names[given]

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self.journal.exists()

    def create(self, market: Path, files: Sequence[tuple[str, Path]]) -> None:
        """Lay out the folder, with copies of all inputs: what comes later needs nothing else.

        Args:
            market: the market file.
            files: as the market file names each, and where it lies.
        """
        draft = self.root / _DRAFT
        shutil.rmtree(draft, ignore_errors=True)
        inputs = draft / "inputs"
        inputs.mkdir(parents=True)
        names = {}
        for index, (given, path) in enumerate(dict(files).items()):
            names[given] = f"{index:03d}-{Path(given).name}"
            shutil.copyfile(path, inputs / names[given])
        (inputs / "names.json").write_text(json.dumps(names, indent=1))
        shutil.copyfile(market, inputs / MARKET)
        (draft / "profiles").mkdir()
        for path in [*inputs.iterdir(), inputs, draft]:
            _sync(path)
        draft.replace(self.state)
        _sync(self.root)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process.

        Raises:
            InputError: if another process holds it.
        """
        self.state.mkdir(parents=True, exist_ok=True)
        with (self.state / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(
                    str(self.root), "is run by another process now", "a folder that is free"
                ) from None
            yield

    def write_json(self, path: Path, value: object) -> None:
        """Write a JSON file that appears whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
        write_atomically(path, text.encode() + b"\n")


def check_new(folder: RunFolder, *, fresh: bool) -> None:
    """Make sure that a new run may use this folder.

    Args:
        fresh: an earlier run in it may be deleted.

    Raises:
        InputError: if it holds an earlier run (and not `fresh`), or anything else.
    """
    root = folder.root
    if root.exists() and not root.is_dir():
        raise InputError(f"--out {root}", "is a file", "a folder that is new or empty")
    if folder.exists() and not fresh:
        raise InputError(
            f"--out {root}",
            "holds a run already",
            f"--resume {root} to go on with it, --fresh to delete it, or another folder",
        )
    # A run that was killed before it began has left its state folder and no more.
    others = {path.name for path in root.iterdir()} - _OWN if root.exists() else set()
    if others and not folder.exists():
        raise InputError(f"--out {root}", "holds other files", "a folder that is new or empty")


def clear(folder: RunFolder) -> None:
    """Delete an earlier run, its journal first: half of a run is none."""
    folder.journal.unlink(missing_ok=True)
    shutil.rmtree(folder.root / _DRAFT, ignore_errors=True)
    for name in ("decisions.jsonl", "report.json", "report.html"):
        (folder.root / name).unlink(missing_ok=True)
    for path in (folder.state, folder.root / "tasks"):
        shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
