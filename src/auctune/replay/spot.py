"""The log of a rented zone once more: by what decided, or by other ways to rent."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property

from auctune.cli._support.options import print_json
from auctune.cli._support.progress import ProgressBars
from auctune.cli.replays.metered import show_again
from auctune.cli.replays.replay import Figures, Logged
from auctune.cli.replays.shown import (
    bounds,
    contender_figures,
    show_left_out,
    show_side_by_side,
)
from auctune.domain import InputError
from auctune.registry import spot_policy
from auctune.run.rental.market import ReplayedRecord
from auctune.service.config.spot import SpotConfig
from auctune.service.zones.period import Period
from auctune.service.zones.spot.again import SpotAgain
from auctune.service.zones.spot.loader import load_market
from auctune.service.zones.spot.past import LoggedRental, LoggedRentals
from auctune.sim.comparison import Contender
from auctune.sim.spot.past_rental import PastRental, RentalTakings, Rented, rental_takings
from auctune.spot import Policy


def open_spot(logged: Logged) -> "SpotReplay":
    """The replay of a zone whose market's files are there.

    Raises:
        InputError: if they are not, or are others than those that the zone was opened with.
    """
    period, entry = logged.period, logged.entry
    if not isinstance(entry, SpotConfig):
        expected = f"auctune.toml with zone {period.zone}, which names the files of its market"
        raise InputError("--config", "names no market", f"{expected}: the log has their digest")
    market = load_market(entry)
    if market.digest != period.opened["market"]:
        expected = "the files and settings of its market with which the zone was opened"
        raise InputError(f"zone {period.zone}: market", "is another one", expected)
    return SpotReplay(period, market)


class SpotReplay:
    """A `Replay` of a rented zone's log.

    Args:
        period: of the log.
        market: that the zone replays.
    """

    def __init__(self, period: Period, market: ReplayedRecord) -> None:
        self._period, self._market = period, market

    def check(self, contender: Contender) -> None:
        """See `Replay`."""
        _policy(contender)

    def decide_again(self, *, as_json: bool) -> tuple[Figures, bool]:
        """See `Replay`."""
        period = self._period
        return show_again(
            period,
            "what was seen of its market",
            lambda: SpotAgain(self._market, period.clock),
            as_json=as_json,
        )

    def compare_with(self, contenders: Sequence[Contender], *, as_json: bool) -> Figures:
        """See `Replay`."""
        jobs = self._jobs
        before = rental_takings((job, job.was) for job in jobs)
        with ProgressBars() as bars:
            others = []
            for contender in contenders:
                tick = bars.counter(contender.label, len(jobs))
                others.append(_played(jobs, _policy(contender), tick))
        policies = sorted({job.policy for job in self._logged.telling})
        figures = {
            **bounds(self._period),
            "num_left_out": len(self._logged.jobs) - len(jobs),
            "recorded": {"mechanism": ", ".join(policies), **_takings_json(before)},
            "mechanisms": [
                contender_figures(contender, _takings_json(takings))
                for contender, takings in zip(contenders, others, strict=True)
            ],
        }
        if as_json:
            print_json(figures)
        else:
            show_side_by_side(self._period, contenders, before, others, _ROWS)
            show_left_out(figures["num_left_out"], "cancelled, paused, missed a slot, or not over")
        return figures

    @cached_property
    def _logged(self) -> LoggedRentals:
        return LoggedRentals.of(self._period.events(), self._period.first_slot)

    @cached_property
    def _jobs(self) -> list[PastRental]:
        return [past_rental(job, self._market) for job in self._logged.telling]


def past_rental(job: LoggedRental, market: ReplayedRecord) -> PastRental:
    """A job on record as another policy can be tried on it."""
    finish = None if job.is_capped else job.finish
    return PastRental(
        id=job.id,
        job=job.terms.job(),
        history=market.seen(job.first - 1),
        market=market.begun(job.first, job.terms.deadline),
        forecast=job.forecast,
        cap=float(job.held) / job.unit_price,
        unit_price=job.unit_price,
        was=Rented(float(job.charged) / job.unit_price, finish),
    )


def _played(
    jobs: Sequence[PastRental], policy: Policy, tick: Callable[[], None] | None
) -> RentalTakings:
    found = []
    for job in jobs:
        found.append((job, job.again(policy)))
        if tick is not None:
            tick()
    return rental_takings(found)


def _policy(contender: Contender) -> Policy:
    return spot_policy(contender.mechanism, contender.settings)


def _takings_json(takings: RentalTakings) -> Figures:
    return asdict(takings) | {"utility": takings.utility}


_ROWS: tuple[tuple[str, Callable[[RentalTakings], str]], ...] = (
    ("jobs", lambda one: f"{one.num_jobs:,}"),
    ("late", lambda one: f"{one.num_late:,}"),
    ("ended by the cap", lambda one: f"{one.num_capped:,}"),
    ("cost", lambda one: f"{one.cost:,.4f}"),
    ("value", lambda one: f"{one.value:,.4f}"),
    ("utility", lambda one: f"{one.utility:,.4f}"),
)
