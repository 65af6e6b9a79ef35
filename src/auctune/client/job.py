"""A job as the service shows it, read for people."""

from dataclasses import dataclass, field
from typing import Any

from auctune.domain.job_words import is_overdue, loss_text, state_word

OVER = ("succeeded", "failed", "cancelled")
_SHORT = 8


@dataclass(frozen=True, slots=True)
class Job:
    """A job.

    Attributes:
        id: the service's.
        name: its owner's, or the end of its id.
        status: as OpenAI's API names it.
        market: the market's part of the answer.
        record: the whole answer.
    """

    id: str
    name: str
    status: str
    market: dict[str, Any] = field(repr=False)
    record: dict[str, Any] = field(repr=False)

    @classmethod
    def read(cls, record: dict[str, Any]) -> "Job":
        """The job of an answer."""
        name = (record.get("metadata") or {}).get("name") or record["id"][-_SHORT:]
        return cls(record["id"], name, record["status"], record["market"], record)

    @property
    def state(self) -> str:
        """Where it stands, in a word or two."""
        return state_word(self.market["state"])

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in OVER

    @property
    def is_decided(self) -> bool:
        """Whether its bid was answered."""
        return self.market["decision"] is not None or self.is_over

    @property
    def is_admitted(self) -> bool:
        """Whether its bid was taken."""
        return bool(self.market["decision"] == "admitted")

    @property
    def why(self) -> str:
        """Why it was rejected, or failed; nothing if it was and did not."""
        error = self.record["error"]
        return "" if error is None else str(error["message"])

    @property
    def comes_to(self) -> str:
        """What it leaves when it is done: an adapter, or a network of its own."""
        return "adapter" if self.market.get("edge") is None else "network"

    @property
    def ends_at(self) -> float:
        """When its plan ends, in unix time; 0: it has none."""
        return float(self.record["estimated_finish"] or 0)

    @property
    def rows(self) -> tuple[int, int]:
        """Rows trained, and to train, over all epochs."""
        progress = self.market["progress"] or {}
        return progress.get("rows", 0), progress.get("total_rows", 0)

    @property
    def losses(self) -> tuple[float | None, float | None]:
        """Of the first and the newest step."""
        progress = self.market["progress"] or {}
        return progress.get("first_loss"), progress.get("last_loss")

    @property
    def loss(self) -> str | None:
        """Its loss: the least of a unit where it has a target, else the newest; none: none yet."""
        target = self.market.get("target")
        loss = self.losses[1] if target is None else target["best_loss"]
        return None if loss is None else loss_text(loss, self.target_loss)

    def is_overdue(self, now: float) -> bool:
        """Whether a metered job goes on beyond the time by which it was thought to be done."""
        return is_overdue(self.record, now)

    @property
    def metered(self) -> dict[str, Any] | None:
        """What it costs, in a zone that meters; none: it has a price, or is not decided on."""
        return self.market.get("metered")

    @property
    def target_loss(self) -> float | None:
        """What it is trained to; none: to the end of its data."""
        target = self.market.get("target")
        return None if target is None else target["target_loss"]

    @property
    def paid(self) -> str | None:
        """What it pays, or has cost so far, 0 once refunded; `None`: nothing is known of it."""
        if self.market["refunded"]:
            return "0.0000"
        if self.metered is not None and self.is_admitted:
            return str(self.metered["cost"])
        payment: str | None = self.market["payment"]
        return payment
