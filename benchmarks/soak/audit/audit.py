"""All checks, once all jobs are over."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from soak.audit.acknowledged import check_acknowledged
from soak.audit.books import check_books
from soak.audit.rebuilt import Rebuilt, check_entries
from soak.audit.replayed import check_replays
from soak.diary import Diary
from soak.kind import SoakKind
from soak.log import Log
from soak.served import Served
from soak.site import Site


def audit(
    site: Site,
    log: Log,
    kinds: Sequence[SoakKind],
    diaries: list[Diary],
    served: Served,
    budgets: Mapping[str, Decimal],
) -> Iterator[str]:
    """Everything that is not as it should be.

    Args:
        site: with the data folder.
        log: all that is on record.
        kinds: of the zones.
        diaries: of all clients.
        served: what the service said before it was stopped.
        budgets: of users.
    """
    yield from served.wrong
    yield from check_books(log, served.balances, budgets)
    by_zone = {kind.zone: kind for kind in kinds}
    yield from check_acknowledged(
        log, diaries, lambda decided: by_zone[decided.zone].planned(decided.body)
    )
    for story in log.stories.values():
        yield from by_zone[story.events[0].zone].check(story)
    rebuilt = [Rebuilt(kind, log.events[kind.zone], served) for kind in kinds]
    for zone in rebuilt:
        yield from zone.fold()
        yield from zone.check(log)
    yield from check_entries(log, rebuilt)
    yield from check_replays(site.config, site.data, kinds)
