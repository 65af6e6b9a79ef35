"""What a soak came to, as tables."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from rich.console import Console
from rich.table import Table

from auctune.service.event_writer import from_minor_units
from auctune.service.ledger import REVENUE
from auctune.service.storage.events import EventType
from soak.diary import Diary
from soak.log import Log, Story

_MOST_SHOWN, _LONGEST = 60, 600


@dataclass(frozen=True, slots=True)
class Soaked:
    """What came of it.

    Attributes:
        minutes: of bids and faults.
        seed: that it was drawn from.
        log: all that is on record.
        diaries: of all clients.
        struck: faults, counted.
        start_seconds: of each life of the service.
        num_results: adapters that load.
        wrong: disagreements; none, if all is well.
    """

    minutes: float
    seed: int
    log: Log
    diaries: Sequence[Diary]
    struck: Counter[str]
    start_seconds: Sequence[float]
    num_results: int
    wrong: Sequence[str]


def show(soaked: Soaked, console: Console) -> None:
    """Print it."""
    console.print(_zones(soaked))
    console.print(_outcomes(soaked))
    console.print(_faults(soaked))
    requests = [one for diary in soaked.diaries for one in diary.requests]
    lost = sum(one.lost for one in requests)
    again = sum(max(0, one.tries - 1) for one in requests)
    events = sum(map(len, soaked.log.events.values()))
    starts = soaked.start_seconds
    console.print(
        f"{soaked.minutes:g} minutes, seed {soaked.seed}: {len(requests)} requests for jobs, "
        f"{lost} tries without an answer, {again} made again; {events} events, "
        f"{len(soaked.log.booked)} entries; {soaked.num_results} adapters load; "
        f"{len(starts)} starts of the service, {statistics.median(starts):.1f} s (median), "
        f"{max(starts):.1f} s at most"
    )
    count = len(soaked.wrong)
    for wrong in soaked.wrong[:_MOST_SHOWN]:
        console.print(wrong[:_LONGEST], style="red", soft_wrap=True, markup=False, highlight=False)
    if count > _MOST_SHOWN:
        console.print(f"and {count - _MOST_SHOWN} more")
    console.print("log, ledger and clients agree" if not count else f"[red]{count} disagreements")


def _zones(soaked: Soaked) -> Table:
    columns = ("bids", "admitted", "finished", "failed", "refunded", "cancelled", "slots", "earned")
    table = Table("zone", *columns, title="jobs")
    for zone in soaked.log.events:
        stories = [one for one in soaked.log.stories.values() if one.events[0].zone == zone]
        ends = Counter(one.last.type for one in stories if one.is_admitted)
        earned = -sum(sum(one.amounts(REVENUE)) for one in stories)
        counts = (
            len(stories),
            sum(one.is_admitted for one in stories),
            ends[EventType.FINISHED],
            ends[EventType.FAILED],
            sum(one.is_refunded for one in stories),
            ends[EventType.CANCELLED],
            sum(len(one.of(EventType.TRAINED)) for one in stories),
        )
        table.add_row(zone, *map(str, counts), _money(earned))
    return table


def _outcomes(soaked: Soaked) -> Table:
    table = Table("zone", "ended as", "jobs", title="how they ended")
    counted = Counter((one.events[0].zone, _end(one)) for one in soaked.log.stories.values())
    for (zone, end), count in sorted(counted.items()):
        table.add_row(zone, end, str(count))
    return table


def _end(story: Story) -> str:
    last = story.last
    if last.type == EventType.FAILED:
        return f"{last.body['code']}{', refunded' if story.is_refunded else ''}"
    if last.type == EventType.DECIDED:
        return f"rejected: {last.body['decision']['reason']}"
    return str(last.type).removeprefix("job.")


def _faults(soaked: Soaked) -> Table:
    table = Table("fault", "times", title="what broke")
    for name, count in soaked.struck.most_common():
        table.add_row(name, str(count))
    return table


def _money(steps: int) -> str:
    return str(Decimal(from_minor_units(steps)))
