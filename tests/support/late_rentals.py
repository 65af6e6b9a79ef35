"""Plays rented jobs whose processes start late and train at a speed of their own.

Each job runs alone: it is estimated and admitted, then its policy is asked slot by slot, as its
process would, and the zone hears what came of it.
"""

from dataclasses import asdict, dataclass, replace
from decimal import Decimal

import numpy as np

from auctune.domain.data_size import DataSize
from auctune.engine.spot.job_config import SpotStrategy
from auctune.engine.spot.traces import LoopedTrace
from auctune.service.jobs.terms import JobValue
from auctune.service.jobs.training import Training
from auctune.service.storage.event_log import EventType
from auctune.service.zones.spot.state import (
    ESTIMATOR,
    EstimateInputs,
    Pace,
    SpotBid,
    SpotJobState,
    empty_model,
)
from auctune.service.zones.spot.worker import on_message, on_ready
from auctune.service.zones.spot.zone import SpotZone
from auctune.sim.spot.files import SpotRecord
from auctune.spot import IDLE, SpotAllocation, SpotJob, SpotObservation
from auctune.spot.market import SpotMarket
from support import run_events
from support.spot_player import made_up_rental
from support.zones import SLOT_SECONDS, MemoryLog, SetClock

CAP = Decimal("1000.0000")
# Of a slot that has passed by half a process makes nothing any more.
_LATE = 0.5


@dataclass(frozen=True)
class Paid:
    """What was said of a job, and what came.

    Attributes:
        expected, p90: costs that were estimated.
        cost: that was paid.
        is_late: whether it missed its deadline.
        num_missed: slots that passed before its process could train.
    """

    expected: float
    p90: float
    cost: float
    is_late: bool
    num_missed: int


class LateRentals:
    """A zone, and what its machine is like.

    Args:
        seed: of the market and all that is drawn.
        learns: whether estimates know of past jobs; otherwise they begin at once, at the
            profile's speed.
    """

    def __init__(self, seed: int, *, learns: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self.clock, self.log, self.learns = SetClock(), MemoryLog(), learns
        rental = replace(
            made_up_rental(self.clock),
            market=_random_market(self.rng),
            renting=SpotStrategy("up", "seasonal"),
            num_slots=40,
        )
        self.zone = SpotZone("rented", rental, empty_model({}), self.log)

    def pace(self) -> Pace:
        """By which the next job is estimated."""
        return self.zone.pace if self.learns else Pace(0.0, (1.0,))

    def estimated(self) -> SpotBid:
        """A job of a size and a deadline that are drawn, with its estimate."""
        self.zone.begin_slots()
        rental, pace, now = self.zone.rental, self.pace(), self.clock()
        rows = int(self.rng.integers(300, 1500))
        training, size = Training("file-a"), DataSize(rows, 20.0)
        deadline = now + SLOT_SECONDS * int(self.rng.integers(14, 24))
        worth = JobValue(None, deadline, deadline)
        slot = self.zone.state.slot
        slots = rental.slot_range(deadline, slot, now + pace.start_seconds)
        terms = rental.terms(training, size, worth, slots, pace.speed)
        return SpotBid(
            job=f"ftjob-{slot}",
            owner="ann",
            training=training,
            size=size,
            worth=worth,
            cap=CAP,
            estimate=rental.estimate(terms, slots.start, slot, pace, CAP),
            estimate_inputs=EstimateInputs(
                slot=slot,
                first=slots.start,
                deadline=terms.deadline,
                hard_factor=terms.hard_factor,
                max_cost=CAP,
                estimator=ESTIMATOR,
                **asdict(pace),
            ),
            request={"bid": None, "deadline": deadline, "max_cost": str(CAP)},
        )

    def run(self) -> Paid:
        bid = self.estimated()
        self.zone.decide(bid)
        job = self.zone.state.jobs[bid.job]
        start = float(self.rng.lognormal(np.log(22.0), 0.25))
        speed = float(self.rng.lognormal(np.log(0.6), 0.15))
        ready_at = self.clock() + start
        num_missed = self._train(job, ready_at, start, speed)
        self.zone.finish(job.id, ["file-a"])
        self.clock.time += SLOT_SECONDS * float(self.rng.uniform(0.2, 4.0))
        self.log.record(self.zone.pop_events(), lambda _: None)
        cost = sum(
            float(event.body["amount"])
            for event, _ in self.log.events
            if event.type == EventType.METERED and event.job == job.id
        )
        found = bid.estimate
        assert job.finish is not None
        is_late = job.finish > job.terms.deadline
        expected, p90 = float(found.expected_cost), float(found.p90_cost)
        return Paid(expected, p90, cost, is_late, num_missed)

    def restart(self) -> None:
        """The zone goes on with what its log says."""
        memory = empty_model({})
        for event in self.log.read():
            memory.apply(event)
        self.zone = SpotZone("rented", self.zone.rental, memory, self.log)

    def _train(self, job: SpotJobState, ready_at: float, start: float, speed: float) -> int:
        """Ask its policy until all is trained; how many slots it missed."""
        rental, terms = self.zone.rental, job.terms
        policy = rental.renting.read_policy().start(terms.job())
        pace = speed / job.speed
        done, cost, last, num_missed = 0.0, 0.0, IDLE, 0
        before = rental.market.quote(job.first)[1]
        on_ready(self.zone, job.id, start)
        for slot in range(terms.deadline):
            begins = rental.clock.slot_start(job.first + slot)
            self.clock.time = max(self.clock.time, begins)
            price, available = rental.market.quote(job.first + slot)
            held = policy.allocate(
                SpotObservation(slot, price, available, before, 1.0, done, cost, last, None)
            )
            is_missed = ready_at > begins + _LATE * SLOT_SECONDS
            held = IDLE if is_missed else held
            paid = held.on_demand * 1.0 + held.spot * price
            begun = run_events.slot(
                slot,
                price=price,
                on_demand=held.on_demand,
                spot=held.spot,
                spot_before=last.spot,
                skipped=is_missed,
            )
            on_message(self.zone, job.id, begun)
            num_missed += is_missed
            work = pace * _work(terms.job(), held, last)
            if work and done + work >= terms.workload:
                self._end(job, slot + (terms.workload - done) / work)
                return num_missed
            done, cost, last, before = done + work, cost + paid, held, available
        most = float(terms.job().scaling.throughput(terms.n_max))
        span = (terms.workload - done) / (pace * terms.mu1 * most)
        finish = terms.deadline + span
        self.clock.time = rental.clock.slot_start(job.first) + finish * SLOT_SECONDS
        late = run_events.overtime(float(terms.deadline), finish, job.total_rows)
        on_message(self.zone, job.id, late)
        self._end(job, finish)
        return num_missed

    def _end(self, job: SpotJobState, finish: float) -> None:
        on_message(self.zone, job.id, run_events.ended(finish))


def _work(job: SpotJob, held: SpotAllocation, last: SpotAllocation) -> float:
    """Work of a slot, by the model of the market."""
    if held.total == 0:
        return 0.0
    effective = job.effective_share((held.on_demand, held.spot), (last.on_demand, last.spot))
    return effective * float(job.scaling.throughput(held.total))


def _random_market(rng: np.random.Generator) -> LoopedTrace:
    """Prices and counts that wander."""
    num_slots = 2400
    steps = rng.normal(0.0, 0.05, num_slots)
    price = np.clip(0.35 + np.convolve(steps, 0.9 ** np.arange(40))[:num_slots], 0.1, 0.9)
    there = np.convolve(rng.normal(0.0, 0.8, num_slots), 0.9 ** np.arange(40))[:num_slots]
    available = np.clip(np.rint(2.0 + there), 0, 6).astype(np.int64)
    market = SpotMarket(price, available, slot_seconds=SLOT_SECONDS)
    times = np.asarray(np.arange(num_slots) * SLOT_SECONDS, dtype=np.float64)
    return LoopedTrace(market, SpotRecord(times, market.price, market.available), 1500)
