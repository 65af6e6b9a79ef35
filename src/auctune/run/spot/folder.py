"""The folder of one run, and what lies where in it.

DIR/
  adapter/                in PEFT's format, once the job is done
  bill.json               what was held and paid, by slot
  inputs/                 copies of what the run was started with (auctune.run.spot.inputs)
  state/journal.jsonl     what happened, in order (auctune.run.spot.state)
  state/checkpoints/
  state/workers.log       what workers wrote on standard error
  .lock                   held by the coordinator
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SpotFolder:
    """Paths of one run."""

    root: Path

    @property
    def is_begun(self) -> bool:
        """Whether a run has got as far as its first event."""
        return self.journal.exists() and self.journal.stat().st_size > 0

    @property
    def adapter(self) -> Path:
        """The result."""
        return self.root / "adapter"

    @property
    def bill(self) -> Path:
        """What was paid."""
        return self.root / "bill.json"

    @property
    def inputs(self) -> Path:
        """Copies of what the run was started with."""
        return self.root / "inputs"

    @property
    def work(self) -> Path:
        """Under which the trainer keeps its checkpoints."""
        return self.root / "state"

    @property
    def journal(self) -> Path:
        """What happened."""
        return self.work / "journal.jsonl"

    @property
    def log(self) -> Path:
        """What workers wrote on standard error."""
        return self.work / "workers.log"

    @property
    def lock(self) -> Path:
        """Held by who runs the job."""
        return self.root / ".lock"
