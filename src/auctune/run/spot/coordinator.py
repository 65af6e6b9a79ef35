"""The coordinator: slot by slot it looks at the market, asks the policy, rents, trains and saves.

Each decision is in the journal before anything is rented by it, so a slot is paid once, whoever is
killed when. A run that goes on does so at the last moment on record, in the slot that it was in,
with the instances that were left of it; training goes on from the newest checkpoint. Where time
goes on meanwhile, slots that passed are missed: nothing was held in them, and nothing is paid.
"""

import time
from collections.abc import Sequence
from math import inf

from auctune.domain import InputError
from auctune.run.spot.ending import hold_piece
from auctune.run.spot.errors import CapReachedError, SpotRunError, StoppedError
from auctune.run.spot.kind import Kind
from auctune.run.spot.measured import ReadyTimes
from auctune.run.spot.observing import observe
from auctune.run.spot.parts import Parts
from auctune.run.spot.provider import Instance
from auctune.run.spot.records import allocation_record, observation_record
from auctune.run.spot.state import SpotRunState
from auctune.spot.policy import IDLE, SpotAllocation, SpotObservation, check

# The provider is asked so often at least whether it has taken anything away.
_LOOK_SECONDS = 0.1
# A model's clock adds up fractions of slots.
_SLACK = 1e-9
# Where time goes on, a slot of which more has passed is not worth its price.
_LATE = 0.5
# A worker that dies so many times without bringing anything in will not do better.
_DEATHS = 3


class Coordinator:
    """One run, new or resumed.

    Attributes:
        state: what it has come to.

    Raises:
        InputError: if the policy does not answer as the journal says that it did.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._job, self._trainer, self._crew = parts.job, parts.trainer, parts.crew
        self._clock, self._provider = parts.clock, parts.provider
        self.state = SpotRunState.fold(parts.journal.events)
        self._policy = parts.policy.start(parts.job)
        self._ask_again()
        self._deaths: dict[str, int] = {}
        self._begin_at = self.state.time_at(self._trainer.rows)
        self._finish = self._finish_on_record() if self._trainer.is_done else None
        self._ready = ReadyTimes(0.0, ())
        self._losses: list[tuple[int, int, float]] = []
        self._saved_rows = self._trainer.rows
        self._saved_at = time.monotonic()

    def run(self) -> None:
        """Run what is left of the job.

        Raises:
            InfeasibleAllocationError: if the policy wants what may not be held.
            SpotRunError: if a worker dies again and again.
            InputError: if workers cannot use the job.
            CapReachedError: if what comes next would cost more than may be paid.
            StoppedError: if it is to stop; a checkpoint is written.
        """
        self._clock.start(self._begin_at)
        if self.state.slots:
            self._tell_resumed()
        while not self._trainer.is_done and self._slot < self._job.deadline:
            self._run_slot()
        if self.state.current is not None:
            self._close_slot()
        if not self._trainer.is_done:
            self._run_ending()

    def end(self) -> None:
        """Put on record that all is done, the adapter handed out."""
        assert self._finish is not None
        progress = self._trainer.progress()
        self._note("ended", finish=self._finish, state=progress.state, note=progress.note)

    def _finish_on_record(self) -> float:
        """When the last row was trained; a run that was killed since took no time since."""
        if self.state.ending is not None:
            return self._begin_at
        # A slot's end is on record once its checkpoint is written, a little after the end.
        return min(self._begin_at, float(len(self.state.slots)))

    @property
    def _slot(self) -> int:
        """The slot that goes on, or that comes next."""
        return len(self.state.slots) - (self.state.current is not None)

    def _ask_again(self) -> None:
        """Bring the policy to where it was: what it answered stands."""
        for record in self.state.slots:
            answer = self._policy.allocate(record.observation)
            if not record.is_missed and answer != record.allocation:
                raise InputError(
                    f"slot {record.observation.slot}",
                    f"{answer} is the policy's answer, {record.allocation} is on record",
                    "the policy with which the run began, in the same release",
                )

    def _run_slot(self) -> None:
        slot, resumed = self._slot, self.state.current is not None
        if not resumed:
            if self._clock.goes_on and self._clock.now() > slot + _LATE:
                self._miss(slot)
                return
            # Within the slack it may be a little early.
            self._idle(float(slot))
            self._take_back()
            self._decide(slot)
        elif self._clock.goes_on and self._clock.now() >= slot + 1.0:
            self._close_slot()
            return
        record = self.state.slots[-1]
        if resumed:
            self._parts.listener.slot_begun(record)
        self._hold(record.left)
        # A slot's overhead is known only if it was seen from its beginning.
        held = [instance.id for instance in self._crew.instances]
        self._ready = ReadyTimes(float(slot), [] if resumed else held)
        for instance in self._crew.ready:
            self._ready.ready(instance.id, self._clock.now())
        self._work(until=slot + 1.0)
        self._close_slot()

    def _miss(self, slot: int) -> None:
        """Let a slot pass in which no process of the job ran; the policy sees it all the same."""
        observation = self._observe(slot, float(slot))
        self._policy.allocate(observation)
        self._hold(IDLE)
        self._note("missed", observation=observation_record(observation))
        self._parts.listener.slot_begun(self.state.slots[-1])
        self._parts.listener.slot_done(self.state.slots[-1])

    def _decide(self, slot: int) -> None:
        """Ask the policy what to hold, and pay it."""
        observation = self._observe(slot, self._clock.now())
        allocation = self._policy.allocate(observation)
        check(allocation, self._job, observation.available, slot)
        spot_cost = allocation.spot * observation.price
        paid = allocation.on_demand * observation.on_demand_price + spot_cost
        if self.state.slot_cost + paid > self._parts.cap:
            raise CapReachedError(paid)
        self._clock.hold(allocation.total, observation.last.total)
        self._note(
            "slot",
            observation=observation_record(observation),
            allocation=allocation_record(allocation),
            paid=paid,
        )
        self._parts.listener.slot_begun(self.state.slots[-1])

    def _observe(self, slot: int, now: float) -> SpotObservation:
        # Z, in the job's units: all rows are its whole workload.
        done = float(self._job.workload) * self._trainer.rows / self._trainer.total_rows
        return observe(self._parts, self.state, slot, now, done)

    def _close_slot(self) -> None:
        """Write a checkpoint, and end the slot."""
        self._save()
        lost = None
        if self._clock.is_real:
            end = self._slot + 1.0
            seen = min(self._clock.now(), end) if self._trainer.is_done else end
            lost = self._ready.lost(end, seen)
        progress = self._trainer.progress()
        losses, self._losses = [*self._losses, *progress.losses], []
        trained = {"steps": progress.steps, "tokens": progress.tokens, "losses": losses}
        self._note("slot_done", rows=self._trainer.rows, lost=lost, trained=trained)
        self._parts.listener.slot_done(self.state.slots[-1])

    def _run_ending(self) -> None:
        """All that the job can use, on demand, until it is done."""
        if self.state.ending is None:
            self._idle(float(self._job.deadline))
            self._note("ending")
        self._ready = ReadyTimes(0.0, ())
        self._hold(SpotAllocation(self._job.n_max, 0))
        self._parts.listener.ending_begun(self._clock.now(), self._job.n_max)
        if self._clock.goes_on:
            since = self._clock.now()
            while not self._trainer.is_done:
                since = hold_piece(self._parts, self.state, since, self._work, self._save)
        else:
            self._work(until=inf)
        self._save()

    def _hold(self, wanted: SpotAllocation) -> None:
        """Give back what is too much, the newest first, and rent what is missing."""
        for kind, count in ((Kind.ON_DEMAND, wanted.on_demand), (Kind.SPOT, wanted.spot)):
            held = [instance for instance in self._crew.instances if instance.kind is kind]
            for instance in held[count:]:
                self._crew.leave(instance)
                self._provider.release(instance)
            if count > len(held):
                for instance in self._provider.acquire(kind, count - len(held), self._clock.now()):
                    self._crew.join(instance)

    def _work(self, until: float) -> None:
        """Train until a moment, or to the end of the job."""
        while not self._trainer.is_done and self._clock.now() < until - _SLACK:
            self._take_back()
            if self._parts.is_stopped():
                self._save()
                raise StoppedError("it was to stop")
            if not self._crew.instances:
                self._idle(until)
            elif rows := self._trainer.advance():
                self._clock.worked(rows, len(self._crew.instances))
                self._tell()
            else:
                self._listen(min(_LOOK_SECONDS, self._clock.seconds_until(until)))
            if time.monotonic() - self._saved_at >= self._parts.saved_every:
                self._save()
        if self._trainer.is_done and self._finish is None:
            self._finish = min(self._clock.now(), until)

    def _idle(self, moment: float) -> None:
        """Let time pass, but hear if the run is to stop."""
        while self._clock.goes_on and (left := self._clock.seconds_until(moment)) > _LOOK_SECONDS:
            if self._parts.is_stopped():
                raise StoppedError("it was to stop")
            now = self._clock.now()
            self._clock.idle(now + (moment - now) * _LOOK_SECONDS / left)
        self._clock.idle(moment)

    def _listen(self, seconds: float) -> None:
        turn = self._crew.turn(seconds)
        now = self._clock.now()
        for instance in turn.ready:
            self._ready.ready(instance.id, now)
        # Whoever takes an instance away takes its worker, which may be heard first.
        taken = self._take_back() if turn.lost else ()
        for instance in turn.lost:
            if instance not in taken:
                self._replace(instance)
        for instance in turn.brought:
            self._deaths.pop(instance.id, None)

    def _tell(self) -> None:
        now, num_ready = self._clock.now(), len(self._crew.ready)
        progress = self._trainer.progress()
        self._losses += progress.losses
        self._parts.listener.trained(now, num_ready, progress)

    def _tell_resumed(self) -> None:
        """Say where a run that was begun goes on."""
        self._tell()
        if self._trainer.rows < self.state.rows:
            self._parts.listener.noted(
                f"goes on from row {self._trainer.rows}: there is no whole checkpoint of the "
                f"{self.state.rows} rows on record"
            )

    def _take_back(self) -> Sequence[Instance]:
        """Learn what the provider has taken away."""
        now = self._clock.now()
        taken = self._provider.taken_back(now)
        for instance in taken:
            self._crew.leave(instance)
            self._ready.taken_back(instance.id, now)
        if taken and self.state.current is not None:
            self._note("taken_back", count=len(taken))
            self._parts.listener.taken_back(now, len(taken))
        return taken

    def _replace(self, instance: Instance) -> None:
        """Start a worker again that has died, on the instance that is paid."""
        deaths = self._deaths.get(instance.id, 0) + 1
        self._deaths[instance.id] = deaths
        self._note("died", instance=instance.id)
        if deaths < _DEATHS:
            again = self._provider.restart(instance)
            if again is not None:
                self._parts.listener.noted(f"{instance.id}: its worker died and is started again")
                self._crew.join(again)
            return
        self._provider.release(instance)
        last_words = f"{instance.id}: its worker died {deaths} times in a row; see workers.log"
        if not self._crew.instances:
            raise SpotRunError(last_words)
        self._parts.listener.noted(f"{last_words}; given back")

    def _save(self) -> None:
        if self._trainer.rows != self._saved_rows:
            # On record first: rows that a checkpoint brings back took the time that is on record.
            self._note("saved", rows=self._trainer.rows)
            self._trainer.save()
            self._saved_rows = self._trainer.rows
        self._saved_at = time.monotonic()

    def _note(self, kind: str, **values: object) -> None:
        """Put an event on record, then act on it."""
        event = {"type": kind, "time": self._clock.now(), **values}
        self._parts.journal.append(event)
        self.state.apply(event)
