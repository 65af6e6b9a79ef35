"""The folder of a run that has it to itself, and what of it lies in every one.

DIR/
  inputs/                 copies of what the run was started with
  state/journal.jsonl     what happened, in order
  .lock                   held by the process that runs it

A run is begun once its journal holds an event. The auction's folder is another
(auctune.run.folder): its inputs and its first event come to their places in one step, from a draft.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClaimedFolder:
    """Paths of one run."""

    root: Path

    @property
    def inputs(self) -> Path:
        """Copies of what the run was started with."""
        return self.root / "inputs"

    @property
    def work(self) -> Path:
        """What a run needs to go on."""
        return self.root / "state"

    @property
    def journal(self) -> Path:
        """What happened."""
        return self.work / "journal.jsonl"

    @property
    def lock(self) -> Path:
        """Held by who runs it."""
        return self.root / ".lock"

    @property
    def is_begun(self) -> bool:
        """Whether the run has got as far as its first event."""
        return self.journal.exists() and self.journal.stat().st_size > 0
