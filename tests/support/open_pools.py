"""Standing pools of lines, wanted by a script, and stopped in the middle."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from auctune.run.event_log import EventLog, EventRecord
from auctune.run.open_pool.folder import OpenPoolFolder
from auctune.run.open_pool.open_pool import OpenPool
from auctune.run.open_pool.open_thread import ThreadShop
from auctune.run.open_pool.pool_params import OpenPoolParams
from auctune.run.open_pool.wanted import Wanted
from auctune.run.timeshare.foresight import ThreadView
from auctune.run.timeshare.pace import CountedPace
from support.pool_threads import ReadingLine, make_line

Script = Callable[[int], Wanted]
"""Who is wanted as a unit begins."""

MOST_UNITS = 60


class CutError(Exception):
    """Stands for a kill."""


@dataclass
class LineShop:
    """Makes lines, and cuts them off at some turn.

    Attributes:
        left: turns until then.
        there: ids of threads that were made and not let go.
    """

    left: int = 10**9
    there: set[str] = field(default_factory=set)

    def make(self, thread: str, lasting: Mapping[str, Any]) -> ReadingLine:
        """A line of the seed that is on record."""
        made = make_line(lasting["seed"])
        self.there.add(thread)
        step = made.step

        def burning(batches: int) -> float:
            self.left -= 1
            if self.left <= 0:
                raise KeyboardInterrupt
            return step(batches)

        made.step = burning  # type: ignore[method-assign]
        return made

    def let_go(self, thread: str) -> None:
        """It is not there any more."""
        self.there.remove(thread)


@dataclass
class Heard:
    """What a pool tells, by number; cut off after so many events."""

    left: int = 10**9
    events: dict[int, EventRecord] = field(default_factory=dict)

    def __call__(self, number: int, event: EventRecord, views: Sequence[ThreadView]) -> None:
        """Keep it."""
        self.left -= 1
        if self.left <= 0:
            raise KeyboardInterrupt
        assert number not in self.events
        self.events[number] = event


def play_pool(
    params: OpenPoolParams,
    root: Path,
    script: Script,
    shop: ThreadShop | None = None,
    heard: Heard | None = None,
) -> list[EventRecord]:
    """Run a pool until its script wants nobody any more, or it is cut off; its journal.

    Raises:
        KeyboardInterrupt: if it was cut off.
    """
    place = OpenPoolFolder(root)
    journal = EventLog(place.event_log)
    try:
        pool = OpenPool(params, shop or LineShop(), CountedPace(), place, journal, heard or Heard())
        pool.take_up()
        while pool.state.last < MOST_UNITS:
            wanted = script(pool.state.last + 1)
            pool.follow(wanted)
            if not pool.run_unit() and not wanted.keys() - pool.state.gone:
                return list(journal.events)
        raise AssertionError("the pool never came to its end")
    finally:
        journal.close()
