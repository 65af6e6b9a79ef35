"""A job record of the service, with properties for display."""

from dataclasses import dataclass, field
from typing import Any

from auctune.domain.job_words import is_overdue, loss_text, state_word

OVER = ("succeeded", "failed", "cancelled")
_SHORT = 8


@dataclass(frozen=True, slots=True)
class Job:
    """A job.

    Attributes:
        id: the service's id.
        name: the owner's name for the job, or the end of its id.
        status: OpenAI's status.
        market: the record's `market` fields.
        record: the whole record.
    """

    id: str
    name: str
    status: str
    market: dict[str, Any] = field(repr=False)
    record: dict[str, Any] = field(repr=False)

    @classmethod
    def read(cls, record: dict[str, Any]) -> "Job":
        """Parse a record."""
        name = (record.get("metadata") or {}).get("name") or record["id"][-_SHORT:]
        return cls(record["id"], name, record["status"], record["market"], record)

    @property
    def state(self) -> str:
        return state_word(self.market["state"])

    @property
    def is_over(self) -> bool:
        return self.status in OVER

    @property
    def is_decided(self) -> bool:
        """Return whether the bid was decided on, or the job ended before."""
        return self.market["decision"] is not None or self.is_over

    @property
    def is_admitted(self) -> bool:
        return bool(self.market["decision"] == "admitted")

    @property
    def failure_reason(self) -> str:
        """Why the job was rejected or failed, or an empty string."""
        error = self.record["error"]
        return "" if error is None else str(error["message"])

    @property
    def ends_at(self) -> float:
        """End of the plan in unix time, or 0 without a plan."""
        return float(self.record["estimated_finish"] or 0)

    @property
    def rows(self) -> tuple[int, int]:
        """Rows trained and total rows, over all epochs."""
        progress = self.market["progress"] or {}
        return progress.get("rows", 0), progress.get("total_rows", 0)

    @property
    def losses(self) -> tuple[float | None, float | None]:
        """Losses of the first and the latest step."""
        progress = self.market["progress"] or {}
        return progress.get("first_loss"), progress.get("last_loss")

    @property
    def loss(self) -> str | None:
        """Best loss of a job with a target loss, else the latest, or `None` before the first."""
        target = self.market.get("target")
        loss = self.losses[1] if target is None else target["best_loss"]
        return None if loss is None else loss_text(loss, self.target_loss)

    def is_overdue(self, now: float) -> bool:
        """Return whether a metered job runs past its estimated finish."""
        return is_overdue(self.record, now)

    @property
    def metered(self) -> dict[str, Any] | None:
        """Costs in a zone that meters usage, or `None` elsewhere and before a decision."""
        return self.market.get("metered")

    @property
    def target_loss(self) -> float | None:
        target = self.market.get("target")
        return None if target is None else target["target_loss"]

    @property
    def cost(self) -> str | None:
        """Payment, or cost so far; 0 once refunded; `None` before a decision."""
        if self.market["refunded"]:
            return "0.0000"
        if self.metered is not None and self.is_admitted:
            return str(self.metered["cost"])
        payment: str | None = self.market["payment"]
        return payment
