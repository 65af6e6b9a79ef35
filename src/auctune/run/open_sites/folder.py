"""The folder of open sites: an `EdgeFolder`, with what each trained slot came to.

state/jobs/ID/STEPS.npz     where a job goes on, after so many steps
state/jobs/ID/slot-T.json   what came of its slot T, and the steps before it
state/jobs/ID/model/        what it came to, once its last slot is trained
state/sites.json            processes and folder of nodes that were started here
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from auctune.atomic_files import write_atomically
from auctune.run.edge.folder import EdgeFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOutcome:
    """What came of a job's slot.

    Attributes:
        before, steps: of gradient descent since the job began, before the slot and after it.
        samples: trained in it, over all epochs.
        first_loss: of training, mean over the slot's first step.
        loss: of training, mean over the slot's last epoch.
        test_loss, accuracy: on the validation data; none: there are none.
        seconds: that its steps took.
        chunks_crossed: chunks that workers fetched from other sites.
        chunk_bytes, parameter_bytes: that crossed sites.
    """

    before: int
    steps: int
    samples: int
    first_loss: float
    loss: float
    test_loss: float | None
    accuracy: float | None
    seconds: float
    chunks_crossed: int
    chunk_bytes: int
    parameter_bytes: int


@dataclass(frozen=True, slots=True)
class OpenSitesFolder:
    """Paths of open sites.

    Attributes:
        run: the folder as a run of the edge has it.
    """

    run: EdgeFolder

    @classmethod
    def at(cls, root: Path) -> "OpenSitesFolder":
        """The one in `root`."""
        return cls(EdgeFolder(root))

    @property
    def jobs(self) -> Path:
        """One folder a job."""
        return self.run.state / "jobs"

    def model(self, job: str) -> Path:
        """What a job came to: a folder to be packed."""
        return self.jobs / job / "model"

    def keep(self, job: str, slot: int, outcome: SiteOutcome) -> None:
        """Note what came of a slot, so that it can be told again."""
        text = json.dumps(asdict(outcome)).encode() + b"\n"
        write_atomically(self._slot(job, slot), text)

    def kept(self, job: str, slot: int, steps: int) -> SiteOutcome | None:
        """What came of a slot that began after so many steps; none: it was not trained."""
        try:
            found = SiteOutcome(**json.loads(self._slot(job, slot).read_bytes()))
        except FileNotFoundError:
            return None
        return found if found.before == steps else None

    def _slot(self, job: str, slot: int) -> Path:
        return self.jobs / job / f"slot-{slot}.json"
