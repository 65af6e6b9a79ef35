"""What an edge zone offers for a job: prices by finish time, each binding while it is to be had."""

from dataclasses import dataclass
from typing import Any

from auctune.edge import EdgeMenu
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.zones.clock import SlotClock
from auctune.service.zones.offer import Outlook


@dataclass(frozen=True, slots=True)
class EdgeOffer:
    """A menu.

    Attributes:
        menu: earliest finish first, each line cheaper than the one before.
        clock: of its slots.
    """

    menu: EdgeMenu
    clock: SlotClock

    @property
    def size(self) -> int:
        """Slots and moves in the plans of all lines."""
        return sum(1 + len(part.moves) for line in self.menu.lines for part in line.plan.slots)

    @property
    def summary(self) -> Outlook | None:
        """The last line: what is bought is run by then, or refunded."""
        if not self.menu.lines:
            return None
        last = self.menu.lines[-1]
        return Outlook(last.price, self.clock.slot_end(last.finish), 0.0)

    @property
    def unavailable_reason(self) -> str | None:
        """Whether there is no line."""
        return None if self.menu.lines else "it cannot be done by its deadline"

    def to_response(self) -> dict[str, Any]:
        """All lines, in the real clock's time."""
        ends, begins = self.clock.slot_end, self.clock.slot_start
        lines = []
        for index, line in enumerate(self.menu.lines):
            finish, start = ends(line.finish), begins(line.plan.slots[0].slot)
            lines.append(
                {
                    "line": index,
                    "price": str(line.price),
                    "finish": finish,
                    "finish_time": to_rfc3339(finish),
                    "start": start,
                    "start_time": to_rfc3339(start),
                    "vendor": None,
                    "slots": len(line.plan.slots),
                }
            )
        return {"lines": lines, "estimate": None}
