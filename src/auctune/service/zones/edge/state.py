"""State of an edge zone: data sets, jobs, events, state and rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, PlainSerializer

from auctune.domain import InputError, Money, Reason
from auctune.domain.data_size import DataSize
from auctune.domain.errors import RepairableError
from auctune.edge import (
    EdgeAdvanced,
    EdgeCommitment,
    EdgeEvent,
    EdgeOffered,
    EdgePlan,
    EdgeReplanned,
    Eris,
    SiteLost,
    SiteReturned,
    SlotPlan,
)
from auctune.engine.edge.edge_folder import SummaryField
from auctune.engine.edge.records import DecisionField, JobField, PlanField, read_job
from auctune.engine.unix_time import SlotClock
from auctune.service.config.edge import read_supply
from auctune.service.datasets.training_data import FileSizes
from auctune.service.files.repository import FileRecord, FileRepository
from auctune.service.jobs.training import Submission, Training
from auctune.service.storage.event_log import EventType, Record, ZoneEvent, job_of
from auctune.service.storage.queries import Effects, JobReadModel, Status
from auctune.service.zones.core.events import (
    EventData,
    JobCancelled,
    JobDecided,
    JobFailed,
    JobPaused,
    JobResumed,
    JobTrained,
    Size,
    SlotStarted,
)
from auctune.service.zones.core.job import GivenUp, PendingJob, Phase, PrepaidJob, Progress
from auctune.service.zones.core.projection import (
    COMMON_MESSAGES,
    EventMessage,
    JobRow,
    PrepaidProjection,
    PrepaidRow,
    replanned_message,
)
from auctune.service.zones.core.state import Reducer, SlottedState, ZoneModel


@dataclass(frozen=True, slots=True)
class SiteDatasets:
    """Data sets of one job.

    Attributes:
        samples: rows by site that can be trained on.
        size: of all sites together, with the validation data.
    """

    samples: Mapping[str, int]
    size: Size


def combine(
    sites: Mapping[str, DataSize], validation: DataSize | None, training: Training
) -> SiteDatasets:
    """Return the data sets of one job.

    Args:
        sites: size of the file at each site.
        validation: size of the validation file, or None.
        training: settings of the job.

    Raises:
        InputError: if rows do not suit the method, or too many of a file would be truncated.
    """
    given = {f"market.sites.{site}": size for site, size in sites.items()}
    if validation is not None:
        given["validation_file"] = validation
    for place, size in given.items():
        size.check_method(place, training.method)
        size.check_truncation(place, training.max_length, truncate=training.truncate)
    sizes = list(sites.values())
    rows = sum(size.rows for size in sizes)
    tokens = sum(size.rows * size.mean_tokens for size in sizes)
    causes = sorted({cause for size in sizes for cause in size.dropped})
    limits = [size.context_tokens for size in sizes if size.context_tokens is not None]
    whole = DataSize.of(
        rows,
        tokens / rows,
        sum(size.num_truncated for size in sizes),
        {cause: sum(size.dropped.get(cause, 0) for size in sizes) for cause in causes},
        max(size.longest for size in sizes),
        min(limits, default=None),
        method=sizes[0].method,
        square_tokens=sum(size.rows * size.mean_square for size in sizes) / rows,
    )
    samples = {site: size.rows for site, size in sites.items()}
    return SiteDatasets(samples, replace(whole, validation=validation))


class SiteDatasetResolver:
    """Data of a zone's jobs at its sites.

    Args:
        files: stored files.
        sizes: of files.
    """

    def __init__(self, files: FileRepository, sizes: FileSizes) -> None:
        self._files, self._sizes = files, sizes

    def ensure_not_deleted(self, submission: Submission) -> None:
        start = submission.training.start_from
        for file, place in (*_files(submission), *(() if start is None else [(start, "model")])):
            if not self._files.exists(file):
                raise InputError(place, f"{file!r} is being deleted", "a file that is not deleted")

    async def cached(self, submission: Submission) -> SiteDatasets | None:
        records = await self._records(submission)
        self.ensure_not_deleted(submission)
        sizes: dict[str, DataSize] = {}
        for place, record in records.items():
            size = self._sizes.cached(record, submission.training.max_length)
            if size is None:
                return None
            sizes[place] = size
        return _combined(submission, sizes)

    async def inspect(self, submission: Submission) -> SiteDatasets:
        records = await self._records(submission)
        sizes: dict[str, DataSize] = {}
        for place, record in records.items():
            try:
                length = submission.training.max_length
                sizes[place] = await self._sizes.size(record, length, place)
            except RepairableError as error:
                # No vendor repairs rows that stay at their sites.
                raise InputError(error.place, error.found, error.expected) from None
        return _combined(submission, sizes)

    async def preload(self, file: FileRecord) -> bool:
        return await self._sizes.preload(file)

    async def _records(self, submission: Submission) -> dict[str, FileRecord]:
        """Return a job's files, by their places in the request.

        Raises:
            InputError: if one does not exist, or belongs to another user.
        """
        return {
            place: await self._files.require(file, submission.owner, place)
            for file, place in _files(submission)
        }


def _combined(submission: Submission, sizes: Mapping[str, DataSize]) -> SiteDatasets:
    sites = {site: sizes[f"market.sites.{site}"] for site in submission.record["sites"]}
    return combine(sites, sizes.get("validation_file"), submission.training)


def _files(submission: Submission) -> Iterator[tuple[str, str]]:
    """Yield a job's files, each with its place in the request."""
    for site, file in submission.record["sites"].items():
        yield file, f"market.sites.{site}"
    if submission.training.validation is not None:
        yield submission.training.validation, "validation_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeBidDecision:
    """Decision on a bid; see `EdgeDecision` and `EdgeOutcome`."""

    admitted: bool
    reason: Reason | None
    payment: Money
    price: Money | None
    value: float | None
    surplus: float | None
    finish: int | None


@dataclass(kw_only=True)
class EdgeJobState(PrepaidJob):
    """An admitted job of an edge zone.

    Attributes:
        facts: of its data.
        job: as it was offered to the mechanism.
        deadline_slot: the last slot in which it is in time.
        plan: slots that are trained, and those to come.
        trained: slots whose results are recorded.
        steps: of the optimizer so far.
        failed_slots: number of slots without a result.
        transferred_mb: between sites so far, as measured.
    """

    facts: SiteDatasets
    job: JobField
    deadline_slot: int
    decision: EdgeBidDecision
    plan: PlanField
    trained: list[int] = field(default_factory=list)
    steps: int = 0
    failed_slots: int = 0
    transferred_mb: float = 0.0

    @property
    def payment(self) -> Money:
        return self.decision.payment

    @property
    def size(self) -> DataSize:
        return self.facts.size

    @property
    def total_rows(self) -> int:
        """Rows to train, over all epochs."""
        return self.facts.size.rows * self.training.epochs

    @property
    def chunks_left(self) -> int:
        """Chunks that are in no slot of the plan."""
        return self.job.num_chunks - sum(part.chunks for part in self.plan.slots)

    @property
    def is_trained(self) -> bool:
        """Return whether all of its data are trained."""
        return not self.chunks_left and {part.slot for part in self.plan.slots} <= set(self.trained)

    def slot_plan(self, slot: int) -> SlotPlan | None:
        """Return what it is to train in a slot, or None."""
        if slot in self.trained:
            return None
        return self.plan.at(slot)

    def missed_slots(self, slot: int) -> list[int]:
        """Return the planned slots before a slot that have no result."""
        return [part.slot for part in self.plan.before(slot).slots if part.slot not in self.trained]

    def uses(self, sites: set[str], slot: int) -> bool:
        """Return whether its plan uses one of these sites from a slot on."""
        parts = self.plan.since(slot).slots
        return any({part.server, *part.workers} & sites for part in parts)

    def release(self, slot: int, failed: list[int]) -> None:
        """Give up the plan after a slot, and earlier slots that have failed."""
        kept = self.plan.before(slot + 1).slots
        self.plan = EdgePlan(tuple(part for part in kept if part.slot not in failed))
        self.failed_slots += len(failed)

    def commitment(self, rate: float | None = None) -> EdgeCommitment:
        """Return the job and its plan for the mechanism.

        Args:
            rate: chunks that a worker passes through once in a slot, or None: as it was sold.
        """
        job = self.job if rate is None else replace(self.job, chunks_per_worker_slot=rate)
        return EdgeCommitment(job, self.plan)

    def is_planned_for(self, rate: float, slot: int) -> bool:
        """Return whether workers of this rate are enough for the plan from a slot on."""
        job = self.commitment(rate).job
        return all(
            part.workers.get(site, 0) >= job.workers_for(chunks)
            for part in self.plan.since(slot).slots
            for site, chunks in part.chunks_by_site.items()
        )


class EdgeEventType(StrEnum):
    """Types of events of edge zones only."""

    RELEASED = "job.released"
    REPLANNED = "job.replanned"
    SITE_LOST = "site.lost"
    SITE_RETURNED = "site.returned"


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeDecided(JobDecided):
    """A bid was decided on: `EdgeOffered` of the mechanism.

    Attributes:
        size: of the data.
        facts: of the data.
        job: as it was offered.
        deadline_slot: the last slot in which it is in time.
        decision: of the mechanism, or over the budget.
        answer: of the mechanism.
        line: finish of the accepted line of a menu, or None.
        earliest: slot by whose end a job could finish that misses its deadline, or None.
        budget_remaining: remaining budget of the owner, if the price was above it.
    """

    size: Size
    facts: SiteDatasets
    job: JobField
    deadline_slot: int
    decision: EdgeBidDecision
    answer: DecisionField
    line: int | None
    earliest: int | None
    budget_remaining: Money | None

    @property
    def is_admitted(self) -> bool:
        return self.answer.admitted

    @property
    def plan(self) -> EdgePlan:
        return EdgePlan(()) if self.answer.plan is None else self.answer.plan


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTrained(JobTrained):
    """A slot of a job was trained, with this outcome; the losses of its steps are in `result`."""

    outcome: SummaryField


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReleased(EventData):
    """A job gave up its plan after the slot of the event: `EdgeReplanned` of the mechanism.

    Attributes:
        failed_slots: earlier slots that trained nothing.
        why: for the owner.
    """

    type = EdgeEventType.RELEASED

    failed_slots: list[int]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReplaced(EventData):
    """A job got a plan for its remaining data: `EdgeReplanned` of the mechanism.

    Attributes:
        found: the plan, from the next slot on.
        why: for the owner.
        chunks_per_worker_slot: of the job in this plan, as its sites are slower than sold; None, as
            in events of an earlier release: as it was sold. None is not recorded.
    """

    type = EdgeEventType.REPLANNED

    found: PlanField
    why: str
    chunks_per_worker_slot: Annotated[float | None, Field(exclude_if=lambda rate: rate is None)] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgePaused(JobPaused):
    """A job was paused, and gave up its plan.

    Attributes:
        given_up_for: what its slots were worth, or None.
    """

    given_up_for: GivenUp | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeResumed(JobResumed):
    """A job was resumed with a new plan.

    Attributes:
        found: the plan, from the next slot on.
    """

    found: PlanField


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteDown(EventData):
    """A site was lost: `SiteLost` of the mechanism.

    Attributes:
        site: id.
        why: for operators.
    """

    type = EdgeEventType.SITE_LOST

    site: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteUp(EventData):
    """A lost site is back: `SiteReturned` of the mechanism.

    Attributes:
        site: id.
    """

    type = EdgeEventType.SITE_RETURNED

    site: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRow(PrepaidRow):
    """Row of a job; see `EdgeJobState`."""

    decision: EdgeBidDecision | None = None
    facts: SiteDatasets | None = None
    plan: PlanField = field(default_factory=lambda: EdgePlan(()))
    trained: list[int] = field(default_factory=list)
    failed_slots: int = 0
    transferred_mb: float = 0.0


class EdgeProjection(PrepaidProjection[EdgeJobState]):
    """Projection of edge jobs."""

    validates_each_slot: ClassVar[bool] = True
    row: ClassVar[type[JobRow]] = EdgeRow
    reasons: ClassVar[Mapping[Reason, str]] = {
        Reason.NO_FEASIBLE_SCHEDULE: "the sites could not train it by its deadline, even if all of "
        "them were free",
        Reason.NO_CAPACITY: "the free capacity of the sites cannot train it by its deadline",
        Reason.UNPROFITABLE: "the bid is not above the price",
    }

    def __init__(self) -> None:
        self.messages = {
            **COMMON_MESSAGES,
            EventType.DECIDED: EventMessage(self.decision_message),
            EdgeEventType.REPLANNED: EventMessage(replanned_message, "warn"),
        }

    def has_started(self, job: EdgeJobState) -> bool:
        return bool(job.trained)

    def market(self, row: JobReadModel, clock: SlotClock) -> Record:
        return {
            **self.market_fields(row),
            **self.price_fields(row, clock),
            "plan": _plan(row.body, clock),
            "edge": _edge(row.body, clock),
        }

    def finish(self, row: JobReadModel, clock: SlotClock) -> float | None:
        plan = row.body["plan"]
        return clock.slot_end(plan[-1]["slot"]) if plan else None


def _plan(body: Record, clock: SlotClock) -> Record | None:
    """Return a plan with a cell for each site that has workers in a slot."""
    slots = body["plan"]
    if not slots:
        return None
    cells = [
        {"slot": part["slot"], "node": site, "begins_at": clock.slot_start(part["slot"])}
        for part in slots
        for site, workers in part["workers"].items()
        if workers
    ]
    return {
        "cells": cells,
        "vendor": None,
        "start": clock.slot_start(slots[0]["slot"]),
        "finish": clock.slot_end(slots[-1]["slot"]),
    }


def _edge(body: Record, clock: SlotClock) -> Record | None:
    facts = body["facts"]
    if facts is None:
        return None
    return {
        "samples": facts["samples"],
        "sites": body["request"]["sites"],
        "slots": [
            {
                **part,
                "begins_at": clock.slot_start(part["slot"]),
                "trained": part["slot"] in body["trained"],
            }
            for part in body["plan"]
        ],
        "failed_slots": body["failed_slots"],
        "transferred_mb": body["transferred_mb"],
    }


@dataclass(kw_only=True)
class EdgeState(SlottedState[EdgeJobState]):
    """State of an edge zone.

    Attributes:
        lost: sites that run nothing.
    """

    projection: ClassVar[EdgeProjection] = EdgeProjection()

    jobs: dict[str, EdgeJobState] = field(default_factory=dict)
    lost: Annotated[set[str], PlainSerializer(sorted)] = field(default_factory=set)

    def mechanism_events(self, event: ZoneEvent, data: EventData) -> Iterator[EdgeEvent]:
        after = event.slot + 1
        job = None if event.job is None else self.jobs.get(event.job)
        match data:
            case SlotStarted():
                yield EdgeAdvanced(data.slot)
            case EdgeDecided():
                yield EdgeOffered(data.job, data.answer, event.slot)
            case PlanReleased() | EdgePaused() | JobCancelled() | JobFailed() if job is not None:
                rest = job.plan.since(after)
                if rest.slots:
                    yield EdgeReplanned(job.job, after, rest, None)
            case PlanReplaced() | EdgeResumed() if job is not None:
                if data.found.slots:
                    yield EdgeReplanned(job.job, after, EdgePlan(()), data.found)
            case SiteDown():
                yield SiteLost(data.site, after)
            case SiteUp():
                yield SiteReturned(data.site, after)

    def admit(self, event: ZoneEvent, data: EdgeDecided, pending: PendingJob) -> EdgeJobState:
        plan = data.answer.plan
        assert plan is not None
        job = EdgeJobState(
            **vars(pending),
            facts=data.facts,
            job=data.job,
            deadline_slot=data.deadline_slot,
            decision=data.decision,
            plan=plan,
        )
        job.progress = Progress(total_rows=job.total_rows)
        return job

    def _trained(self, event: ZoneEvent, data: EdgeTrained) -> Effects:
        job, outcome = self.jobs[job_of(event)], data.outcome
        assert data.slot not in job.trained, data.slot
        job.trained.append(data.slot)
        job.out_of_memory.clear()
        job.steps = outcome.steps
        job.transferred_mb += (outcome.chunk_bytes + outcome.parameter_bytes) / 1e6
        job.progress = job.progress.after(data.result)
        if job.is_trained:
            job.phase = Phase.TRAINED
        elif job.phase is Phase.PLANNED:
            job.phase = Phase.TRAINING
        return self.show(event, job)

    def _released(self, event: ZoneEvent, data: PlanReleased) -> Effects:
        job = self.jobs[job_of(event)]
        job.release(event.slot, data.failed_slots)
        return self.show(event, job)

    def _replanned(self, event: ZoneEvent, data: PlanReplaced | EdgeResumed) -> Effects:
        job = self.jobs[job_of(event)]
        job.plan = EdgePlan((*job.plan.slots, *data.found.slots))
        job.continue_phase(has_trained=bool(job.trained))
        return self.show(event, job)

    def _job_paused(self, event: ZoneEvent, data: EdgePaused) -> Effects:
        job = self.jobs[job_of(event)]
        job.release(event.slot, [])
        job.given_up = data.given_up_for
        return self._paused(event, data)

    def _site_down(self, _event: ZoneEvent, data: SiteDown) -> Effects:
        self.lost.add(data.site)
        return Effects()

    def _site_up(self, _event: ZoneEvent, data: SiteUp) -> Effects:
        self.lost.discard(data.site)
        return Effects()

    reducers: ClassVar[Mapping[type[EventData], Reducer]] = {
        **SlottedState.reducers,
        EdgeDecided: SlottedState._decided,
        EdgeTrained: _trained,
        PlanReleased: _released,
        PlanReplaced: _replanned,
        EdgePaused: _job_paused,
        EdgeResumed: _replanned,
        SiteDown: _site_down,
        SiteUp: _site_up,
    }


@dataclass(kw_only=True)
class InstanceState(EdgeState):
    """State of an edge market without a service, which ends with its last slot.

    Attributes:
        num_slots: of the market.
        ended: admitted jobs that have ended, by id.
    """

    num_slots: int
    ended: dict[str, EdgeJobState] = field(default_factory=dict)

    def _end(self, event: ZoneEvent, status: Status, *, refunded: bool) -> Effects:
        name = job_of(event)
        self.ended[name] = self.jobs[name]
        return super()._end(event, status, refunded=refunded)

    def mechanism_events(self, event: ZoneEvent, data: EventData) -> Iterator[EdgeEvent]:
        # Nothing is sold any more after the last slot, in which a site may still be lost.
        is_over = event.slot + 1 >= self.num_slots
        if not (isinstance(data, SlotStarted) or (isinstance(data, SiteDown) and is_over)):
            yield from super().mechanism_events(event, data)


# The mechanism is changed by events only, so that it is bit-identical live and after a restart.
EdgeModel = ZoneModel[EdgeState, Eris]


def empty_model(opened: Mapping[str, Any]) -> EdgeModel:
    """Return the model of a zone in which nothing is sold, from the event that created it."""
    # A market without a service has bids of earlier days, and its window does not roll.
    history = [read_job(job) for job in opened.get("history", ())]
    rolls = opened.get("rolls", True)
    state = EdgeState() if rolls else InstanceState(num_slots=opened["slots"])
    return ZoneModel(state, Eris(*read_supply(opened), history))
