"""Driver of `auctune edge run`: decides on bids and trains what was planned, slot by slot.

A decision is recorded before anything is placed by it, and a slot's checkpoint is written before
the slot is recorded as trained. A run that is killed at any moment goes on in the slot that it was
in, with what is not trained of it.

A site that is lost within a slot takes the slot of all jobs that it served with it: they are
replanned for what remains, that slot's chunks too, from the next slot on, or refunded.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

from auctune.atomic_files import commit_folder, staging_folder
from auctune.domain import AuctuneError, InputError
from auctune.edge.decision import EdgeCommitment, EdgePlan, EdgeReplanned
from auctune.edge.eris import Eris
from auctune.edge.market import Site
from auctune.engine.edge.edge_folder import EdgeFolder
from auctune.engine.edge.inputs import EdgeRunInputs
from auctune.engine.edge.records import SlotRequest
from auctune.engine.edge.site_trainer import JobFailed, SiteTrainer, SlotTrained
from auctune.engine.edge.sites import Sites, check_device, open_sites
from auctune.engine.edge.state import (
    BidDecided,
    EdgeRunReport,
    EdgeRunState,
    JobRecord,
    JobRefunded,
    JobReplanned,
    JobSlotTrained,
    LoggedEvent,
    RunBegun,
    RunEnded,
    SiteClosed,
    SlotEnded,
    event_record,
    make_report,
    write_report,
)
from auctune.engine.event_log import EventLog
from auctune.engine.records import loss_record


@dataclass(frozen=True, slots=True)
class SlotBegun:
    """A slot began, in which these jobs train."""

    slot: int
    jobs: list[str]


@dataclass(frozen=True, slots=True)
class SlotProgress:
    """Jobs have trained these shares of the running slot."""

    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SiteGone:
    """A site was lost; its jobs are replanned at the end of the slot."""

    site: str


RunEvent = LoggedEvent | SlotBegun | SlotProgress | SiteGone
OnEvent = Callable[[RunEvent, EdgeRunState], None]


class EdgeRunError(AuctuneError):
    """The run stops here; what it has saved stands."""


class EdgeDriver:
    """One run, new or resumed.

    Args:
        sites: where it trains.
        inputs: of the run.
        folder: of the run.
        log: its event log.
        on_event: called with each event, and the state after it.

    Attributes:
        state: of the run.

    Raises:
        InputError: if the cluster lacks a site of a new run.
    """

    def __init__(
        self,
        sites: Sites,
        inputs: EdgeRunInputs,
        folder: EdgeFolder,
        log: EventLog,
        on_event: OnEvent,
    ) -> None:
        self._inputs, self._folder, self._log, self._on_event = inputs, folder, log, on_event
        self._market = inputs.instance.market
        self._eris = Eris(self._market, inputs.params, inputs.instance.history)
        self.state = EdgeRunState(inputs.instance, self._eris)
        self.state.replay(log.events)
        self._lost_now: list[str] = []
        self._trainer = SiteTrainer(
            folder,
            sites,
            inputs.device,
            on_site_lost=self._on_site_lost,
            on_progress=self._on_progress,
        )
        for site in sorted(self._trainer.lost):
            if not log.events:
                raise InputError("--ray", f"has no node of site {site!r}", "a node for each site")
            # It was lost while no driver ran.
            self._on_site_lost(site)
        if not log.events:
            self._record(RunBegun())

    def run(self) -> None:
        """Run to the end.

        Raises:
            EdgeRunError: if a job cannot be trained.
        """
        try:
            # A driver may have been killed before it wrote them.
            self._write_results()
            while self._has_work():
                self._run_slot(self.state.slot)
            if not self.state.ended:
                self._record(RunEnded())
        finally:
            self._trainer.close()

    def _has_work(self) -> bool:
        if self.state.slot >= self._market.slots:
            return False
        to_come = len(self.state.jobs) < len(self._inputs.instance.jobs)
        return to_come or any(record.is_running for record in self.state.jobs.values())

    def _run_slot(self, slot: int) -> None:
        self._trainer.check_sites()
        if not any(slot in record.trained for record in self.state.jobs.values()):
            # Of a slot that was begun before, what is trained stands: the rest is replanned at its
            # end.
            self._replan_lost(slot, set())
        self._decide(slot)
        running = [record for record in self.state.jobs.values() if record.is_running]
        requests = [self._request(record, slot) for record in running if record.part(slot)]
        self._notify(SlotBegun(slot, [one.job.id for one in requests]))
        self._trainer.retain_only([record.job.id for record in running])
        lost_slot: set[str] = set()
        for found in self._trainer.run_slot(slot, requests):
            if isinstance(found, SlotTrained):
                trained = JobSlotTrained(slot, found.job, found.outcome)
                self.state.eris_applies(trained)
                self._record(trained)
            elif isinstance(found, JobFailed):
                raise EdgeRunError(f"job {found.job} cannot be trained: {found.why}")
            elif found.rows_lost:
                refunded = JobRefunded(slot, found.job)
                self.state.eris_applies(refunded)
                self._record(refunded)
            elif found.failed:
                raise EdgeRunError(f"job {found.job}: {found.why}")
            else:
                lost_slot.add(found.job)
        self._replan_lost(slot + 1, lost_slot)
        self._record(SlotEnded(slot))
        self._write_results()

    def _decide(self, slot: int) -> None:
        """Decide on the bids of a slot that have no decision yet."""
        for job in self._inputs.instance.in_order():
            if job.arrival == slot and job.id not in self.state.jobs:
                self._record(BidDecided(slot, job.id, self._eris.offer(job, slot)))

    def _request(self, record: JobRecord, slot: int) -> SlotRequest:
        part, plan = record.part(slot), record.plan
        assert part is not None
        assert plan is not None
        return SlotRequest(
            job=record.job,
            training=self._inputs.trainings[record.job.id],
            part=part,
            taken=plan.chunks_before(slot),
            steps=max((outcome.steps for outcome in record.trained.values()), default=0),
            is_last={one.slot for one in plan.slots} <= {*record.trained, slot},
        )

    def _write_results(self) -> None:
        """Write the adapters and losses of jobs that are done into their folders for people."""
        for job, record in self.state.jobs.items():
            place = self._folder.result(job)
            if not record.is_done or place.exists():
                continue
            losses = [
                loss_record(point)
                for slot in sorted(record.trained)
                for point in record.trained[slot].losses
            ]
            with staging_folder(place) as folder:
                shutil.copytree(self._folder.adapter(job), folder / "adapter")
                text = "".join(f"{json.dumps(one)}\n" for one in losses)
                (folder / "losses.jsonl").write_text(text)
                commit_folder(folder, place)

    def _on_site_lost(self, site: str) -> None:
        """Note a lost site: its jobs are replanned at the end of the slot."""
        if site not in self.state.lost:
            self._lost_now.append(site)
            self._notify(SiteGone(site))

    def _replan_lost(self, now: int, lost_slot: set[str]) -> None:
        """Replan what lost sites were to run from slot `now` on, and the slots that were lost."""
        while self._lost_now:
            site = self._lost_now.pop(0)
            running = [
                EdgeCommitment(one.job, without(one.plan, now - 1))
                if one.job.id in lost_slot
                else one
                for one in self.state.commitments()
            ]
            replanned = [
                JobReplanned(one.job.id, one.job.id in lost_slot, one.found)
                for one in self._replan(site, now, running)
            ]
            self._record(SiteClosed(site, now, replanned))
            lost_slot = set()

    def _replan(self, site: str, now: int, running: list[EdgeCommitment]) -> list[EdgeReplanned]:
        if now < self._market.slots:
            return self._eris.lose_site(site, now, running)
        # The market is over: what is not trained is refunded.
        return [
            EdgeReplanned(one.job, now, one.plan.since(now), None)
            for one in running
            if sum(part.chunks for part in one.plan.slots) < one.job.num_chunks
        ]

    def _on_progress(self, rows: Mapping[str, int]) -> None:
        shares = {}
        for job, done in rows.items():
            record = self.state.jobs[job]
            part = record.part(self.state.slot)
            total = self._trainer.num_rows(job) / record.job.num_chunks
            if part is not None:
                shares[job] = min(1.0, done / (total * part.chunks))
        self._notify(SlotProgress(shares))

    def _record(self, event: LoggedEvent) -> None:
        """Write an event to the log, then apply it."""
        self._log.append(event_record(event))
        self.state.apply(event)
        self._notify(event)

    def _notify(self, event: RunEvent) -> None:
        self._on_event(event, self.state)


def without(plan: EdgePlan, slot: int) -> EdgePlan:
    """Return a plan without a slot that was lost."""
    return EdgePlan(tuple(part for part in plan.slots if part.slot != slot))


def run_edge(
    inputs: EdgeRunInputs,
    folder: EdgeFolder,
    on_event: OnEvent,
    *,
    resume: bool = False,
    prepare: Callable[[], object] | None = None,
) -> EdgeRunReport:
    """Run to the end, on this machine or on a cluster.

    Args:
        inputs: of the run.
        folder: of the run; new or empty, unless the run is resumed.
        on_event: called with the run's progress.
        resume: whether a run in the folder is resumed.
        prepare: called once the folder is locked, before any worker is started, or None.

    Raises:
        InputError: if the folder holds a run already, or none to resume; if another process runs
            it, or there is no cluster.
        EdgeRunError: if a job cannot be trained; what was saved stands.
    """
    with folder.open(resume=resume):
        if prepare is not None:
            prepare()
        with closing(EventLog(folder.event_log)) as log:
            if any(event["type"] == "ended" for event in log.events):
                # Its report may have been lost with the driver.
                instance = inputs.instance
                eris = Eris(instance.market, inputs.params, instance.history)
                state = EdgeRunState(instance, eris)
                state.replay(log.events)
                return _report(state, folder)
            if not inputs.ray:
                check_device(inputs.device, "--device")
            with open_sites(_sites(inputs, log), inputs.ray, "--ray", folder) as sites:
                return run_at_sites(sites, inputs, folder, log, on_event)


def run_at_sites(
    sites: Sites, inputs: EdgeRunInputs, folder: EdgeFolder, log: EventLog, on_event: OnEvent
) -> EdgeRunReport:
    """Run to the end at sites; errors as `run_edge`."""
    driver = EdgeDriver(sites, inputs, folder, log, on_event)
    driver.run()
    return _report(driver.state, folder)


def _report(state: EdgeRunState, folder: EdgeFolder) -> EdgeRunReport:
    report = make_report(state)
    write_report(folder.report, report)
    return report


def _sites(inputs: EdgeRunInputs, log: EventLog) -> list[Site]:
    """Return the sites that have not been lost before."""
    lost = {event["site"] for event in log.events if event["type"] == "site_lost"}
    return [site for site in inputs.instance.market.sites if site.id not in lost]
