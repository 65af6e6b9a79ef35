"""A receipt: what an admitted task's owner paid, and what was done for it."""

from dataclasses import dataclass

from auctune.domain.money import Money
from auctune.domain.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Receipt:
    """The account of one finished task.

    Attributes:
        task: the task's id.
        payment: what its owner pays, as quoted and decided.
        vendor_price: the part that goes to the data vendor.
        operating_cost: what running the plan cost the operator, rounded as money is.
        schedule: the plan that was sold.
        outcome: "done", or "failed" where training could not go on.
        rows: rows of data trained on, epochs counted.
        tokens: tokens trained on.
        steps: optimizer steps made.
        first_loss: mean loss over the first optimizer step; none before it.
        last_loss: mean loss over the last optimizer step.
    """

    task: str
    payment: Money
    vendor_price: Money
    operating_cost: Money
    schedule: Schedule
    outcome: str
    rows: int
    tokens: int
    steps: int
    first_loss: float | None
    last_loss: float | None
