"""What a mechanism of the auction is to the rest of auctune."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from auctune.domain.decision import Cell, Decision, MenuLine, PriceMenu, Schedule
from auctune.domain.events import Commitment, Event, Replanned
from auctune.domain.explanation import Explanation, PricedPlan
from auctune.domain.snapshot import Saved
from auctune.domain.task import Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class MarketState:
    """Arrays [slot, node], copies of a mechanism's state.

    Attributes:
        compute_price: money per sample.
        memory_price: money per GB-slot.
        compute_used, memory_used: sold share of what the node has beside the base, 0 to 1; 1 on
            a node that is lost.
        first_slot: the slot of the first row: 0 but in a market whose window rolls.
    """

    compute_price: "Floats"
    memory_price: "Floats"
    compute_used: "Floats"
    memory_used: "Floats"
    first_slot: int = 0


class Admission(Protocol):
    """A mechanism that answers each bid at once and for good.

    It owns its state, has no clock and does no I/O: `now`, the current slot, is passed in and
    never decreases.
    """

    @property
    def by_slot(self) -> bool:
        """Return whether the bids of a slot compete with each other and are offered together."""
        ...

    def advance(self, now: int) -> tuple[Event, ...]:
        """Slot `now` begins, or goes on: what earlier bids revealed is taken over.

        Learning happens here, so that it can be timed apart from decisions and put on record:
        call it once a slot and before each bid. `offer` and `take` do so by themselves where
        nobody has; a log without these events is learned from again when it is applied.

        Returns:
            What happened, in its order, for the record: `SlotAdvanced` if the slot began,
            `PricesLearned` if prices moved.
        """
        ...

    def offer(self, task: Task, now: int) -> Decision:
        """Decide on one bid, and book what was promised."""
        ...

    def offer_slot(self, tasks: Sequence[Task], now: int) -> list[Decision]:
        """Decide on all bids of one slot, in their order."""
        ...

    def preview(self, task: Task, now: int) -> Decision:
        """Return what `offer` would answer now; changes nothing."""
        ...

    def quote(self, task: Task, now: int) -> PriceMenu:
        """Prices by finish time for this task, whatever it bids; changes nothing.

        A mechanism that charges the bid has no prices to show: its menu is empty. `now` is the
        current slot, as in `offer`: a look ahead would take over prices before their time.
        """
        ...

    def take(self, task: Task, line: MenuLine, now: int) -> Decision | None:
        """Accept a line of an earlier menu.

        Returns:
            An admission at the line's price, if its very plan has room and costs no more now;
            else none, and nothing was booked. None where a mechanism has no menu.

        Raises:
            InputError: if the task bids less than the line's price.
        """
        ...

    def explain(self, task: Task, chosen: Decision | Schedule, now: int) -> Explanation:
        """Return what a plan costs part by part, and what others would have cost; changes nothing.

        It speaks of the prices and the room of this moment. A decision is explained by the market
        as it was before it: before the bid is offered, or in one that was rebuilt to that point.

        Args:
            task: the task.
            chosen: the plan, or a decision with one; for a rejected bid the best plan is taken.
            now: the current slot.

        Raises:
            InputError: if the plan is not one that the task could run by.
        """
        ...

    def release(self, task: Task, cells: Sequence[tuple[int, str]]) -> None:
        """Take cells that an admitted task no longer needs back into the market."""
        ...

    def lose_node(self, node: str, now: int, running: Sequence[Commitment]) -> list[Replanned]:
        """From slot `now` on a node runs nothing; plan anew what it was to run.

        A task pays what was promised, whatever its new plan costs, or is refunded in full. The
        node comes back by `apply(NodeReturned(...))`.

        Args:
            node: its id.
            now: the current slot, in which nothing has run yet.
            running: all admitted tasks with cells from `now` on; their work before it is done.

        Returns:
            What became of the tasks that were to run on it, in the order in which it was decided.

        Raises:
            InputError: if there is no such node, or if it is lost already.
        """
        ...

    def plan_rest(self, rest: Task, now: int) -> tuple[Cell, ...] | None:
        """Cells with room for a task whose plan failed, from slot `now` on; None if there are none.

        Nothing is booked: `apply(Replanned(...))` does that. Its quotes do not count.
        """
        ...

    def price_plan(self, task: Task, schedule: Schedule, now: int) -> PricedPlan | None:
        """What a plan costs from slot `now` on, with room in it or not; None if the task could
        not run by it. Its `price` is none where the bid is charged."""
        ...

    def state(self) -> MarketState:
        """Return what is sold and at which prices, now; prices are 0 where a mechanism has none."""
        ...

    def apply(self, event: Event) -> None:
        """Take over what happened, on replay, without deciding again."""
        ...

    def save(self) -> Saved:
        """Return all that this mechanism remembers; `write_snapshot` makes bytes of it."""
        ...

    def load(self, saved: Saved) -> None:
        """Take over what another one saved that was built alike: it goes on to the last bit.

        Call it on a new mechanism, before anything else.

        Raises:
            InputError: if it was saved by a mechanism that was built otherwise.
        """
        ...
