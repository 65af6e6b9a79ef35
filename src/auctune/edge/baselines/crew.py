"""A fixed number of workers for one job in one slot, as the baselines place them.

Sites are taken by the unit price of a worker, sum_k w^k beta_r^k, the cheaper first; of equals the
one that holds more. The server stands at the first of them where it fits beside a worker, and the
chunks go to the workers: those that lie there first, then others, evenly as far as they reach.
"""

from bisect import bisect_right
from dataclasses import dataclass, field, replace

import numpy as np

from auctune.edge.arrays import Floats, Ints
from auctune.edge.job import EdgeJob
from auctune.edge.ledger import EdgeLedger
from auctune.edge.market import EdgeMarket
from auctune.edge.plan import EdgePlan, SlotPlan
from auctune.edge.prices import EdgePrices, PaperPrices, cost_of
from auctune.edge.search.problem import Question, ask
from auctune.edge.search.search import chunks_of, write_plan


@dataclass(slots=True, eq=False)
class Underway:
    """A job that a baseline has taken up.

    Attributes:
        job: which.
        left: [R] chunks not yet trained.
        num_workers: that it is to have.
        parts: what ran so far.
        cost: of that, at the prices of each slot before it was booked, money.
        served: worker-slots so far.
    """

    job: EdgeJob
    left: Ints
    num_workers: int
    parts: list[SlotPlan] = field(default_factory=list)
    cost: float = 0.0
    served: int = 0

    @property
    def is_done(self) -> bool:
        """Whether all its chunks are trained."""
        return not self.left.any()

    @property
    def plan(self) -> EdgePlan:
        """All that ran."""
        return EdgePlan(tuple(self.parts))


class Floor:
    """The market as a baseline fills it, slot by slot.

    Args:
        market: the supply, empty.

    Attributes:
        ledger: what is sold.
    """

    def __init__(self, market: EdgeMarket) -> None:
        self.ledger = EdgeLedger(market)
        # One slot of it, so that nothing is computed of the others.
        self._slot = EdgeLedger(replace(market, slots=1))
        self._pricing = PaperPrices()

    def take_up(self, job: EdgeJob, num_workers: int) -> Underway:
        """A job that has not begun."""
        return Underway(job, chunks_of(self.ledger, job), num_workers)

    def run(self, one: Underway, slot: int, *, fewer: bool = False) -> bool:
        """Run a job in a slot with its workers, if they fit; or with fewer, where that will do.

        Returns:
            Whether it ran.
        """
        part = self.place(one, slot, fewer=fewer)
        if part is None:
            return False
        plan, prices = EdgePlan((part,)), self._pricing(self._slot)
        at_slot = EdgePrices(slot, prices.alpha, prices.beta)
        one.cost += cost_of(self.ledger, at_slot, one.job, plan)
        self.ledger.take(one.job, plan)
        for move in part.moves:
            one.left[self.ledger.index_of(move.origin)] -= move.chunks
        one.parts.append(part)
        one.served += sum(part.workers.values())
        return True

    def place(self, one: Underway, slot: int, *, fewer: bool = False) -> SlotPlan | None:
        """One slot of a job with its workers; none where they do not fit."""
        self._slot.used[0] = self.ledger.used[slot]
        self._slot.traffic[0] = self.ledger.traffic[slot]
        question = ask(self._slot, self._pricing(self._slot), one.job, one.left)
        crew = _crew(question, one.num_workers, fewer=fewer)
        if crew is None:
            return None
        server, able, room = crew
        trained = _fill(able, one.left, server, room, question.chunk_mb)
        if not trained.any():
            return None
        taken = _from(trained, one.left)
        plan = write_plan(
            self.ledger, one.job, slot, np.array([server]), trained[None], taken[None]
        )
        return plan.slots[0]


def _crew(question: Question, num_workers: int, *, fewer: bool) -> tuple[int, Ints, float] | None:
    """Site of the server, chunks [R] that the workers can train, MB of traffic left."""
    workers, chunks = question.level_workers, question.level_chunks
    price, levels = question.worker_price[0], question.levels[0]
    order = np.lexsort((-levels, price))
    beside = question.levels_beside[0]
    standing = [site for site in order if beside[site] > 0] or [
        site for site in order if beside[site] == 0
    ]
    if not standing:
        return None
    server, wanted, room = int(standing[0]), num_workers, float(question.room[0])
    steps = workers.tolist()
    able = np.zeros(len(price), dtype=np.int64)
    for site in (server, *(site for site in order if site != server)):
        if wanted < steps[1]:
            break
        most = int(beside[site] if site == server else levels[site])
        if site != server and question.parameter_mb > 0:
            fits = int(room / question.parameter_mb * (1 + 1e-9))
            most = min(most, bisect_right(steps, fits) - 1)
        level = min(most, bisect_right(steps, wanted) - 1)
        able[site] = chunks[level]
        wanted -= steps[level]
        if site != server:
            room -= question.parameter_mb * steps[level]
    # Fewer than the next chunk needs are no workers short.
    short = wanted >= steps[1] and able.sum() < question.data.sum()
    if not able.any() or (short and not fewer):
        return None
    return server, able, room


def _fill(able: Ints, left: Ints, server: int, room: float, chunk_mb: float) -> Ints:
    """[R] chunks that are trained: those at the workers' sites, then others as traffic allows."""
    trained = np.minimum(able, left)
    missing = int(min(able.sum(), left.sum()) - trained.sum())
    if chunk_mb > 0:
        missing = min(missing, int(room / chunk_mb * (1 + 1e-9)))
    for site in (server, *(site for site in range(len(able)) if site != server)):
        more = min(missing, int(able[site] - trained[site]))
        trained[site] += more
        missing -= more
    return trained


def _from(trained: Ints, left: Ints) -> Ints:
    """[R] where these chunks come from: most from where most is left."""
    taken: Ints = np.minimum(trained, left)
    missing = int(trained.sum() - taken.sum())
    rest: Floats = (left - taken).astype(np.float64)
    for site in np.argsort(-rest, kind="stable"):
        more = min(missing, int(left[site] - taken[site]))
        taken[site] += more
        missing -= more
    return taken
