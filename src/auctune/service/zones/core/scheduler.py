"""Training in slots on nodes: the scheduler that dispatches slots, and the worker around it.

At the beginning of a slot each node gets a request for its jobs, with cumulative targets: work that
an earlier slot did not finish is part of the next target. Nodes answer with results, which are
recorded, or not at all, which is up to the kind of zone.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import structlog

from auctune.engine.messages.node import (
    Ended,
    Lost,
    NodeMessage,
    NotCompleted,
    Noted,
    Recovered,
    RequestFailed,
    TaskQuota,
    TaskResult,
    Trained,
)
from auctune.engine.runtime.nodes import adapter_folder, make_quota
from auctune.engine.runtime.supervisor import Executor, OnNodeMessage
from auctune.engine.unix_time import SlotClock
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.events import JobNoted, JobTrained
from auctune.service.zones.core.job import SLOWER, Phase, SlotJob, SlotResult
from auctune.service.zones.core.worker import ZoneDependencies, ZoneWorker
from auctune.service.zones.core.zone import SlottedZone, lose_to_memory

_log = structlog.get_logger(__name__)

MakeExecutor = Callable[[OnNodeMessage], Executor]
"""Makes the executor of a zone's nodes, given the listener to their messages."""

_SCHEDULED_MESSAGES = Trained | RequestFailed | NotCompleted | Noted | Lost | Recovered
_LESS_MEMORY = "reduce batch_size, max_length or rank"

J = TypeVar("J", bound=SlotJob)
Z = TypeVar("Z", bound=SlottedZone[Any, Any])


class SlotScheduler(ABC, Generic[Z, J]):
    """Dispatches the slots of a zone to its nodes; all of it runs on the actor's thread.

    `content` returns the path of a file's content, by the file's id.
    """

    def __init__(self, executor: Executor, work: Path, content: Callable[[str], Path]) -> None:
        self._executor = executor
        self._work = work
        self._content = content
        # Ids of the jobs of requests without an answer, by (slot, node).
        self._in_flight: dict[tuple[int, str], frozenset[str]] = {}
        # A bid may have begun the slot before the worker's next tick.
        self._slot = -1

    @abstractmethod
    def _assignments(self, zone: Z) -> Mapping[str, Sequence[J]]:
        """Return the jobs that hold a place in the current slot, by node."""

    @abstractmethod
    def _target(self, zone: Z, job: J) -> int:
        """Return the rows, over all epochs, that a job should have trained after this slot."""

    def _can_train(self, zone: Z, job: J) -> bool:
        """Return whether a job is to train in the current slot."""
        # After a restart the slot may have been recorded already.
        return (
            job.phase in (Phase.PLANNED, Phase.TRAINING)
            and job.last_reported_slot < zone.event_slot
        )

    def _training_file(self, job: J) -> str:
        return job.training.data

    def _slot_end(self, zone: Z) -> float | None:
        """Return when the current slot ends, in unix time; None: once its targets are reached."""
        return zone.clock.slot_end(zone.event_slot)

    def _on_slot_begun(self, zone: Z) -> None:
        """Handle jobs that are not in flight after the dispatch of a slot."""

    def _on_shortfall(self, zone: Z, job: J, why: str) -> None:
        """Handle a slot in which a job trained less than its target."""

    def _on_node_lost(self, zone: Z, node: str, why: str) -> None:
        """Handle a node that fails again and again."""

    def _on_node_recovered(self, zone: Z, node: str) -> None:
        """Handle a lost node that takes requests again."""

    def _jobs_of(self, zone: Z, requests: Mapping[tuple[int, str], frozenset[str]]) -> Iterable[J]:
        """Return the jobs of requests that failed."""
        names: frozenset[str] = frozenset().union(*requests.values())
        return [job for job in zone.admitted_jobs.values() if job.id in names]

    def folder(self, job: str) -> Path:
        return self._work / job

    def is_running(self, job: str) -> bool:
        """Return whether a node may be training a job, even one that has ended."""
        return any(job in jobs for jobs in self._in_flight.values())

    def resume(self, zone: Z) -> None:
        """Continue after a start."""
        self.run_slot(zone)

    def run_slot(self, zone: Z) -> None:
        """Begin the current slot, if it has not begun, and dispatch it."""
        zone.begin_slots()
        if zone.event_slot == self._slot:
            return
        self._slot = zone.event_slot
        self._dispatch(zone)
        self._on_slot_begun(zone)

    def on_message(self, zone: Z, node: str, message: NodeMessage) -> None:
        """Handle a message of a node; see `auctune.engine.runtime.supervisor.Executor`."""
        match message:
            case Trained(stale=False):
                self._on_trained(zone, node, message)
            case RequestFailed(stale=False) | NotCompleted():
                self._on_slot_failed(zone, node, message)
            case Noted():
                self._on_note(zone, message)
            case Lost():
                self._on_node_lost(zone, node, f"it is lost ({message.how})")
            case Recovered():
                self._on_node_recovered(zone, node)

    def _dispatch(self, zone: Z) -> None:
        for node, jobs in self._assignments(zone).items():
            self._dispatch_node(zone, node, jobs)

    def _dispatch_node(self, zone: Z, node: str, jobs: Sequence[J]) -> None:
        slot = zone.event_slot
        if (slot, node) in self._in_flight:
            return
        requests = [self._request(zone, job) for job in jobs if self._can_train(zone, job)]
        if requests:
            self._in_flight[slot, node] = frozenset(one.job.id for one in requests)
            self._executor.train(slot, node, requests, self._slot_end(zone))

    def _request(self, zone: Z, job: J) -> TaskQuota:
        training = job.training
        validation, start = training.validation, training.start_from
        return make_quota(
            job.id,
            training.hyperparameters(),
            self._content(self._training_file(job)),
            None if validation is None else self._content(validation),
            self.folder(job.id),
            number=zone.event_slot + 1,
            target=self._target(zone, job),
            known_steps=job.progress.steps,
            start_from=None if start is None else self._content(start),
            start_digest=training.start_digest,
        )

    def _on_trained(self, zone: Z, node: str, message: Trained) -> None:
        slot = message.slot
        self._in_flight.pop((slot, node), None)
        # One that has ended in the slot may have needed less than was sold.
        rows = {
            name: (zone.admitted_jobs[name].progress.rows, result.rows)
            for name, result in message.results.items()
            if name in zone.admitted_jobs
            and zone.admitted_jobs[name].last_reported_slot < slot
            and result.state not in ("done", "failed")
        }
        self._on_slot_trained(zone, node, rows, message.seconds)
        for name, result in message.results.items():
            job = zone.admitted_jobs.get(name)
            if job is None or job.last_reported_slot >= slot:
                continue
            zone.record(
                JobTrained(
                    node=node,
                    slot=slot,
                    seconds=message.seconds,
                    result=SlotResult(**asdict(result)),
                ),
                name,
            )
            self._on_result(zone, job, result)
        for name, error in message.refused.items():
            job = zone.admitted_jobs.get(name)
            if job is None:
                continue
            if error.out_of_memory or error.unreadable:
                why = f"slot {slot} was not trained on {node}: {error.found}"
                _log.warning("a slot was not trained", node=node, slot=slot, job=name, why=why)
                # The profile promised enough memory: the job may retry at no charge, a few times.
                has_failed = error.out_of_memory and lose_to_memory(
                    zone, name, slot, why, _LESS_MEMORY
                )
                if not has_failed:
                    self._on_shortfall(zone, job, why)
            else:
                zone.release_capacity(job)
                zone.fail(name, "training_failed", f"{error.place} {error.found}", None)

    def _on_slot_trained(
        self, zone: Z, node: str, rows: Mapping[str, tuple[int, int]], seconds: float
    ) -> None:
        """Compare what a node has trained with what was sold: rows of jobs, before and after."""

    def _on_result(self, zone: Z, job: J, result: TaskResult) -> None:
        if result.note:
            zone.record(JobNoted(text=result.note), job.id)
        if result.state == "done":
            zone.release_capacity(job)
        elif result.state == "failed":
            zone.release_capacity(job)
            # Weights that diverge are a consequence of the job's settings: no refund.
            zone.fail(job.id, "training_diverged", result.note, None, refund=False)
        else:
            self._on_shortfall(zone, job, SLOWER)

    def _on_slot_failed(self, zone: Z, node: str, message: RequestFailed | NotCompleted) -> None:
        slot, why = message.slot, message.why
        if isinstance(message, RequestFailed) or message.begun:
            _log.warning("a slot was not trained", node=node, slot=slot, why=why)
        else:
            # Usual after a restart.
            _log.info("a slot was skipped", node=node, slot=slot, why=why)
        failed = {
            request: jobs
            for request, jobs in self._in_flight.items()
            if request[1] == node and slot in (None, request[0])
        }
        for request in failed:
            del self._in_flight[request]
        for job in self._jobs_of(zone, failed):
            self._on_shortfall(zone, job, f"node {node} did not train a slot: {why}")

    def _on_note(self, zone: Z, message: Noted) -> None:
        if message.task in zone.admitted_jobs:
            zone.note(message.task, message.text)


def log_node_message(zone: str, node: str, message: NodeMessage) -> None:
    """Log what happened to a node's worker, for those who wonder why the node was lost."""
    match message:
        case Ended():
            _log.warning(
                "a node's worker ended",
                zone=zone,
                node=node,
                how=message.how,
                exits=message.exits,
                backoff_seconds=message.backoff,
            )
        case Lost():
            _log.warning("a node is lost", zone=zone, node=node, how=message.how)
        case Recovered():
            _log.info("a node has recovered", zone=zone, node=node)


class SlotWorker(ZoneWorker[Z]):
    """Worker of a zone whose jobs train in slots on the nodes of an executor."""

    scheduler: ClassVar[type[SlotScheduler[Any, Any]]]
    poll_seconds: ClassVar[float] = 1.0

    def __init__(
        self,
        actor: ZoneActor[Z],
        clock: SlotClock,
        make_executor: MakeExecutor,
        work: Path,
        dependencies: ZoneDependencies,
    ) -> None:
        super().__init__(actor, clock, work, dependencies)
        self._make_executor = make_executor
        self._executor: Executor | None = None

    async def _start_processes(self) -> None:
        # On Ray it starts a process.
        self._executor = await asyncio.to_thread(self._make_executor, self._on_message)
        self._scheduler = self.scheduler(self._executor, self._work, self._files.blobs.path)
        await self._actor.call(self._scheduler.resume)

    async def _stop_processes(self) -> None:
        if self._executor is not None:
            await asyncio.to_thread(self._executor.close)

    async def _run_slot(self) -> None:
        await self._actor.call(self._scheduler.run_slot)

    def _is_running(self, job: str) -> bool:
        return self._scheduler.is_running(job)

    def _result_folder(self, job: SlotJob) -> Path:
        return adapter_folder(self._scheduler.folder(job.id))

    def _on_message(self, node: str, message: NodeMessage) -> None:
        """Handle a message of a node, on a thread of the executor."""
        log_node_message(self._actor.name, node, message)
        if isinstance(message, _SCHEDULED_MESSAGES):
            self._post(lambda zone: self._scheduler.on_message(zone, node, message))
