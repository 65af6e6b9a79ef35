"""The folder of one run of the edge.

DIR/
  report.json             bill and figures, at the end (auctune.run.edge.report)
  jobs/ID/weights.npz     what a job came to
  inputs/                 copies of what the run was started with (auctune.run.edge.inputs)
  state/journal.jsonl     what happened, in order (auctune.run.edge.state)
  state/jobs/ID/STEPS.npz where a job goes on, after so many steps
  state/sites.json        processes and folder of nodes that were started here
  .lock                   held by the driver
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from auctune.run.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class EdgeFolder(RunDirectory):
    """Paths of one run."""

    @property
    def report(self) -> Path:
        """What came of it."""
        return self.root / "report.json"

    @property
    def settings(self) -> Path:
        """Of the inputs; written last of them."""
        return self.inputs / "settings.json"

    @property
    def sites(self) -> Path:
        """Of local nodes."""
        return self.state / "sites.json"

    def checkpoint(self, job: str, steps: int) -> Path:
        """A job's state after a number of steps; ids may have any characters."""
        return self.state / "jobs" / quote(job, safe="") / f"{steps}.npz"

    def weights(self, job: str) -> Path:
        """What a job came to."""
        return self.root / "jobs" / quote(job, safe="") / "weights.npz"
