"""Folder of the sites of a zone.

DIR/
  state/jobs/ID/checkpoints/  by number of steps (auctune.train.checkpoint)
  state/jobs/ID/slot-T.json outcome of slot T
  state/jobs/ID/rows.json   rows of each site, as they were read first
  state/jobs/ID/adapter/    result of a job
  state/jobs/ID/epochs/N/   adapters after its last slots, of which N is the number
  state/sites.json          processes of sites on this machine
  state/workers.log         errors of their workers
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import quote

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter

from auctune.files.atomic import remove_folder, write_atomically
from auctune.train.adapter_files import EPOCHS, KEPT_EPOCHS, epoch_folders, write_adapter_files
from auctune.train.checkpoint import (
    CHECKPOINTS,
    Checkpoint,
    discard_newer,
    load_checkpoint,
    save_checkpoint,
)
from auctune.train.job import CurvePoint


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOutcome:
    """Outcome of a job's slot.

    Attributes:
        before, steps: of the optimizer since the job began, before the slot and after it.
        chunks: that were trained.
        samples: rows that were trained, over all epochs.
        tokens: trained tokens since the job began.
        losses: of its steps; rows and tokens since the job began.
        first_loss, loss: mean loss of the first step, and of the last epoch; None if no row had
            anything to learn.
        validation_loss, validation_accuracy: at the end of the slot; None without validation data.
        seconds: that its steps took.
        workers_away: number of workers that were not at the server's site.
        chunks_crossed, chunk_bytes: chunks that workers fetched from other sites.
        parameter_bytes: weights and gradients that crossed sites.
    """

    # Losses of a training that diverged are not finite.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"ser_json_inf_nan": "constants"}

    before: int
    steps: int
    chunks: tuple[int, ...]
    samples: int
    tokens: int
    losses: tuple[CurvePoint, ...]
    first_loss: float | None
    loss: float | None
    validation_loss: float | None
    validation_accuracy: float | None
    seconds: float
    workers_away: int
    chunks_crossed: int
    chunk_bytes: int
    parameter_bytes: int

    @property
    def diverged(self) -> bool:
        """Return whether a loss is NaN or infinite."""
        losses = [loss for *_, loss, _ in self.losses]
        return not all(map(math.isfinite, [*losses, self.validation_loss or 0.0]))


@dataclass(frozen=True, slots=True)
class SiteRows:
    """Rows of a job at a site, as they were read first: SHA-256 of their file, and their number."""

    sha256: str
    num_rows: int


OUTCOME: TypeAdapter[SlotOutcome] = TypeAdapter(SlotOutcome)
# For pydantic: an outcome that is recorded without the losses of its steps.
SummaryField = Annotated[
    SlotOutcome,
    BeforeValidator(lambda value: {"losses": (), **value} if isinstance(value, dict) else value),
    PlainSerializer(lambda outcome: OUTCOME.dump_python(outcome, mode="json", exclude={"losses"})),
]
_ROWS = TypeAdapter(dict[str, SiteRows])


@dataclass(frozen=True, slots=True)
class EdgeFolder:
    """Paths of a zone's sites, in the folder `root`."""

    root: Path

    @property
    def state(self) -> Path:
        """What the sites need to go on."""
        return self.root / "state"

    @property
    def sites(self) -> Path:
        """Processes of sites on this machine."""
        return self.state / "sites.json"

    @property
    def workers_log(self) -> Path:
        """Errors of workers on this machine."""
        return self.state / "workers.log"

    @property
    def jobs(self) -> Path:
        """Folders of jobs: checkpoints, outcomes of slots, results."""
        return self.state / "jobs"

    def job(self, job: str) -> Path:
        """Return the folder of a job, whose id may have any characters."""
        return self.jobs / quote(job, safe="")

    def adapter(self, job: str) -> Path:
        """Return the folder of a job's adapter, once its last slot is trained."""
        return self.job(job) / "adapter"

    def write_epoch(self, job: str, number: int, files: Mapping[str, bytes]) -> None:
        """Write the adapter after a job's slot, which ends epochs of its chunks; remove old ones.

        A slot that is trained again may come after fewer slots than the attempt that was not
        recorded.
        """
        folder = self.adapter(job).parent / EPOCHS
        write_adapter_files(folder / f"{number}", files)
        for other, path in epoch_folders(folder):
            if not number - KEPT_EPOCHS < other <= number:
                remove_folder(path)

    def write_checkpoint(self, job: str, checkpoint: Checkpoint, before: int) -> None:
        """Write a job's state, to which training came from the one of `before` steps."""
        folder = self._checkpoints(job)
        # A slot that is trained again may take fewer steps than the attempt that was not recorded.
        discard_newer(folder, before)
        save_checkpoint(folder, checkpoint.state["steps"], checkpoint)

    def read_checkpoint(self, job: str, steps: int) -> Checkpoint | None:
        """Return a job's state after a number of steps, as arrays; None before the first.

        Raises:
            CheckpointError: if it is missing or damaged.
        """
        if steps == 0:
            return None
        return load_checkpoint(self._checkpoints(job), steps, as_arrays=True)

    def write_outcome(self, job: str, slot: int, outcome: SlotOutcome) -> None:
        """Write the outcome of a slot, so that it can be reported again."""
        write_atomically(self._outcome(job, slot), OUTCOME.dump_json(outcome) + b"\n")

    def read_outcome(self, job: str, slot: int, steps: int) -> SlotOutcome | None:
        """Return the outcome of a slot that began after so many steps, or None."""
        try:
            found = OUTCOME.validate_json(self._outcome(job, slot).read_bytes())
        except FileNotFoundError:
            return None
        return found if found.before == steps else None

    def write_rows(self, job: str, rows: Mapping[str, SiteRows]) -> None:
        """Write what the rows of a job's sites are, which may not change from then on."""
        self.job(job).mkdir(parents=True, exist_ok=True)
        write_atomically(self._rows(job), _ROWS.dump_json(dict(rows)) + b"\n")

    def read_rows(self, job: str) -> dict[str, SiteRows]:
        """Return what the rows of a job's sites are; empty before they were read."""
        try:
            return _ROWS.validate_json(self._rows(job).read_bytes())
        except FileNotFoundError:
            return {}

    def _checkpoints(self, job: str) -> Path:
        return self.job(job) / CHECKPOINTS

    def _outcome(self, job: str, slot: int) -> Path:
        return self.job(job) / f"slot-{slot}.json"

    def _rows(self, job: str) -> Path:
        return self.job(job) / "rows.json"
