"""The folder of one run, and what lies where in it.

DIR/
  results/NAME/           what a thread has learned, once it is done
  report.html, report.json
  inputs/bundle.toml      what the run was started with
  inputs/beside           the folder that its relative paths start from
  state/journal.jsonl     what happened, in order (auctune.run.timeshare.state)
  state/threads/N/        checkpoints of the N-th thread
  .lock                   held by who runs it
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PoolFolder:
    """Paths of one run."""

    root: Path

    @property
    def is_begun(self) -> bool:
        """Whether a run has got as far as its first event."""
        return self.journal.exists() and self.journal.stat().st_size > 0

    @property
    def inputs(self) -> Path:
        """Copies of what the run was started with."""
        return self.root / "inputs"

    @property
    def bundle(self) -> Path:
        """The bundle's file."""
        return self.inputs / "bundle.toml"

    @property
    def beside(self) -> Path:
        """Names the folder that the bundle's relative paths start from."""
        return self.inputs / "beside"

    @property
    def work(self) -> Path:
        """What a run needs to go on."""
        return self.root / "state"

    @property
    def journal(self) -> Path:
        """What happened."""
        return self.work / "journal.jsonl"

    @property
    def report(self) -> Path:
        """For people."""
        return self.root / "report.html"

    @property
    def figures(self) -> Path:
        """For programs."""
        return self.root / "report.json"

    @property
    def lock(self) -> Path:
        """Held by who runs it."""
        return self.root / ".lock"

    def checkpoints(self, thread: int) -> Path:
        """Of the thread of that place in the bundle."""
        return self.work / "threads" / f"{thread:03d}"

    def result(self, name: str) -> Path:
        """What a thread has learned."""
        return self.root / "results" / name
