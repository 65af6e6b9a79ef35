"""A task: a fine-tuning job as the market sees it, with its bid."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auctune.domain.checks import check_finite, check_positive
from auctune.domain.errors import InputError
from auctune.domain.money import Money


@dataclass(frozen=True, slots=True)
class Quote:
    """A data vendor's offer to prepare a task's data (q_in, h_in in the paper).

    Attributes:
        vendor: the vendor's name.
        price: what it takes, money >= 0.
        delay: slots that its work lasts, >= 0; training starts no earlier than arrival + delay.
    """

    vendor: str
    price: Money
    delay: int

    def __post_init__(self) -> None:
        if not self.price.is_finite() or self.price < 0:
            raise InputError("price", f"{self.price}", "an amount of money >= 0")
        if self.delay < 0:
            raise InputError("delay", f"{self.delay}", "a number of slots >= 0")


@dataclass(frozen=True, slots=True)
class Task:
    """A bid for training: what must be done, by when, and what it is worth to its owner.

    Attributes:
        id: unique in its market.
        arrival: slot in which the bid is made (a_i).
        deadline: last slot in which it may run, inclusive (d_i).
        work: samples to train on, > 0 (M_i).
        memory_gb: memory held on its node in each slot in which it runs (r_i).
        bid: what its owner would pay at most (b_i).
        throughput: samples per slot by node type (s_ik), > 0; a type left out cannot run it.
        quotes: vendors' offers if the data need work, else empty (f_i).
        operating_cost: money per slot by node type, one entry a slot of the horizon (e_ikt);
            none: derived from the node type's energy cost.
        owner: who bids; `None` where nobody keeps count of owners, as in a simulation.
        budget: what was left of the owner's budget just before the bid; `None`: no limit.
    """

    id: str
    arrival: int
    deadline: int
    work: float
    memory_gb: float
    bid: Money
    throughput: Mapping[str, float]
    quotes: tuple[Quote, ...] = ()
    operating_cost: Mapping[str, Sequence[float]] | None = field(default=None, compare=False)
    owner: str | None = None
    budget: Money | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise InputError("id", "is empty", "a name")
        if self.arrival < 0:
            raise InputError("arrival", f"{self.arrival}", "a slot >= 0")
        if self.deadline < self.arrival:
            raise InputError(
                "deadline",
                f"{self.deadline} is before arrival {self.arrival}",
                "a slot >= arrival",
            )
        check_positive(self.work, "work", "samples > 0")
        check_finite(self.memory_gb, "memory_gb", "GB >= 0")
        if not self.bid.is_finite() or self.bid < 0:
            raise InputError("bid", f"{self.bid}", "an amount of money >= 0")
        if not self.throughput:
            raise InputError("throughput", "is empty", "samples per slot of at least one node type")
        for node_type, samples in self.throughput.items():
            check_positive(samples, f"throughput.{node_type}", "samples per slot > 0")
        for node_type, costs in (self.operating_cost or {}).items():
            for slot, cost in enumerate(costs):
                check_finite(cost, f"operating_cost.{node_type}[{slot}]", "money per slot >= 0")
