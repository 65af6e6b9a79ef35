"""A job as the service returns it, with properties for display."""

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
        name: the owner's name for it, or the end of its id.
        status: OpenAI's status.
        market: the market's fields of the record.
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
        """Its state, in a word or two."""
        return state_word(self.market["state"])

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.status in OVER

    @property
    def is_decided(self) -> bool:
        """Whether its bid was decided on, or it ended before."""
        return self.market["decision"] is not None or self.is_over

    @property
    def is_admitted(self) -> bool:
        """Whether its bid was admitted."""
        return bool(self.market["decision"] == "admitted")

    @property
    def failure_reason(self) -> str:
        """Why it was rejected or failed; empty if neither."""
        error = self.record["error"]
        return "" if error is None else str(error["message"])

    @property
    def result_kind(self) -> str:
        """The kind of its result: an adapter, or a network."""
        return "adapter" if self.market.get("edge") is None else "network"

    @property
    def ends_at(self) -> float:
        """End of its plan, in unix time; 0 without a plan."""
        return float(self.record["estimated_finish"] or 0)

    @property
    def rows(self) -> tuple[int, int]:
        """Rows trained, and total rows, over all epochs."""
        progress = self.market["progress"] or {}
        return progress.get("rows", 0), progress.get("total_rows", 0)

    @property
    def losses(self) -> tuple[float | None, float | None]:
        """Losses of the first and the newest step."""
        progress = self.market["progress"] or {}
        return progress.get("first_loss"), progress.get("last_loss")

    @property
    def loss(self) -> str | None:
        """Its best loss if it has a target loss, else its newest; `None` before the first."""
        target = self.market.get("target")
        loss = self.losses[1] if target is None else target["best_loss"]
        return None if loss is None else loss_text(loss, self.target_loss)

    def is_overdue(self, now: float) -> bool:
        """Whether a metered job runs past its estimated finish."""
        return is_overdue(self.record, now)

    @property
    def metered(self) -> dict[str, Any] | None:
        """Its costs in a zone that meters usage; `None` if priced, or not decided on."""
        return self.market.get("metered")

    @property
    def target_loss(self) -> float | None:
        """Its target loss, if any."""
        target = self.market.get("target")
        return None if target is None else target["target_loss"]

    @property
    def cost(self) -> str | None:
        """What it pays, or has cost so far; 0 once refunded; `None` before a decision."""
        if self.market["refunded"]:
            return "0.0000"
        if self.metered is not None and self.is_admitted:
            return str(self.metered["cost"])
        payment: str | None = self.market["payment"]
        return payment
