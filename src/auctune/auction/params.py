"""The options of the auction, as files and the command line name them."""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from auctune.domain import InputError
from auctune.domain.checks import check_count

Payment = Literal["critical", "paper"]
CapacityCheck = Literal["masked", "checked"]
Aggregate = Literal["max", "sum"]
ScheduleRule = Literal["exact", "printed"]
PricingName = Literal["learned", "exponential", "paper"]

_CHOICES: dict[str, Any] = {
    "payment": Payment,
    "capacity": CapacityCheck,
    "aggregate": Aggregate,
    "search": ScheduleRule,
    "pricing": PricingName,
}
SETTINGS_OF_PRICING: dict[str, PricingName] = {
    "alpha": "paper",
    "beta": "paper",
    "compute_low": "exponential",
    "compute_high": "exponential",
    "memory_low": "exponential",
    "memory_high": "exponential",
}
_PAIRS = (("compute_low", "compute_high"), ("memory_low", "memory_high"))


@dataclass(frozen=True, slots=True)
class PdftspParams:
    """Options of pdFTSP; docs/explanation/auction.md says why each is there.

    Attributes:
        payment: `critical` charges c(l*); `paper` leaves the operating cost out (eq. 14) and is
            not truthful.
        capacity: `masked` searches cells with room; `checked` looks after it has chosen.
        aggregate: a schedule's price is at its dearest cell (`max`) or summed by cell (`sum`);
            none: `max` for the paper's prices, else `sum`. `max` is exact, and slower.
        search: `exact` finds the least cost; `printed` is the paper's recursion (13), which may
            miss it, for `max` alone.
        pricing: `learned` are shadow prices against a forecast of bids; `exponential` is
            L * (U / L) ** (used / capacity); `paper` is eqs. 7 and 8.
        alpha, beta: of `paper`; None: `scale` times the greatest bid per sample, and per GB, of
            the instance, which is clairvoyant.
        scale: see alpha.
        compute_low, compute_high: L and U for compute, money per sample; None: what bids of
            earlier slots revealed.
        memory_low, memory_high: the same for memory, money per GB-slot.
        seed: of what a mechanism draws at random.
    """

    payment: Payment = "critical"
    capacity: CapacityCheck = "masked"
    aggregate: Aggregate | None = None
    search: ScheduleRule = "exact"
    pricing: PricingName = "learned"
    alpha: float | None = None
    beta: float | None = None
    scale: float = 1.0
    compute_low: float | None = None
    compute_high: float | None = None
    memory_low: float | None = None
    memory_high: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if name == "aggregate" and self.aggregate is None:
                continue
            if getattr(self, name) not in get_args(choices):
                raise InputError(
                    name, f"{getattr(self, name)!r}", f"one of {', '.join(get_args(choices))}"
                )
        for name in ("alpha", "beta", "scale", *_PAIRS[0], *_PAIRS[1]):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise InputError(name, f"{value!r}", "a number >= 0")
        for low, high in _PAIRS:
            self._check_range(low, high)
        self._check_pricing()
        if self.search == "printed" and self.chosen_aggregate != "max":
            raise InputError("search", "'printed' is of maxima", "aggregate=max")
        check_count(self.seed, "seed", 0)

    def _check_pricing(self) -> None:
        for name, needed in SETTINGS_OF_PRICING.items():
            if getattr(self, name) is not None and self.pricing != needed:
                raise InputError(
                    name, f"says nothing to pricing={self.pricing}", f"pricing={needed}"
                )

    @property
    def chosen_aggregate(self) -> Aggregate:
        """`aggregate`, or what goes with the prices."""
        return self.aggregate or ("max" if self.pricing == "paper" else "sum")

    def _check_range(self, low: str, high: str) -> None:
        least, most = getattr(self, low), getattr(self, high)
        if (least is None) != (most is None):
            given, missing = (low, high) if most is None else (high, low)
            raise InputError(given, f"is set without {missing}", f"both {low} and {high}, or none")
        if least is not None and not 0 < least <= most:
            raise InputError(low, f"{least!r}", f"0 < {low} <= {high} = {most!r}")
