"""Eris: an online auction for jobs that train where their data are; Pang et al. (TMC 2024), Alg. 1.

For each job, in the order of arrival:
 find a plan for each completion time at the prices of what is sold, without looking at f;
 l* = argmax f(finish) - cost, ties to the earlier finish;
 admit it if that is positive: the payment is the cost; book it, and prices rise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Protocol

from auctune.domain import InputError, Reason, Saved, round_money
from auctune.domain.money import LARGEST, STEP
from auctune.domain.snapshot import restore
from auctune.edge.checker import first_violation
from auctune.edge.decision import (
    EdgeAdvanced,
    EdgeCommitment,
    EdgeDecision,
    EdgeEvent,
    EdgeMenu,
    EdgeMenuLine,
    EdgeOffered,
    EdgePlan,
    EdgeReplanned,
    SiteLost,
    SiteReturned,
)
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.market import EdgeMarket
from auctune.edge.prices import EdgePrices, EdgePricing, ErisParams, cost_of
from auctune.edge.replan import best_rest, data_left
from auctune.edge.search import Offer, offers


class Eris:
    """The edge's auction over one market.

    Args:
        market: the supply.
        params: the options.
        history: bids of earlier days; prices by share begin at their mean worth.

    Attributes:
        market: the supply.
        params: the options.
        ledger: what is sold.
    """

    def __init__(
        self,
        market: EdgeMarket,
        params: ErisParams | None = None,
        history: Sequence[EdgeJob] = (),
    ) -> None:
        self.market = market
        self.params = params or ErisParams()
        self.ledger = EdgeLedger(market)
        # Of the bids so far: how many, and the sum of their worths at duration 0.
        self._num_seen, self._worth_seen = 0, 0.0
        for job in history:
            self._record_bid(job)

    @property
    def pricing(self) -> EdgePricing:
        """From what is sold to prices, by the bids so far."""
        mean = self._worth_seen / self._num_seen if self._num_seen else 0.0
        return self.params.prices(self.market, mean)

    def offer(self, job: EdgeJob, now: int) -> EdgeDecision:
        """Decide on one bid, and book what was promised.

        Raises:
            InputError: if the job does not fit this market's sites, types and slots.
        """
        decision = self.preview(job, now)
        if decision.plan is not None:
            self.ledger.take(job, decision.plan)
        self._record_bid(job)
        return decision

    def offer_slot(self, jobs: Sequence[EdgeJob], now: int) -> list[EdgeDecision]:
        return [self.offer(job, now) for job in jobs]

    def preview(self, job: EdgeJob, now: int) -> EdgeDecision:
        """Return what `offer` would answer now; changes nothing.

        Raises:
            InputError: as `offer`.
        """
        self._check(job, now)
        chosen, most, reason = None, 0.0, Reason.NO_CAPACITY
        for line in self._lines(job, now):
            reason = Reason.UNPROFITABLE
            # Prices are not negative and f does not rise: later lines gain no more.
            if job.value(line.finish) <= most:
                break
            surplus = job.value(line.finish) - float(line.price)
            if surplus > most:
                chosen, most = line, surplus
        if chosen is None:
            return EdgeDecision(job.id, admitted=False, reason=self._rejection_reason(job, reason))
        return EdgeDecision(
            job.id,
            admitted=True,
            payment=chosen.price,
            plan=chosen.plan,
            utility=job.value(chosen.finish),
            surplus=most,
        )

    def quote(self, job: EdgeJob, now: int) -> EdgeMenu:
        """Return the price of each completion time; changes nothing, and f is not looked at.

        Raises:
            InputError: as `offer`.
        """
        self._check(job, now)
        return EdgeMenu(job.id, tuple(self._lines(job, now)))

    def take(self, job: EdgeJob, line: EdgeMenuLine, now: int) -> EdgeDecision | None:
        """Accept a line of an earlier menu, if its plan has room and costs no more now.

        Raises:
            InputError: as `offer`, or if the job is not worth the line's price.
        """
        found = self.would_take(job, line, now)
        if found is not None:
            self.apply(EdgeOffered(job, found, now))
        return found

    def would_take(self, job: EdgeJob, line: EdgeMenuLine, now: int) -> EdgeDecision | None:
        """Return what `take` would answer now; changes nothing.

        Raises:
            InputError: as `take`.
        """
        self._check(job, now)
        utility = job.value(line.finish)
        if utility < float(line.price):
            raise InputError("utility", f"{utility}", f"at least the line's price, {line.price}")
        begun = line.plan.slots[0].slot
        if begun < now or first_violation(job, line.plan, self.ledger, line.finish) is not None:
            return None
        prices = self.pricing(self.ledger, self.ledger.begin)
        # A step more is rounding.
        if cost_of(self.ledger, prices, job, line.plan) > float(line.price + STEP):
            return None
        surplus = utility - float(line.price)
        return EdgeDecision(
            job.id,
            admitted=True,
            payment=line.price,
            plan=line.plan,
            utility=utility,
            surplus=surplus,
        )

    def plan_rest(self, one: EdgeCommitment, now: int, last: int) -> EdgePlan | None:
        """Return a plan for what a job has left, from slot `now` on; changes nothing.

        Args:
            one: the job, and the plan of what it has trained: it holds nothing any more.
            now: the first slot that it may use.
            last: the last one.

        Returns:
            The plan that wants least of what others may want; None if there is none.
        """
        data = data_left(self.ledger, one.job, one.plan, now)
        return best_rest(self.ledger, self.pricing, one.job, data, now, last)

    def prices(self, now: int = 0) -> EdgePrices:
        """Prices from slot `now` on."""
        return self.pricing(self.ledger, now)

    def apply(self, event: EdgeEvent) -> None:
        match event:
            case EdgeOffered():
                if event.decision.plan is not None:
                    self.ledger.take(event.job, event.decision.plan)
                self._record_bid(event.job)
            case EdgeAdvanced():
                self.ledger.advance(event.now)
            case SiteLost():
                self.ledger.lose(event.site, event.now)
            case SiteReturned():
                self.ledger.restore(event.site, event.now)
            case EdgeReplanned():
                self.ledger.give_back(event.job, event.given_up)
                if event.found is not None:
                    self.ledger.take(event.job, event.found)

    def copy(self) -> "Eris":
        """Another one with the same content, to be asked on another thread."""
        other = Eris(self.market, self.params)
        other.load(self.save())
        return other

    def save(self) -> Saved:
        return {
            "mechanism": "eris",
            "params": self._price_settings(),
            "sites": list(self.market.site_ids),
            "num_seen": self._num_seen,
            "worth_seen": self._worth_seen,
            **self.ledger.save(),
        }

    def load(self, saved: Saved) -> None:
        """Take over what one over the same market saved.

        Raises:
            InputError: if it was built otherwise; nothing has changed then.
        """
        restore(saved, self._load, self.save)

    def _load(self, saved: Saved) -> None:
        if saved.get("mechanism") != "eris" or saved["params"] != self._price_settings():
            raise InputError("snapshot", "is of another mechanism", f"eris with {self.params}")
        if saved["sites"] != list(self.market.site_ids):
            raise InputError("snapshot.sites", "are others", ", ".join(self.market.site_ids))
        self.ledger.load(saved)
        self._num_seen, self._worth_seen = saved["num_seen"], saved["worth_seen"]

    def _price_settings(self) -> Saved:
        # How slots are filled is not part of the state.
        return {name: value for name, value in asdict(self.params).items() if name != "search"}

    def _record_bid(self, job: EdgeJob) -> None:
        self._num_seen += 1
        self._worth_seen += job.utility(0)

    def _lines(self, job: EdgeJob, now: int) -> Iterator[EdgeMenuLine]:
        """Plans that keep all constraints by rising finish, each cheaper by a step of money at
        least."""
        cheapest = LARGEST
        for found in self._offers(self.ledger, job, max(now, job.arrival)):
            if found.cost < float(LARGEST) and (price := round_money(found.cost)) < cheapest:
                plan = found.plan(self.ledger, job)
                if first_violation(job, plan, self.ledger, found.finish) is None:
                    cheapest = price
                    yield EdgeMenuLine(found.finish, price, plan)

    def _offers(self, ledger: EdgeLedger, job: EdgeJob, first: int) -> Iterator[Offer]:
        printed = self.params.search == "printed"
        return offers(ledger, self.pricing, job, first, printed=printed)

    def _rejection_reason(self, job: EdgeJob, reason: Reason) -> Reason:
        """Return whether a job without a line would have had one in an empty market."""
        if reason is Reason.NO_CAPACITY:
            nothing = EdgeLedger(self.market)
            nothing.advance(self.ledger.begin)
            if next(self._offers(nothing, job, job.arrival), None) is None:
                return Reason.NO_FEASIBLE_SCHEDULE
        return reason

    def _check(self, job: EdgeJob, now: int) -> None:
        begin, end = self.ledger.begin, self.ledger.end
        self.market.check(job, begin)
        if not begin <= now < end:
            raise InputError("now", f"{now}", f"a slot from {begin} to {end - 1}")


class EdgeEntry(Protocol):
    """A mechanism or a baseline, from an empty market to the end."""

    def play(self, market: EdgeMarket, jobs: Sequence[EdgeJob]) -> list[EdgeDecision]:
        """What becomes of the jobs, which come in their order of arrival; in the same order."""
        ...


@dataclass(frozen=True, slots=True)
class ErisEntry:
    """Eris: every bid is answered in its arrival slot.

    Attributes:
        params: the options.
    """

    params: ErisParams = field(default_factory=ErisParams)

    def play(self, market: EdgeMarket, jobs: Sequence[EdgeJob]) -> list[EdgeDecision]:
        eris = Eris(market, self.params)
        return [eris.offer(job, job.arrival) for job in jobs]
