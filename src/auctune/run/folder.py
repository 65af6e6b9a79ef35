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
    nodes/ID.log          what a node's process wrote on standard error
  .lock                   held by the process that runs the market, and by its nodes

A run is there if its journal is (auctune.run.beginning).
"""

import hashlib
import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from auctune.atomic_files import write_atomically
from auctune.domain import InputError
from auctune.run.event_log import EventRecord
from auctune.run.run_directory import lock_file

DRAFT = ".state.new"
LOCK = ".lock"
REPORTS = ("decisions.jsonl", "report.json", "report.html")


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
        return self.resolve("")

    @property
    def event_log(self) -> Path:
        """What happened."""
        return self.state / "journal.jsonl"

    def profile(self, node_type: str) -> Path:
        """The profile measured for a node type."""
        return self.state / "profiles" / f"{node_type}.json"

    @property
    def logs(self) -> Path:
        """What the nodes' workers wrote on standard error."""
        return self.state / "nodes"

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
        """Where the copy of a file lies that the market file names; the market file is ""."""
        names: dict[str, str] = json.loads((self.inputs / "names.json").read_bytes())
        return self.inputs / names[given]

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return self.event_log.exists()

    def digests(self) -> dict[str, str]:
        """SHA-256 of each file that the run began with, by its path in the state folder."""
        paths = sorted(p for name in ("inputs", "profiles") for p in self.state.glob(f"{name}/*"))
        return {path.relative_to(self.state).as_posix(): _digest(path) for path in paths}

    def check_inputs(self, begun: EventRecord) -> None:
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
        for pattern in (*(f".{name}.*" for name in REPORTS), "tasks/*/.*.json*"):
            for path in self.root.glob(pattern):
                path.unlink()

    def locked(self) -> AbstractContextManager[int]:
        """Hold the run for this process; see `auctune.run.run_directory.lock_file`.

        Raises:
            InputError: if another process holds it.
        """
        return lock_file(self.root / LOCK, str(self.root))

    def write_json(self, path: Path, value: object) -> None:
        """Write a JSON file that appears whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
        write_atomically(path, text.encode() + b"\n")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
