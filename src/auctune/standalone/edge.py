"""`auctune edge run`: the jobs of an instance to their end, by an edge zone of the service.

The clock is logical. Slot by slot:
 1. plan anew, from this slot on, what sites were to run that were lost since the slot before;
 2. decide on the bids that arrive in it;
 3. train what is planned, as long as it takes;
 4. plan anew what was lost within the slot: it is trained from the next one on, or refunded.
A slot's checkpoint is written before the slot is in the zone's log as trained. A run that was
killed resumes in the slot that it was in, with what is not trained of it.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from pydantic import TypeAdapter

from auctune.domain import AuctuneError, InputError, round_money
from auctune.domain.data_size import DataSize
from auctune.edge import EdgeJob
from auctune.engine.edge.edge_folder import EdgeFolder, SlotOutcome
from auctune.engine.edge.inputs import EdgeRunInputs, EdgeTraining
from auctune.engine.edge.records import SlotRequest, read_job
from auctune.engine.edge.site_trainer import SiteTrainer
from auctune.engine.edge.sites import Sites, check_device, open_sites
from auctune.engine.messages.sites import JobFailed, SlotTrained
from auctune.engine.unix_time import SlotClock
from auctune.service.config.edge import read_supply, supply_record
from auctune.service.config.zone import EDGE
from auctune.service.jobs.training import Training
from auctune.service.storage.event_log import VERSION
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.zone import EventWriter
from auctune.service.zones.edge.state import (
    EdgeJobState,
    EdgeModel,
    InstanceState,
    SiteDatasets,
    empty_model,
)
from auctune.service.zones.edge.supply import EdgeBid
from auctune.service.zones.edge.worker import slot_request, trained_event
from auctune.service.zones.edge.zone import PlanZone
from auctune.sim.edge.instance_file import EdgeInstance, edge_job_json
from auctune.standalone.edge_console import EdgeConsole
from auctune.standalone.edge_report import (
    EdgeRunReport,
    make_report,
    read_report,
    write_losses,
    write_report,
)
from auctune.standalone.folder import RunFolder
from auctune.standalone.zone import OWNER, ZoneRun, open_zone, read_created

ZONE = "edge"
"""Name of an instance's zone in its log."""

# Slots of an instance have no length: on the logical clock they last a second.
_SLOT_SECONDS = 1.0
# Rows are counted by their sites, once they train.
_UNKNOWN_ROWS = SiteDatasets({}, DataSize(0, 0.0))
_TRAININGS = TypeAdapter(dict[str, EdgeTraining])


class EdgeRunError(AuctuneError):
    """The run stops here; what it has saved stands."""


class EdgeRunFolder(RunFolder, EdgeFolder):
    """Folder of a run, with that of its sites."""

    command: ClassVar[str] = "edge run"
    results: ClassVar[str] = "jobs"
    # Earlier releases had inputs beside the state.
    outputs: ClassVar[tuple[str, ...]] = ("jobs", "report.json", "inputs")
    earlier_input: ClassVar[str] = "inputs/instance.json"

    def result(self, job: str) -> Path:
        return super().result(quote(job, safe=""))

    def adapter(self, job: str) -> Path:
        return self.result(job) / "adapter"


class InstanceZone(PlanZone):
    """Edge zone of an instance, whose bids are for slots from their arrival on.

    Args:
        jobs: all of them, by id.
        clock, model, writer: as of `PlanZone`.
    """

    def __init__(
        self, jobs: Mapping[str, EdgeJob], clock: SlotClock, model: EdgeModel, writer: EventWriter
    ) -> None:
        super().__init__(ZONE, clock, model, writer)
        self._jobs = jobs

    @property
    def ended_jobs(self) -> Mapping[str, EdgeJobState]:
        """Admitted jobs that have ended, by id."""
        assert isinstance(self.state, InstanceState)
        return self.state.ended

    def _job(self, bid: EdgeBid) -> tuple[EdgeJob, int]:
        return self._jobs[bid.job], self.eris.market.slots - 1

    def record_trained(self, name: str, outcome: SlotOutcome, total_rows: int) -> None:
        """Record that a job's slot was trained; a job whose training diverged is not refunded."""
        job, slot = self.state.jobs[name], self.state.slot
        part = job.slot_plan(slot)
        assert part is not None
        self.record(trained_event(job, part, outcome, total_rows), name)
        if outcome.diverged:
            why = f"the loss of slot {slot} is not a number"
            self.fail(name, "training_diverged", why, None, refund=False)


def run_edge(
    inputs: EdgeRunInputs, folder: EdgeRunFolder, shown: EdgeConsole, *, fresh: bool = False
) -> EdgeRunReport:
    """Run an instance from its first slot, on this machine or on a cluster.

    Args:
        inputs: of the run.
        folder: new, empty, or (with `fresh`) of an earlier run.
        shown: shows what happens.
        fresh: delete an earlier run in the folder.

    Raises:
        InputError: if anything about the folder, the device or the cluster is wrong; nothing is
            written.
        EdgeRunError: if a job cannot be trained; the run can be resumed.
    """
    with folder.locked_new(fresh=fresh):
        _check_sites(inputs)
        begin_run(inputs, folder)
        return _run(folder, shown)


def resume_edge(folder: EdgeRunFolder, shown: EdgeConsole) -> EdgeRunReport:
    """Go on with an earlier run; one that has ended only writes its report again.

    Raises:
        InputError: if there is no run in the folder, or its state is damaged.
        EdgeRunError: as `run_edge`.
    """
    earlier = folder.earlier_report(read_report)
    if earlier is not None:
        return earlier
    with folder.locked():
        folder.clean_temp_files()
        return _run(folder, shown)


def begin_run(inputs: EdgeRunInputs, folder: EdgeRunFolder) -> None:
    """Write the log of a new run, and its copies of adapters to start from."""
    starts = {job: one.config.start_from for job, one in inputs.trainings.items()}
    files = {_start_name(job): path for job, path in starts.items() if path is not None}
    with folder.staged(files) as staged:
        created = {**_created_record(inputs), "inputs": staged.input_digests()}
        with _open_zone(inputs, created, staged) as zone:
            zone.call(lambda zone: zone.record_created(created))


@contextmanager
def open_run(folder: EdgeRunFolder, shown: EdgeConsole) -> Iterator["EdgeRun"]:
    """Open a run as its log has it.

    Raises:
        InputError: if its log or its copies of adapters are damaged.
    """
    created = read_created(folder, ZONE)
    folder.check_inputs(created)
    inputs = _read_inputs(created, folder)
    with _open_zone(inputs, created, folder) as zone:
        yield EdgeRun(inputs, folder, zone, shown)


def _check_sites(inputs: EdgeRunInputs) -> None:
    """Check that there is what a new run is to train on."""
    if not inputs.ray:
        check_device(inputs.device, "--device")
        return
    from auctune.engine.edge.ray_sites import connect_sites

    with connect_sites(inputs.instance.market.site_ids, inputs.ray, "--ray") as sites:
        for site in sorted(sites.names - sites.alive()):
            raise InputError("--ray", f"has no node of site {site!r}", "a node for each site")


def _start_name(job: str) -> str:
    """Return the name by which a run keeps the adapter that a job starts from."""
    return f"jobs.{job}.start_from"


def _created_record(inputs: EdgeRunInputs) -> dict[str, Any]:
    """Return the body of the first event of an instance's zone: all that the run follows from."""
    instance = inputs.instance
    return {
        "version": VERSION,
        "kind": EDGE,
        **supply_record(instance.market, inputs.params),
        "jobs": [edge_job_json(job) for job in instance.jobs],
        "history": [edge_job_json(job) for job in instance.history],
        "rolls": False,
        "trainings": _TRAININGS.dump_python(inputs.trainings, mode="json"),
        "device": inputs.device,
        "ray": inputs.ray,
        "epoch": time.time(),
        "slot_seconds": _SLOT_SECONDS,
    }


def _read_inputs(created: Mapping[str, Any], folder: RunFolder) -> EdgeRunInputs:
    """Return the inputs of a run, which starts from its own copies of adapters."""
    market, params = read_supply(created)
    jobs, history = (tuple(map(read_job, created[name])) for name in ("jobs", "history"))
    trainings = _TRAININGS.validate_python(created["trainings"])
    for job, one in trainings.items():
        if one.config.start_from is not None:
            config = replace(one.config, start_from=folder.resolve(_start_name(job)))
            trainings[job] = replace(one, config=config)
    instance = EdgeInstance(market, jobs, history)
    return EdgeRunInputs(instance, trainings, params, created["device"], created["ray"])


def _open_zone(
    inputs: EdgeRunInputs, created: Mapping[str, Any], folder: RunFolder
) -> AbstractContextManager[ZoneRun[InstanceZone]]:
    """Open the zone of an instance, as its log in a folder has it."""
    jobs = {job.id: job for job in inputs.instance.jobs}

    def make(model: EdgeModel, clock: SlotClock, writer: EventWriter) -> InstanceZone:
        return InstanceZone(jobs, clock, model, writer)

    return open_zone(ZONE, created, folder.state, lambda: empty_model(created), make)


def _run(folder: EdgeRunFolder, shown: EdgeConsole) -> EdgeRunReport:
    with open_run(folder, shown) as run:
        inputs = run.inputs
        if run.has_work():
            if not inputs.ray:
                check_device(inputs.device, "--device")
            lost = run.zone.call(lambda zone: {*zone.state.lost})
            sites = [site for site in inputs.instance.market.sites if site.id not in lost]
            with open_sites(sites, inputs.ray, "--ray", folder) as opened:
                run.run(opened)
        return run.report()


class EdgeRun:
    """One run, new or resumed.

    Args:
        inputs: of the run.
        folder: of the run.
        zone: of the run.
        shown: shows what happens.

    Attributes:
        inputs, zone: of the run.
    """

    def __init__(
        self,
        inputs: EdgeRunInputs,
        folder: EdgeRunFolder,
        zone: ZoneRun[InstanceZone],
        shown: EdgeConsole,
    ) -> None:
        self.inputs, self.zone = inputs, zone
        self._folder, self._shown = folder, shown
        self._requests: dict[str, SlotRequest] = {}
        zone.on_event = shown.on_event
        # It may have been killed before it had recorded that they are done.
        self._finish_jobs()

    def has_work(self) -> bool:
        """Return whether a job is still to be decided on, or to be trained."""
        is_open = self.zone.call(lambda zone: bool(zone.admitted_jobs))
        return is_open or len(self.zone.by_job) < len(self.inputs.instance.jobs)

    def run(self, sites: Sites) -> None:
        """Run to the end.

        Raises:
            EdgeRunError: if a job cannot be trained.
        """
        trainer = SiteTrainer(
            self._folder,
            sites,
            self.inputs.device,
            on_site_lost=self.lose_site,
            on_progress=self._on_progress,
        )
        with closing(trainer):
            for site in sorted(trainer.lost):
                # It was lost while nothing ran.
                self.lose_site(site)
            self.run_slots(trainer)

    def run_slots(self, trainer: SiteTrainer) -> None:
        """Run the slots that are left; errors as `run`."""
        first = self.zone.call(lambda zone: zone.event_slot)
        for slot in range(first, self.inputs.instance.market.slots):
            if self.has_work():
                self._run_slot(slot, trainer)

    def lose_site(self, site: str) -> None:
        """Record a lost site; its jobs are replanned at the end of the slot."""
        self.zone.call(lambda zone: zone.lose_site(site, busy=zone.state.jobs))

    def report(self) -> EdgeRunReport:
        """Write the report of a run that has ended, and return it."""
        ended = self.zone.call(lambda zone: zone.ended_jobs)
        report = make_report(self.inputs.instance.market, self.zone, ended)
        write_report(self._folder.report, report)
        return report

    def _run_slot(self, slot: int, trainer: SiteTrainer) -> None:
        zone = self.zone
        trainer.check_sites()
        if zone.call(lambda zone: zone.event_slot) < slot:
            # Of a slot that was begun before, what is trained stands: its end has the rest.
            self._replan({})
        zone.clock.slot = slot
        zone.call(InstanceZone.begin_slots)
        for job in self.inputs.instance.in_order():
            if job.arrival == slot and job.id not in zone.by_job:
                zone.call(partial(InstanceZone.decide, bid=self._bid(job)))
        jobs = self._open_jobs()
        self._requests = {
            job.id: slot_request(job, slot, self.inputs.trainings[job.id])
            for job in jobs
            if job.slot_plan(slot) is not None
        }
        requests = list(self._requests.values())
        self._shown.slot_begun(slot, self.inputs.instance.market.slots, requests)
        trainer.retain_only([job.id for job in jobs])
        failed: dict[str, list[int]] = {}
        for found in trainer.run_slot(slot, requests):
            name = found.job
            if isinstance(found, SlotTrained):
                self._trained(name, found.outcome)
            elif isinstance(found, JobFailed):
                raise EdgeRunError(f"job {name} cannot be trained: {found.why}")
            elif found.rows_lost:
                fail = partial(InstanceZone.fail, job=name, code="rows_lost", param=None)
                zone.call(partial(fail, message=found.why))
            elif found.failed:
                raise EdgeRunError(f"job {name}: {found.why}")
            else:
                failed[name] = [slot]
        self._replan(failed)
        self._finish_jobs()

    def _bid(self, job: EdgeJob) -> EdgeBid:
        training, slots = self.inputs.trainings[job.id], self.inputs.instance.market.slots
        amount, deadline = round_money(job.utility(0)), self.zone.clock.slots.slot_end(slots - 1)
        start, rows = training.config.start_from, dict(training.rows)
        return EdgeBid(
            job=job.id,
            owner=OWNER,
            training=Training(
                **training.config.hyperparameters(),
                data=next(iter(rows.values()), ""),
                validation=training.validation,
                start_from=None if start is None else str(start),
                start_digest=training.config.start_digest,
            ),
            request={"bid": str(amount), "deadline": deadline, "sites": rows},
            facts=_UNKNOWN_ROWS,
            bid=amount,
            deadline=deadline,
        )

    def _open_jobs(self) -> list[EdgeJobState]:
        return self.zone.call(lambda zone: [*zone.admitted_jobs.values()])

    def _trained(self, name: str, outcome: SlotOutcome) -> None:
        total = self._total_rows(name)
        self.zone.call(lambda zone: zone.record_trained(name, outcome, total))

    def _replan(self, failed: Mapping[str, list[int]]) -> None:
        self.zone.call(lambda zone: zone.replan_lost_sites([*zone.state.jobs], failed))

    def _finish_jobs(self) -> None:
        """Write the losses of jobs that are trained, whose adapters are there, and end them."""
        for job in self._open_jobs():
            if job.phase is Phase.TRAINED:
                write_losses(self._folder.result(job.id), self.zone.by_job[job.id])
                self.zone.call(partial(InstanceZone.finish, job=job.id, files=[]))

    def _total_rows(self, name: str) -> int:
        """Return the rows of a job over all epochs, as its sites have read them."""
        rows = sum(site.num_rows for site in self._folder.read_rows(name).values())
        return rows * self._requests[name].job.epochs

    def _on_progress(self, rows: Mapping[str, int]) -> None:
        shares = {}
        for name, done in rows.items():
            one = self._requests[name]
            share = one.part.chunks / one.job.num_chunks
            shares[name] = min(1.0, done / (self._total_rows(name) * share))
        self._shown.progress(shares)
