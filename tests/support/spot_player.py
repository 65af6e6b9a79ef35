"""Plays at random what can happen to a rented zone, and checks that all is of one mind.

Its jobs' processes are made up.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import orjson

from auctune.domain import InputError, Money, round_money, write_snapshot
from auctune.domain.data_size import DataSize
from auctune.engine.messages.base import ErrorRecord, Failed
from auctune.engine.messages.spot import CapReached, JobWarning, RunEvent
from auctune.engine.spot.job_config import SpotStrategy
from auctune.engine.spot.traces import LoopedTrace
from auctune.engine.unix_time import SlotClock
from auctune.service.jobs.terms import JobValue
from auctune.service.jobs.training import Training
from auctune.service.ledger import HELD, hold_account, user_account
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.core.job import Estimate, Phase
from auctune.service.zones.spot.state import EstimateInputs, SpotBid, SpotJobState, empty_model
from auctune.service.zones.spot.worker import on_message, on_ready
from auctune.service.zones.spot.zone import SpotSupply, SpotZone
from auctune.sim.spot.files import SpotRecord
from auctune.spot.job import Overhead
from auctune.spot.market import SpotMarket
from support import run_events
from support.zones import EPOCH, SLOT_SECONDS, MemoryLog, SetClock, made_up_profile

OWNERS = ("ann", "bob")


def made_up_rental(now: Callable[[], float], jobs: int = 4) -> SpotSupply:
    slots = np.arange(60)
    price = np.asarray(0.2 + 0.1 * (slots % 3), dtype=np.float64)
    market = SpotMarket(price, slots % 5, slot_seconds=SLOT_SECONDS)
    record = SpotRecord(
        np.asarray(slots * SLOT_SECONDS, dtype=np.float64), market.price, market.available
    )
    return SpotSupply(
        base="tiny",
        profile=made_up_profile(),
        spare=0.0,
        start_seconds=1.0,
        market=LoopedTrace(market, record, 20),
        renting=SpotStrategy("msu", "seasonal"),
        clock=SlotClock(EPOCH, SLOT_SECONDS, now),
        num_slots=10,
        max_jobs=jobs,
        n_max=4,
        overhead=Overhead(),
        table=None,
        micro_batch=4,
        unit_cost=0.7,
        unit_price=0.9,
    )


@dataclass
class MadeUpProcess:
    """What a job's process has done: payments by slot, and whether it is in one."""

    paid: list[float] = field(default_factory=list)
    rows: int = 0
    is_in_slot: bool = False


class SpotPlayer:
    """Draws commands."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.clock = SetClock()
        self.log = MemoryLog()
        self.zone = SpotZone("rented", made_up_rental(self.clock), empty_model({}), self.log)
        self.processes: dict[str, MadeUpProcess] = {}
        self.snapshots: list[tuple[int, bytes]] = []
        self.seen: Counter[str] = Counter()
        self._count = 0

    def step(self) -> None:
        """One command, drawn; what it did is on record then."""
        commands: dict[Callable[[], object], int] = {
            self.bid: 6,
            self.preview: 1,
            self.receive: 2,
            self.decide_received: 3,
            self.refuse: 1,
            self.cancel: 1,
            self.pause: 2,
            self.resume: 3,
            self.pass_slots: 6,
            self.start_process: 2,
            self.rent: 14,
            self.late: 3,
            self.end: 2,
            self.fail: 1,
            self.note: 1,
            self.finish: 3,
            self.snapshot: 1,
            self.restart: 1,
        }
        weights = np.array(list(commands.values()), dtype=float)
        command = list(commands)[self.rng.choice(len(weights), p=weights / weights.sum())]
        try:
            done = command()
            self.seen[command.__name__] += done is not False
        except InputError:
            self.seen["refused"] += 1
        self.log.record(self.zone.pop_events(), lambda _: None)

    def bid(self) -> None:
        self.zone.decide(self._new_bid())

    def preview(self) -> None:
        self.zone.preview(self._new_bid())
        assert all(event.type == EventType.SLOT_STARTED for event, _ in self.zone._events)

    def receive(self) -> None:
        bid = self._new_bid()
        self.zone.receive(bid.job, bid.owner, bid.request, bid.training, None)

    def decide_received(self) -> bool:
        name = self._one_of(self.zone.pending_jobs)
        return bool(name) and self.zone.decide_received(self._new_bid(name)) is not None

    def refuse(self) -> bool:
        name = self._one_of(self.zone.pending_jobs)
        self.zone.reject_pending(name, InputError("training_file", "is wrong", "rows"))
        return bool(name)

    def cancel(self) -> bool:
        return self.zone.cancel(self._one_of([*self.zone.pending_jobs, *self.zone.admitted_jobs]))

    def pause(self) -> None:
        self.zone.pause(self._one_of(self.zone.admitted_jobs))

    def resume(self) -> None:
        paused = [
            name for name, job in self.zone.admitted_jobs.items() if job.phase is Phase.PAUSED
        ]
        self.zone.resume(self._one_of(paused or self.zone.admitted_jobs))

    def pass_slots(self) -> None:
        self.clock.time += SLOT_SECONDS * float(self.rng.choice([0.4, 1.0, 3.0]))
        self.zone.begin_slots()

    def start_process(self) -> bool:
        """A process has loaded all; a restart of it says so again."""
        name = self._one_of(self.zone.admitted_jobs)
        seconds = float(self.rng.exponential(2.0))
        on_ready(self.zone, name, seconds)
        return bool(name)

    def rent(self) -> bool:
        """A process begins a slot, or ends the one that it is in."""
        name = self._one_of(self.zone.admitted_jobs)
        if not name:
            return False
        process = self.processes.setdefault(name, MadeUpProcess())
        if process.is_in_slot:
            process.rows += int(self.rng.integers(0, 9))
            process.is_in_slot = False
            steps, rows = process.rows // 4, process.rows
            losses = [[steps, rows, rows * 7, 1.0 / (1 + steps), 0.5]]
            paid = process.paid[-1]
            self._send(name, run_events.slot_done(rows, steps=steps, losses=losses, paid=paid))
            return True
        missed = self.rng.random() < 0.1
        slot = len(process.paid)
        at = self.zone.state.jobs[name].first + slot
        seen = self.zone.rental.market.slot_starts(at, 1)
        price, available = float(seen.price[0]), int(seen.available[0])
        on_demand = 0 if missed else int(self.rng.integers(0, 3))
        spot = 0 if missed else int(self.rng.integers(0, available + 1))
        process.paid.append(on_demand * 1.0 + spot * price)
        process.is_in_slot = not missed
        held = {"on_demand": on_demand, "spot": spot}
        self._send(name, run_events.slot(slot, price=price, skipped=missed, **held))
        return True

    def late(self) -> bool:
        """A process holds on-demand instances after the deadline."""
        name = self._one_of(self.zone.admitted_jobs)
        if not name:
            return False
        process = self.processes.setdefault(name, MadeUpProcess())
        if process.is_in_slot:
            return False
        process.rows += 2
        process.paid.append(2.0)
        self._send(name, run_events.overtime(10.0, 10.5, process.rows, steps=process.rows // 4))
        return True

    def end(self) -> bool:
        name = self._one_of(self.zone.admitted_jobs)
        state = "done" if self.rng.random() < 0.8 else "failed"
        on_message(self.zone, name, run_events.ended(2.5, state))
        return bool(name)

    def fail(self) -> bool:
        name = self._one_of(self.zone.admitted_jobs)
        if self.rng.random() < 0.5:
            on_message(self.zone, name, CapReached(rate=1.0))
        else:
            on_message(self.zone, name, Failed(error=ErrorRecord("data", "x", "")))
        return bool(name)

    def note(self) -> bool:
        name = self._one_of(self.zone.admitted_jobs)
        on_message(self.zone, name, JobWarning(text="it is late"))
        return bool(name)

    def finish(self) -> bool:
        trained = [n for n, job in self.zone.admitted_jobs.items() if job.phase is Phase.TRAINED]
        if trained:
            self.zone.finish(self._one_of(trained), ["file-a"])
        return bool(trained)

    def snapshot(self) -> None:
        self.snapshots.append((self.zone.state.seq, write_snapshot(self.zone.model.save())))

    def restart(self) -> None:
        """The zone goes on with what the log says."""
        memory = empty_model({})
        for event in self.log.read():
            memory.apply(event)
        self.zone = SpotZone("rented", self.zone.rental, memory, self.log)

    def check(self) -> None:
        """All that holds at any time."""
        sums, jobs = self.log.balances(), self.zone.admitted_jobs.values()
        assert all(sum(entry.amount for entry in entries) == 0 for _, entries in self.log.entries)
        assert sums.get(HELD, 0) == -sum(job.meter.remaining for job in jobs)
        for owner in OWNERS:
            own = [job for job in jobs if job.owner == owner]
            assert sums.get(hold_account(owner), 0) == sum(job.meter.remaining for job in own)
            assert sums.get(user_account(owner), 0) == self._owed(owner)
        assert all(Decimal(0) <= job.meter.charged <= job.meter.cap for job in jobs)
        for job in jobs:
            self._check_charges(job)
        for kind, key in ((EventType.METERED, "slot"), (EventType.TRAINED, "number")):
            events = [event for event, _ in self.log.events if event.type == kind]
            numbers = [(event.job, event.body[key]) for event in events]
            assert len(numbers) == len(set(numbers)), f"{kind} twice"

    def check_fold(self) -> None:
        """The log alone gives state, rows and entries; so do snapshots and the rest."""
        memory, rows, entries = empty_model({}), {}, []
        for event in self.log.read():
            change = memory.apply(event)
            rows.update({row.id: row for row in change.rows})
            entries.append(change.entries)
        assert memory.state == self.zone.state
        assert _stored(rows) == _stored(self.log.rows)
        assert entries == [made for _, made in self.log.entries]
        for seq, body in self.snapshots[-2:]:
            later = empty_model({})
            later.restore(body)
            for event in self.log.read(after=seq):
                later.apply(event)
            assert later.state == self.zone.state

    def _check_charges(self, job: SpotJobState) -> None:
        """All that a process held is charged, up to the cap."""
        process = self.processes.get(job.id)
        if process is None:
            return
        paid = [round_money(one * 0.9) for one in process.paid]
        assert job.meter.next_slot == len(paid)
        assert job.meter.charged <= min(job.meter.cap, sum(paid, Decimal(0)))
        assert job.meter.charged == self._net_charges(lambda event: event.job == job.id)
        assert process.is_in_slot or job.progress.rows == process.rows

    def _owed(self, owner: str) -> Money:
        refunded = {name for name, row in self.log.rows.items() if row.body["refunded"]}
        return self._net_charges(
            lambda event: (
                event.job not in refunded and self.log.rows[event.job or ""].owner == owner
            )
        )

    def _net_charges(self, is_counted: Callable[[ZoneEvent], bool]) -> Money:
        """Charges less refunds of slots."""
        amounts = {EventType.METERED: ("amount", 1), EventType.TRAINED: ("refund", -1)}
        return sum(
            (
                sign * Decimal(event.body.get(key, "0"))
                for event, _ in self.log.events
                if event.type in amounts and is_counted(event)
                for key, sign in (amounts[EventType(event.type)],)
            ),
            Decimal(0),
        )

    def _send(self, name: str, event: RunEvent) -> None:
        assert on_message(self.zone, name, event)

    def _new_bid(self, job: str = "") -> SpotBid:
        self._count += 1
        cost = Decimal(int(self.rng.integers(1, 200_000))).scaleb(-4)
        cap = Decimal(int(self.rng.integers(1, 400_000))).scaleb(-4)
        left = None if self.rng.random() < 0.7 else Decimal(int(self.rng.integers(0, 30)))
        deadline = self.clock() + SLOT_SECONDS * float(self.rng.uniform(1, 12))
        amount = None if self.rng.random() < 0.5 else cap
        return SpotBid(
            job=job or f"ftjob-{self._count}",
            owner=str(self.rng.choice(OWNERS)),
            training=Training("file-a", epochs=2),
            size=DataSize(int(self.rng.integers(5, 500)), 20.0),
            worth=JobValue(amount, deadline, deadline + SLOT_SECONDS),
            cap=cap,
            estimate=Estimate(cost / 2, cost, deadline - 1, deadline, 0.25),
            estimate_inputs=EstimateInputs(
                slot=max(0, self.zone.state.slot),
                first=max(0, self.zone.state.slot) + 1,
                deadline=4,
                hard_factor=1.5,
                **asdict(self.zone.pace),
            ),
            request={"bid": None, "deadline": deadline, "max_cost": str(cap)},
            remaining_budget=lambda: left,
        )

    def _one_of(self, names: Any) -> str:
        found = list(names)
        return str(found[self.rng.integers(len(found))]) if found else ""


def _stored(rows: dict[str, Any]) -> dict[str, bytes]:
    return {name: orjson.dumps([row.seq, row.status, row.body]) for name, row in rows.items()}
