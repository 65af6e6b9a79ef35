"""Options that say on what terms a job is asked for: of quotes and of bids."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from auctune.domain.errors import InputError

if TYPE_CHECKING:
    from auctune.client import Client, Terms

EDGE = "edge"

Bid = Annotated[str | None, typer.Option(help="What it is worth: an amount of money.")]
MaxCost = Annotated[
    str | None, typer.Option(help="The most that it may cost, where it is metered: the cap.")
]
Value = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT[@TIME[..TIME]]",
        help="What it is worth: all of it by the first time, nothing from the second on.",
    ),
]
TargetLoss = Annotated[
    float | None, typer.Option(help="The loss that it is trained to, on a shared pool.")
]
Risk = Annotated[
    float | None, typer.Option(help="The risk of being late that is taken; none: 0.1.")
]


@dataclass(frozen=True, slots=True)
class Wishes:
    """The terms as they were typed."""

    bid: str | None = None
    deadline: str | None = None
    value: str | None = None
    max_cost: str | None = None
    target_loss: float | None = None
    risk: float | None = None
    what_if: bool = False

    def check(self) -> None:
        """That a job can be asked for with them, before data are sent.

        Raises:
            InputError: naming the option that is missing.
        """
        if self.bid is None and self.value is None and self.max_cost is None:
            expected = "an amount of money; or --value, or --max-cost where it is metered"
            raise InputError("--bid", "is missing", expected)
        if self.deadline is None and "@" not in (self.value or ""):
            raise InputError("--deadline", "is missing", "a time, or a span such as +2h")

    def terms(self, base: str, zone: str | None) -> "Terms":
        """The same for the service.

        Raises:
            InputError: if the value is none.
        """
        from auctune.client import Terms
        from auctune.client.terms import read_value

        value = None if self.value is None else read_value(self.value)
        return Terms(
            base,
            zone,
            self.bid,
            self.deadline,
            self.what_if,
            value,
            self.max_cost,
            self.target_loss,
            self.risk,
        )


def base_of(client: "Client", model: str | None, zone: str | None, *, has_sites: bool) -> str:
    """The base that is meant: the one named, or that of the zone that would have the job."""
    kind = EDGE if has_sites else None
    return model or str(client.zone(zone, kind=kind)["model"])
