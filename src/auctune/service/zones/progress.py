"""How far the training of a job is, by what its slots left."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Progress:
    """What training has come to.

    Attributes:
        rows, total_rows: trained, and to train, over all epochs.
        tokens, steps: so far.
        first_loss, last_loss: of the first and the newest optimizer step; none before them.
    """

    rows: int = 0
    total_rows: int = 0
    tokens: int = 0
    steps: int = 0
    first_loss: float | None = None
    last_loss: float | None = None

    def after(self, result: Mapping[str, Any]) -> "Progress":
        """What it is once a slot has come to `result`, as of `job.trained`."""
        losses = result["losses"]
        return Progress(
            rows=result["rows"],
            total_rows=result["total_rows"],
            tokens=result["tokens"],
            steps=result["steps"],
            first_loss=self.first_loss if self.steps or not losses else losses[0][3],
            last_loss=losses[-1][3] if losses else self.last_loss,
        )

    def to_record(self) -> dict[str, Any]:
        """As plain values."""
        return {name: getattr(self, name) for name in self.__slots__}
