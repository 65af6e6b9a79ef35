"""Coordinator of a run: slot by slot it decides, acquires instances, trains, and saves.

A decision is in the event log before anything is rented by it, so a slot is paid once, whoever is
killed when. A resumed run continues at the last recorded time, in the slot that it was in, with the
instances that remained of it, and from the newest checkpoint. Where the clock runs while the run
does not, slots that passed are skipped: nothing was held in them, and nothing is paid.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import floor, inf

from auctune.domain import AuctuneError, InputError
from auctune.engine.elastic.errors import SlotError
from auctune.engine.elastic.trainer import ElasticTrainer
from auctune.engine.runtime.requests import WorkerEndedError
from auctune.engine.spot.clock import SlotClock
from auctune.engine.spot.overhead import ReadinessTracker
from auctune.engine.spot.provider import Instance, InstanceProvider, PurchaseOption, SpotRunError
from auctune.engine.spot.state import (
    InstancesPreempted,
    OnEvent,
    OvertimeStarted,
    RowsTrained,
    RunLog,
    SlotFinished,
    SlotStarted,
    SpotRunState,
    Warned,
    to_record,
)
from auctune.engine.spot.worker_pool import WorkerPool
from auctune.spot.account import HeldInstances, job_constants
from auctune.spot.forecasts.forecast import Forecast
from auctune.spot.job import SpotJob
from auctune.spot.policy import IDLE, Policy, SpotAllocation, SpotObservation, check
from auctune.train.job import CurvePoint

ForecastSource = Callable[[Sequence[SpotObservation], SpotObservation], Forecast | None]
"""Observations of the earlier slots, and of the present one without a forecast -> its forecast."""


def no_forecast(past: Sequence[SpotObservation], present: SpotObservation) -> None:
    """Return None: the forecast of policies that use none."""


# Preemptions are checked at least this often.
_POLL_SECONDS = 0.1
# A model's clock adds up fractions of slots.
_SLACK = 1e-9
# Where the clock runs on, a slot of which more has passed is not worth its price.
_MAX_LATENESS = 0.5
# A worker that crashes this often without delivering a micro-batch will not recover.
_MAX_CONSECUTIVE_CRASHES = 3


class CapReachedError(AuctuneError):
    """The next slot would cost more than may be paid; all that was paid is recorded.

    Attributes:
        rate: cost of the next slot, in prices of the market.
    """

    def __init__(self, rate: float) -> None:
        super().__init__(f"the next slot would cost {rate:g} more")
        self.rate = rate


class StoppedError(AuctuneError):
    """The run was stopped; it can be resumed."""


class Coordinator:
    """One run, new or resumed.

    Args:
        job: bounds, deadline, workload.
        policy: chooses allocations.
        forecast: makes the policy's forecasts.
        trainer: state of the training.
        pool: the workers.
        provider: of instances.
        clock: of the run.
        log: the event log, begun.
        on_event: called with every event.
        saved_every: seconds between checkpoints within a slot.
        cap: maximum cost.
        should_stop: returns whether the run is to stop.

    Attributes:
        state: of the run.

    Raises:
        InputError: if the policy's answers differ from the recorded ones.
    """

    def __init__(
        self,
        *,
        job: SpotJob,
        policy: Policy,
        forecast: ForecastSource,
        trainer: ElasticTrainer,
        pool: WorkerPool,
        provider: InstanceProvider,
        clock: SlotClock,
        log: RunLog,
        on_event: OnEvent,
        saved_every: float,
        cap: float,
        should_stop: Callable[[], bool],
    ) -> None:
        self._job, self._forecast, self._trainer = job, forecast, trainer
        self._pool, self._provider, self._clock = pool, provider, clock
        self._log, self._on_event = log, on_event
        self._saved_every, self._cap, self._should_stop = saved_every, cap, should_stop
        self.state = SpotRunState.fold(log.events)
        self._terms = job_constants(job, 1.0)
        self._policy = policy.start(job)
        self._replay_policy()
        self._crashes: dict[str, int] = {}
        self._start_time = self.state.time_at(trainer.rows)
        self._finish = self._recorded_finish() if trainer.is_done else None
        self._readiness = ReadinessTracker(0.0, ())
        self._losses: list[CurvePoint] = []
        self._saved_rows, self._saved_time = trainer.rows, 0.0
        self._saved_at = time.monotonic()

    def run(self) -> None:
        """Run what is left of the job.

        Raises:
            InfeasibleAllocationError: if the policy's allocation is not allowed.
            SpotRunError: if a worker crashes again and again.
            InputError: if workers cannot use the job.
            CapReachedError: if the next slot would cost more than the cap.
            StoppedError: if the run was stopped; a checkpoint is written.
        """
        self._clock.start(self._start_time)
        if self.state.slots:
            self._report_resumed()
        while not self._trainer.is_done and self._slot < self._job.deadline:
            self._run_slot()
        if self.state.current is not None:
            self._finish_slot()
        if not self._trainer.is_done:
            self._run_overtime()

    def end(self) -> None:
        """Record the end of the run, after its adapter is written."""
        assert self._finish is not None
        progress = self._trainer.progress()
        self._record("ended", finish=self._finish, state=progress.state, note=progress.note)

    @property
    def _slot(self) -> int:
        """The current slot, or the next one."""
        return len(self.state.slots) - (self.state.current is not None)

    def _recorded_finish(self) -> float:
        """Return when the last row was trained, for a run that was killed after that."""
        if self.state.overtime_started is not None:
            return self._start_time
        # The end of a slot is recorded after its checkpoint, a little after the slot's end.
        return min(self._start_time, float(len(self.state.slots)))

    def _replay_policy(self) -> None:
        """Bring the policy to its state; its recorded answers stand."""
        for record in self.state.slots:
            answer = self._policy.allocate(record.observation)
            if not record.is_skipped and answer != record.allocation:
                raise InputError(
                    f"slot {record.observation.slot}",
                    f"{answer} is the policy's answer, {record.allocation} is on record",
                    "the policy with which the run began, in the same release",
                )

    def _run_slot(self) -> None:
        slot, resumed = self._slot, self.state.current is not None
        if not resumed:
            if self._clock.runs_while_down and self._clock.now() > slot + _MAX_LATENESS:
                self._skip_slot(slot)
                return
            # Within the slack it may be a little early.
            self._sleep_until(float(slot))
            if lost := self._check_preemptions():
                # Those for which there is room again were lost within the slot before.
                available = self._provider.quote(self._clock.now()).available
                self._record_preempted(min(len(lost), available - len(self._spot_instances())))
            self._decide(slot)
        elif self._clock.runs_while_down and self._clock.now() >= slot + 1.0:
            self._finish_slot()
            return
        record = self.state.slots[-1]
        if resumed:
            self._on_event(SlotStarted(record))
        self._scale_to(record.remaining)
        # The market may have fewer than when the slot was decided.
        self._record_preempted(record.remaining.spot - len(self._spot_instances()))
        # A slot's overhead is known only if it was observed from its start.
        held = [instance.id for instance in self._pool.instances]
        self._readiness = ReadinessTracker(float(slot), [] if resumed else held)
        for instance in self._pool.ready:
            self._readiness.ready(instance.id, self._clock.now())
        self._train(until=slot + 1.0)
        self._finish_slot()

    def _skip_slot(self, slot: int) -> None:
        """Record a slot in which no process of the job ran; the policy observes it all the same."""
        held = self.state.held_instances(self._terms)
        observation = self._observe(slot, float(slot), held)
        self._policy.allocate(observation)
        self._scale_to(IDLE)
        self._record("slot_skipped", observation=to_record(observation))
        self._on_event(SlotStarted(self.state.slots[-1]))
        self._on_event(SlotFinished(self.state.slots[-1]))

    def _decide(self, slot: int) -> None:
        """Let the policy choose an allocation, and pay for it."""
        held = self.state.held_instances(self._terms)
        observation = self._observe(slot, self._clock.now(), held)
        allocation = self._policy.allocate(observation)
        check(allocation, self._job, observation.available, slot)
        spot_cost = allocation.spot * observation.price
        paid = allocation.on_demand * observation.on_demand_price + spot_cost
        if self.state.slot_cost + paid > self._cap:
            raise CapReachedError(paid)
        if allocation.total > 0 and self._clock.now() < self._job.deadline:
            self._clock.on_overhead(1.0 - held.run_slot(allocation).share)
        self._record(
            "slot",
            observation=to_record(observation),
            allocation=to_record(allocation),
            paid=paid,
        )
        self._on_event(SlotStarted(self.state.slots[-1]))

    def _observe(self, slot: int, now: float, held: HeldInstances) -> SpotObservation:
        quote = self._provider.quote(now)
        before = self.state.slots[-1].observation.available if slot else quote.available
        observation = SpotObservation(
            slot=slot,
            price=quote.price,
            available=quote.available,
            available_before=before,
            on_demand_price=quote.on_demand_price,
            # Z, in the job's units: all rows are its whole workload.
            progress=float(self._job.workload) * self._trainer.done_cost / self._trainer.total_cost,
            cost=self.state.slot_cost,
            last=held.last,
            forecast=None,
            owed=held.owed,
        )
        past = [record.observation for record in self.state.slots]
        return replace(observation, forecast=self._forecast(past, observation))

    def _finish_slot(self) -> None:
        """Write a checkpoint, and record the end of the slot."""
        self._save()
        overhead = None
        if self._clock.is_real:
            end = self._slot + 1.0
            until = min(self._clock.now(), end) if self._trainer.is_done else end
            overhead = self._readiness.overhead(end, until)
        slot = self.state.slots[-1]
        self._record(
            "slot_done",
            overhead=overhead,
            paid=slot.paid,
            preempted=slot.preempted,
            **self._training(),
        )
        self._on_event(SlotFinished(slot))

    def _training(self) -> dict[str, object]:
        """Return what was trained in all, with the losses since the last call."""
        progress = self._trainer.progress()
        losses, self._losses = [*self._losses, *progress.losses], []
        trained: dict[str, object] = {
            "steps": progress.steps,
            "tokens": progress.tokens,
            "losses": losses,
        }
        if progress.validation:
            trained["validation"] = progress.validation
        return {"rows": self._trainer.rows, "trained": trained}

    def _run_overtime(self) -> None:
        """Train on demand until the job is done, with all instances that it can use."""
        if self.state.overtime_started is None:
            self._sleep_until(float(self._job.deadline))
            self._record("overtime_started")
        self._readiness = ReadinessTracker(0.0, ())
        self._scale_to(SpotAllocation(self._job.n_max, 0))
        since = self._clock.now()
        self._on_event(OvertimeStarted(since, self._job.n_max))
        # In a resumed run they may have passed already.
        if since == self.state.overtime_started:
            held = self.state.held_instances(self._terms)
            self._clock.on_overhead(held.overtime_starts())
        if self._clock.runs_while_down:
            while not self._trainer.is_done:
                since = self._run_overtime_interval(since)
        else:
            self._train(until=inf)
        self._save()

    def _run_overtime_interval(self, since: float) -> float:
        """Train to the end of a slot or to the cap, and record the interval; return its end.

        As with a slot, the checkpoint is written before the interval is recorded: a run that is
        killed never trains, and pays for, the same rows twice.

        Raises:
            CapReachedError: if nothing more may be paid.
        """
        rate = self._provider.quote(since).on_demand_price * self._job.n_max
        spent = self.state.slot_cost + self.state.overtime_slots * rate
        max_slots = (self._cap - spent) / rate
        if max_slots < _SLACK:
            raise CapReachedError(rate)
        end = min(floor(since + _SLACK) + 1.0, since + max_slots)
        until = since
        try:
            self._train(end)
        finally:
            # The last batch may end a little later: that is part of the next interval.
            until = min(max(self._clock.now(), since), end)
            try:
                self._save()
            except (WorkerEndedError, SlotError):
                # What is in an earlier checkpoint stays trained, and is paid; the next interval
                # has its losses, as they are in that checkpoint.
                self._bill_overtime(since, min(max(self._saved_time, since), end))
                raise
            self._bill_overtime(since, until, **self._training())
        return until

    def _bill_overtime(self, since: float, until: float, **trained: object) -> None:
        self._append({"type": "overtime", "time": until, "since": since, **trained})

    def _spot_instances(self) -> list[Instance]:
        return [one for one in self._pool.instances if one.option is PurchaseOption.SPOT]

    def _scale_to(self, target: SpotAllocation) -> None:
        """Release surplus instances, the newest first, and acquire missing ones."""
        for option, count in (
            (PurchaseOption.ON_DEMAND, target.on_demand),
            (PurchaseOption.SPOT, target.spot),
        ):
            held = [instance for instance in self._pool.instances if instance.option is option]
            for instance in held[count:]:
                self._pool.remove(instance)
                self._provider.release(instance)
            if count > len(held):
                new = self._provider.acquire(option, count - len(held), self._clock.now())
                for instance in new:
                    self._pool.add(instance)

    def _train(self, until: float) -> None:
        """Train until a time, or to the end of the job."""
        while not self._trainer.is_done and self._clock.now() < until - _SLACK:
            self._check_preemptions()
            if self._should_stop():
                self._save()
                raise StoppedError("the run was stopped")
            if not self._pool.instances:
                self._sleep_until(until)
            elif rows := self._trainer.advance():
                self._clock.on_trained(rows, len(self._pool.instances))
                self._report_trained()
            else:
                self._poll(min(_POLL_SECONDS, self._clock.seconds_until(until)))
            if time.monotonic() - self._saved_at >= self._saved_every:
                self._save()
        if self._trainer.is_done and self._finish is None:
            self._finish = min(self._clock.now(), until)

    def _sleep_until(self, moment: float) -> None:
        """Let time pass, in short intervals where the run may be stopped meanwhile."""
        while (
            self._clock.runs_while_down
            and (left := self._clock.seconds_until(moment)) > _POLL_SECONDS
        ):
            if self._should_stop():
                raise StoppedError("the run was stopped")
            now = self._clock.now()
            self._clock.sleep_until(now + (moment - now) * _POLL_SECONDS / left)
        self._clock.sleep_until(moment)

    def _poll(self, seconds: float) -> None:
        result = self._pool.poll(seconds)
        now = self._clock.now()
        for instance in result.ready:
            self._readiness.ready(instance.id, now)
        # A preempted instance takes its worker with it, whose exit may be noticed first.
        preempted = self._check_preemptions() if result.exited else ()
        for instance in result.exited:
            if instance not in preempted:
                self._restart(instance)
        for instance in result.delivered:
            self._crashes.pop(instance.id, None)

    def _report_trained(self) -> None:
        now, num_ready = self._clock.now(), len(self._pool.ready)
        progress = self._trainer.progress()
        self._losses += progress.losses
        self._on_event(RowsTrained(now, num_ready, progress))

    def _report_resumed(self) -> None:
        self._report_trained()
        if self._trainer.rows < self.state.rows:
            self._on_event(
                Warned(
                    f"resumes from row {self._trainer.rows}: there is no complete checkpoint of "
                    f"the {self.state.rows} recorded rows"
                )
            )

    def _check_preemptions(self) -> Sequence[Instance]:
        """Remove preempted instances; return them."""
        now = self._clock.now()
        preempted = self._provider.check_preemptions(now)
        for instance in preempted:
            self._pool.remove(instance)
            self._readiness.preempted(instance.id, now)
        if self.state.current is not None:
            self._record_preempted(len(preempted))
        return preempted

    def _record_preempted(self, count: int) -> None:
        if count > 0:
            self._record("preempted", count=count)
            self._on_event(InstancesPreempted(self._clock.now(), count))

    def _restart(self, instance: Instance) -> None:
        """Restart a crashed worker on its instance, which is paid."""
        crashes = self._crashes.get(instance.id, 0) + 1
        self._crashes[instance.id] = crashes
        self._record("worker_crashed", instance=instance.id)
        if crashes < _MAX_CONSECUTIVE_CRASHES:
            restarted = self._provider.restart(instance)
            if restarted is not None:
                self._on_event(Warned(f"{instance.id}: its worker crashed and is restarted"))
                self._pool.add(restarted)
            return
        self._provider.release(instance)
        why = f"{instance.id}: its worker crashed {crashes} times in a row; see workers.log"
        if not self._pool.instances:
            raise SpotRunError(why)
        self._on_event(Warned(f"{why}; released"))

    def _save(self) -> None:
        if self._trainer.rows != self._saved_rows:
            # Recorded first: the rows of a checkpoint took the time that is recorded.
            self._record("saved", rows=self._trainer.rows)
            now = self._clock.now()
            self._trainer.save()
            self._saved_rows, self._saved_time = self._trainer.rows, now
        self._saved_at = time.monotonic()

    def _record(self, kind: str, **values: object) -> None:
        """Record an event at the present time, before acting on it."""
        self._append({"type": kind, "time": self._clock.now(), **values})

    def _append(self, event: dict[str, object]) -> None:
        self._log.append(event)
        self.state.apply(event)
