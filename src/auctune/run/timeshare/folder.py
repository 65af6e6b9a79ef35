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

from auctune.run.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class PoolFolder(RunDirectory):
    """Paths of one run."""

    @property
    def bundle(self) -> Path:
        """The bundle's file."""
        return self.inputs / "bundle.toml"

    @property
    def beside(self) -> Path:
        """Names the folder that the bundle's relative paths start from."""
        return self.inputs / "beside"

    @property
    def report(self) -> Path:
        """For people."""
        return self.root / "report.html"

    @property
    def figures(self) -> Path:
        """For programs."""
        return self.root / "report.json"

    def checkpoints(self, thread: int) -> Path:
        """Of the thread of that place in the bundle."""
        return self.state / "threads" / f"{thread:03d}"

    def result(self, name: str) -> Path:
        """What a thread has learned."""
        return self.root / "results" / name
