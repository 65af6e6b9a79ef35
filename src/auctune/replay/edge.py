"""The log of an edge zone once more: by Eris as it was, or through other mechanisms."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from auctune.cli._support.options import print_json
from auctune.cli._support.progress import ProgressBars
from auctune.cli.replays.metered import show_again
from auctune.cli.replays.replay import Figures, Logged
from auctune.cli.replays.shown import bounds, contender_figures, show_side_by_side
from auctune.domain import InputError, Money
from auctune.edge import EdgeDecision, EdgeJob, EdgePlayer
from auctune.edge.limits import MOST_CELLS
from auctune.registry import edge_player
from auctune.run.edge.plain import read_decision, read_job
from auctune.service.config.edge import read_supply
from auctune.service.zones.core.events import EventType
from auctune.service.zones.edge.again import EdgeAgain
from auctune.sim.comparison import Contender


@dataclass(frozen=True, slots=True)
class EdgeTakings:
    """What a mechanism makes of bids.

    Attributes:
        num_jobs, num_admitted: how many.
        welfare: bids of those that run.
        revenue: what they pay.
    """

    num_jobs: int
    num_admitted: int
    welfare: float
    revenue: float


class EdgeReplay:
    """A `Replay` of an edge zone's log."""

    def __init__(self, logged: Logged) -> None:
        self._period = logged.period

    def check(self, contender: Contender) -> None:
        """See `Replay`."""
        _player(contender)

    def decide_again(self, *, as_json: bool) -> tuple[Figures, bool]:
        """See `Replay`."""
        opened = self._period.opened
        paid = sum(decision.admitted for decision in self._bids()[1])
        return show_again(
            self._period, "eris", lambda: EdgeAgain(opened), as_json=as_json, payments=paid
        )

    def compare_with(self, contenders: Sequence[Contender], *, as_json: bool) -> Figures:
        """See `Replay`."""
        jobs, answers = self._bids()
        before = _takings(jobs, answers)
        with ProgressBars() as bars:
            others = []
            for contender in contenders:
                bars.counter(contender.label, None)
                others.append(_takings(jobs, self._played(_player(contender), jobs)))
        figures = {
            **bounds(self._period),
            "recorded": {"mechanism": "eris", **asdict(before)},
            "mechanisms": [
                contender_figures(contender, asdict(takings))
                for contender, takings in zip(contenders, others, strict=True)
            ],
        }
        if as_json:
            print_json(figures)
        else:
            show_side_by_side(self._period, contenders, before, others, _ROWS)
        return figures

    def _bids(self) -> tuple[list[EdgeJob], list[EdgeDecision]]:
        period = self._period
        decided = [
            event.body
            for event in period.events()
            if event.kind == EventType.DECIDED and period.has(event)
        ]
        jobs = [read_job(body["job"]) for body in decided]
        return jobs, [read_decision(body["answer"]) for body in decided]

    def _played(self, player: EdgePlayer, jobs: list[EdgeJob]) -> list[EdgeDecision]:
        """Through an empty market that has all slots of the period, and its horizon."""
        if not jobs:
            return []
        first = min(job.arrival for job in jobs)
        market, _ = read_supply(self._period.opened)
        slots = max(job.arrival for job in jobs) - first + market.slots
        cells = slots * len(market.sites) * max(1, len(market.types))
        if cells > MOST_CELLS:
            raise InputError("--from", f"{slots:,} slots are too many at once", "a shorter period")
        moved = [replace(job, arrival=job.arrival - first) for job in jobs]
        return player.play(replace(market, slots=slots), moved)


def _player(contender: Contender) -> EdgePlayer:
    return edge_player(contender.mechanism, contender.settings)


def _takings(jobs: Sequence[EdgeJob], decisions: Sequence[EdgeDecision]) -> EdgeTakings:
    admitted = [one for one in decisions if one.admitted]
    return EdgeTakings(
        len(jobs),
        len(admitted),
        sum(one.utility or 0.0 for one in admitted),
        float(sum((one.payment for one in admitted), Money(0))),
    )


_ROWS: tuple[tuple[str, Callable[[EdgeTakings], str]], ...] = (
    ("bids", lambda one: f"{one.num_jobs:,}"),
    ("admitted", lambda one: f"{one.num_admitted:,}"),
    ("welfare", lambda one: f"{one.welfare:,.4f}"),
    ("revenue", lambda one: f"{one.revenue:,.4f}"),
)
