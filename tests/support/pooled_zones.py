"""A timeshare zone with a pool that a test plays, its log in memory; made anew from it at will."""

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from auctune.domain import InputError, write_snapshot
from auctune.domain.data_size import DataSize
from auctune.engine.pool.clock import Clock
from auctune.engine.pool.events import ExitReason, JobLeft, JobNoted, PoolEvent
from auctune.engine.unix_time import SlotClock
from auctune.service.jobs.training import Training
from auctune.service.zones.core.job import Estimate, Phase
from auctune.service.zones.timeshare.state import (
    EstimateInputs,
    TimeshareBid,
    TimeshareModel,
    empty_model,
)
from auctune.service.zones.timeshare.worker import read_pool_state, record_event
from auctune.service.zones.timeshare.zone import TimeshareZone
from support.pool_events import fold, joined, quantum
from support.zones import EPOCH, MemoryLog, SetClock

PRICE = Decimal("0.5")
SECONDS = 10.0


def estimate() -> Estimate:
    """What nobody looks at."""
    return Estimate(Decimal(1), Decimal(2), EPOCH, EPOCH, 0.5, PRICE, 0.5)


class PooledZone:
    """The zone, and its pool's log."""

    def __init__(self) -> None:
        self.now = SetClock()
        self.clock = SlotClock(EPOCH, SECONDS, self.now)
        self.log = MemoryLog()
        self.pool_log: list[PoolEvent] = []
        self._open(empty_model({}))
        self.zone.record_created({"version": 1})
        self.keep()

    def _open(self, model: TimeshareModel) -> None:
        self.zone = TimeshareZone("pool", model, self.clock, self.log, PRICE)

    def keep(self) -> None:
        """Write what happened."""
        assert not self.zone.has_unrecorded_change
        self.log.record(self.zone.pop_events(), lambda error: None)

    def folded(self) -> TimeshareModel:
        """The model that the log alone gives."""
        memory = empty_model({})
        for event in self.log.read():
            memory.apply(event)
        return memory

    def restart(self) -> None:
        """Go on from the log."""
        self._open(self.folded())

    def pool_jobs(self) -> list[str]:
        """The jobs that are in the pool, as the zone has them."""
        jobs = self.zone.state.jobs.values()
        return [job.id for job in jobs if job.has_joined and job.departure is None]

    def asked(
        self,
        job: str,
        cap: str = "50",
        owner: str = "ann",
        left: Decimal | None = None,
        target_loss: float = 0.5,
    ) -> TimeshareBid:
        """A job that is due in 20 slots."""
        unit = self.clock.slot() + 20
        request = {"model": "tiny", "max_cost": cap, "deadline": self.clock.slot_start(unit)}
        return TimeshareBid(
            job=job,
            owner=owner,
            training=Training("file-a", schedule="constant"),
            size=DataSize(40, 30.0),
            target_loss=target_loss,
            cap=Decimal(cap),
            deadline_unit=unit,
            estimate=estimate(),
            estimate_inputs=EstimateInputs(self.zone.state.seq, self.clock.slot() + 1),
            request=request,
            remaining_budget=lambda: left,
        )

    def decide(
        self, job: str, cap: str = "50", owner: str = "ann", target_loss: float = 0.5
    ) -> None:
        """Have it decided."""
        self.zone.decide(self.asked(job, cap, owner, target_loss=target_loss))
        self.keep()

    def says(self, event: PoolEvent) -> None:
        """The pool records something."""
        self.pool_log.append(event)
        record_event(self.zone, event)
        self.keep()

    def joins(self, job: str) -> None:
        """It joins."""
        self.says(joined(job, self.clock.slot(), 0.5))

    def trains(self, jobs: dict[str, tuple[int, float, float]]) -> None:
        """A unit: batches, loss and seconds by job."""
        batches, losses, seconds = zip(*jobs.values(), strict=True)
        event = quantum(
            self.clock.slot(),
            {job: 1 / len(jobs) for job in jobs},
            batches=batches,
            losses=losses,
            seconds=seconds,
            read=[(40, 1200)] * len(jobs),
        )
        self.says(event)
        self.now.time += SECONDS

    def drops(self, members: Iterable[str]) -> None:
        """The pool drops the members that are not wanted, and says what it has followed.

        Args:
            members: of the pool.
        """
        seq = self.zone.state.seq
        for job in members:
            if job not in self.zone.state.jobs:
                self.leaves(job, ExitReason.CANCELLED, has_best=False)
        self.zone.settle_dropped(seq)
        self.keep()

    def leaves(self, job: str, reason: ExitReason, *, has_best: bool = True) -> None:
        """It leaves."""
        best = (3, 0.4) if has_best else None
        self.says(JobLeft(job, reason, "", best))

    def ends(self, job: str, files: list[str]) -> None:
        """Its adapter is packed."""
        self.zone.finish(job, files)
        self.keep()


class PoolPlayer:
    """Plays at random what can happen to such a zone, and checks that all is of one mind."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.made = PooledZone()
        self.rng = rng
        self.members: list[str] = []
        self.joined: set[str] = set()
        self.count = 0
        self.seen: set[str] = set()
        self.snapshots: list[tuple[int, bytes]] = []

    def step(self) -> None:
        """One command, drawn."""
        commands: tuple[Callable[[], None], ...] = (
            self.ask,
            self.ask,
            self.receive,
            self.decide_received,
            self.join,
            self.unit,
            self.unit,
            self.leave,
            self.follow,
            self.pack,
            self.pause,
            self.resume,
            self.cancel,
            self.fail,
            self.note,
            self.restart,
            self.snapshot,
        )
        command = commands[int(self.rng.integers(len(commands)))]
        try:
            command()
            self.seen.add(command.__name__)
        except InputError:
            self.seen.add("refused")
        self.made.keep()

    def check(self) -> None:
        """Live state, fold and snapshots agree; so do ledger, meters and rows."""
        made = self.made
        state = made.zone.state
        assert made.folded().state == state
        for seq, body in self.snapshots:
            memory = empty_model({})
            memory.restore(body)
            for event in made.log.read(seq):
                memory.apply(event)
            assert memory.state == state
        assert all(sum(entry.amount for entry in entries) == 0 for _, entries in made.log.entries)
        self._check_money()
        self._check_pool()

    def _check_pool(self) -> None:
        """The pool goes on from the log of the zone as from its own events."""
        jobs, expected = self.made.pool_jobs(), fold(self.made.pool_log)
        settings: dict[str, dict[str, Any]] = {name: {} for name in jobs}
        found = read_pool_state(self.made.log.read(), settings, -1, Clock(), self.made.clock)
        assert found.members.keys() == {*jobs}
        assert list(found.members) == [name for name in expected.members if name in jobs]
        for name, member in found.members.items():
            # As text, in which NaN equals itself.
            assert str(found.quanta_of(name)) == str(expected.quanta_of(name))
            assert (member.batches, member.best) == (
                expected.members[name].batches,
                expected.members[name].best,
            )

    def _check_money(self) -> None:
        made, sums, state = self.made, self.made.log.balances(), self.made.zone.state
        payers = [*state.jobs.values(), *(one.job for one in state.cancelled.values())]
        held = sum((job.meter.remaining for job in payers), Decimal(0))
        assert -sums.get("held", Decimal(0)) == held
        owed = sum(
            (
                Decimal(row.body["meter"]["charged"])
                for row in made.log.rows.values()
                if row.body["meter"] is not None and not row.body["refunded"]
            ),
            Decimal(0),
        )
        users = (amount for name, amount in sums.items() if name.startswith("user:"))
        assert sum(users, Decimal(0)) == owed == -sums.get("revenue", Decimal(0))
        for row in made.log.rows.values():
            meter = row.body["meter"]
            assert meter is None or Decimal(meter["charged"]) <= Decimal(meter["cap"])

    def _some(self, names: list[str]) -> str:
        if not names:
            raise InputError("", "there is none", "")
        return str(self.rng.choice(names))

    def _jobs(self, *phases: Phase) -> list[str]:
        jobs = self.made.zone.state.jobs.values()
        return [job.id for job in jobs if not phases or job.phase in phases]

    def ask(self) -> None:
        self.count += 1
        left = None if self.rng.random() < 0.8 else Decimal(str(round(self.rng.random() * 2, 4)))
        cap = str(round(float(self.rng.choice([0.01, 3.0, 60.0])), 4))
        owner = str(self.rng.choice(["ann", "bob"]))
        if self.rng.random() < 0.1:
            left = Decimal(0)
        self.made.zone.decide(self.made.asked(f"job{self.count}", cap, owner, left))

    def receive(self) -> None:
        self.count += 1
        asked = self.made.asked(f"job{self.count}")
        self.made.zone.receive(asked.job, asked.owner, asked.request, asked.training, None)

    def decide_received(self) -> None:
        job = self._some(list(self.made.zone.pending_jobs))
        if self.rng.random() < 0.2:
            self.made.zone.reject_pending(job, InputError("training_file", "is empty", "rows"))
        else:
            self.made.zone.decide_received(self.made.asked(job))

    def join(self) -> None:
        # The pool may be loading one that has just been cancelled.
        there = [*self._jobs(), *self.made.zone.state.cancelled]
        job = self._some([one for one in there if one not in self.joined])
        self.joined.add(job)
        self.members.append(job)
        self.made.joins(job)

    def unit(self) -> None:
        if not self.members:
            raise InputError("", "nobody is there", "")
        drawn = {
            job: (
                int(self.rng.integers(0, 4)),
                float(self.rng.choice([3.0, 1.0, 0.7, np.nan])),
                float(self.rng.random() * 5),
            )
            for job in self.members
        }
        self.made.trains(drawn)

    def leave(self) -> None:
        job = self._some(self.members)
        self.members.remove(job)
        reasons = [one for one in ExitReason if one is not ExitReason.CANCELLED]
        reason = reasons[int(self.rng.integers(len(reasons)))]
        self.made.leaves(job, reason, has_best=self.rng.random() < 0.8)

    def follow(self) -> None:
        self.made.drops(self.members)
        self.members = [job for job in self.members if job in self.made.zone.state.jobs]

    def pack(self) -> None:
        job = self._some(self._jobs(Phase.TRAINED))
        left = self.made.zone.state.jobs[job].departure
        assert left is not None
        self.made.ends(job, [] if left.best is None else [f"file-{job}"])

    def pause(self) -> None:
        self.made.zone.pause(self._some(self._jobs()))

    def resume(self) -> None:
        self.made.zone.resume(self._some(self._jobs()))

    def cancel(self) -> None:
        zone = self.made.zone
        assert zone.cancel(self._some([*zone.pending_jobs, *self._jobs()]))

    def fail(self) -> None:
        if self.rng.random() < 0.5:
            self.made.zone.fail(self._some(self._jobs()), "service_failed", "no disk", None)

    def note(self) -> None:
        job = self._some(self.members)
        self.made.says(JobNoted(job, "slow"))

    def restart(self) -> None:
        self.made.restart()

    def snapshot(self) -> None:
        zone = self.made.zone
        self.snapshots.append((zone.state.seq, write_snapshot(zone.model.save())))
