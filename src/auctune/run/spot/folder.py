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

from auctune.run.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class SpotFolder(RunDirectory):
    """Paths of one run."""

    @property
    def adapter(self) -> Path:
        """The result."""
        return self.root / "adapter"

    @property
    def bill(self) -> Path:
        """What was paid."""
        return self.root / "bill.json"

    @property
    def log(self) -> Path:
        """What workers wrote on standard error."""
        return self.state / "workers.log"
