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
  .lock                   held by the process that runs the market, and by its nodes

The state folder appears whole, with a journal that says that the run has begun: there is no moment
at which a run is half there.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError
from auctune.run.journal import Journal, JournalEvent
from auctune.run.lock import hold
from auctune.run.vendors.atomic_file import write_atomically

MARKET = "market.toml"
_DRAFT = ".state.new"
_LOCK = ".lock"
_REPORTS = ("decisions.jsonl", "report.json", "report.html")


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

    def begin(
        self,
        market: Path,
        files: Sequence[tuple[str, Path]],
        profiles: Mapping[str, str],
        begun: JournalEvent,
    ) -> None:
        """Begin a run, in place of an earlier one: what comes later needs nothing from outside.

        The earlier run stays until all inputs are copied, as they may lie in it.

        Args:
            market: the market file.
            files: as the market file names each, and where it lies.
            profiles: measured ones, as JSON, by node type.
            begun: the journal's first event; the digests of all inputs are added to it.
        """
        draft = RunFolder(self.root / _DRAFT)
        shutil.rmtree(draft.root, ignore_errors=True)
        draft.inputs.mkdir(parents=True)
        names = {}
        for index, (given, path) in enumerate(dict(files).items()):
            names[given] = f"{index:03d}-{Path(given).name}"
            shutil.copyfile(path, draft.inputs / names[given])
        (draft.inputs / "names.json").write_text(json.dumps(names, indent=1))
        shutil.copyfile(market, draft.market)
        for name, text in profiles.items():
            draft.profile(name).parent.mkdir(exist_ok=True)
            draft.profile(name).write_text(text)
        journal = Journal(draft.journal)
        journal.append(begun | {"inputs": draft.digests()})
        journal.close()
        for path in (draft.state, *draft.state.rglob("*")):
            _sync(path)
        _clear(self)
        draft.state.replace(self.state)
        _sync(self.root)
        draft.root.rmdir()

    def digests(self) -> dict[str, str]:
        """SHA-256 of each file that the run began with, by its path in the state folder."""
        paths = sorted(p for name in ("inputs", "profiles") for p in self.state.glob(f"{name}/*"))
        return {path.relative_to(self.state).as_posix(): _digest(path) for path in paths}

    def check_inputs(self, begun: JournalEvent) -> None:
        """Make sure that the inputs are those with which the run began.

        Raises:
            InputError: naming the file that was changed, lost or added.
        """
        found, expected = self.digests(), begun["inputs"]
        for name in sorted({*found, *expected}):
            if found.get(name) != expected.get(name):
                raise InputError(
                    str(self.state / name),
                    "is not as it was when the run began" if name in found else "is gone",
                    "the copy made then",
                )

    def drop_drafts(self) -> None:
        """Remove what writers that were killed have left of files that people see."""
        for pattern in (*(f".{name}.*" for name in _REPORTS), "tasks/*/.*.json*"):
            for path in self.root.glob(pattern):
                path.unlink()

    def locked(self) -> AbstractContextManager[int]:
        """Hold the run for this process; see `auctune.run.lock.hold`.

        Raises:
            InputError: if another process holds it.
        """
        return hold(self.root / _LOCK, str(self.root))

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
    # A run that was killed before it began has left its draft and its lock, and no more.
    others = {path.name for path in root.iterdir()} - {_DRAFT, _LOCK} if root.exists() else set()
    if others and not folder.exists():
        raise InputError(f"--out {root}", "holds other files", "a folder that is new or empty")


def _clear(folder: RunFolder) -> None:
    """Delete an earlier run, its journal first: half of a run is none."""
    folder.journal.unlink(missing_ok=True)
    folder.drop_drafts()
    for name in _REPORTS:
        (folder.root / name).unlink(missing_ok=True)
    for path in (folder.root / "tasks", folder.state):
        if path.exists():
            shutil.rmtree(path)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
