"""Background worker of an edge zone: its scheduler, and the process that trains at its sites.

A slot is dispatched once the one before has been answered; that may run into it, but never beyond a
job's deadline. What a slot did not train is replanned at the market's cost while there is room
before the deadline.
"""

import asyncio
import math
from collections.abc import Callable
from pathlib import Path

import structlog

from auctune.edge import SlotPlan
from auctune.engine.edge.edge_folder import EdgeFolder, SlotOutcome
from auctune.engine.edge.inputs import EdgeTraining
from auctune.engine.edge.records import SlotRequest
from auctune.engine.edge.worker import SitesProcess, SitesSettings
from auctune.engine.messages.base import Alive, Failed
from auctune.engine.messages.sites import (
    SiteLost,
    SiteRecovered,
    SitesReady,
    SitesReply,
    SlotDone,
    SlotEnd,
    SlotEnded,
    SlotLost,
    SlotTrained,
)
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.unix_time import SlotClock
from auctune.service.zones.core.actor import ZoneActor
from auctune.service.zones.core.job import SLOWER, Phase, SlotResult
from auctune.service.zones.core.worker import ProcessSupervisor, ZoneDependencies, ZoneWorker
from auctune.service.zones.core.zone import lose_to_memory
from auctune.service.zones.edge.state import EdgeJobState, EdgeTrained
from auctune.service.zones.edge.zone import EdgeZone

_log = structlog.get_logger(__name__)


_LESS_MEMORY = "reduce max_length or batch_size, or the number of rows at each site"

# Sentinel: no jobs are left, the process may release its workers.
_RELEASE_ALL = ["release all"]

LoadOutcome = Callable[[str, int, int], SlotOutcome | None]


class SlotScheduler:
    """Dispatches the slots of one zone to its sites, and records their results.

    Args:
        content: returns the path of a file, by its id.
        load_outcome: loads the outcome of a job's slot that began after so many steps, or None.
    """

    def __init__(self, content: Callable[[str], Path], load_outcome: LoadOutcome) -> None:
        self._content, self._load_outcome = content, load_outcome
        self._sites: SitesProcess | None = None
        # Jobs of the dispatched slot that have not been answered.
        self._busy: set[str] = set()
        self._is_out = False
        self._slot = -1
        self._expected = _RELEASE_ALL
        # When jobs that wait for a site were last replanned: the slot, and the lost sites.
        self._last_replanned: tuple[int, frozenset[str]] = (-1, frozenset())

    def is_running(self, job: str) -> bool:
        """Return whether the sites may be training a job, even one that has ended."""
        return job in self._busy

    def on_process_exit(self) -> None:
        """Forget the dispatched slot: it is dispatched again to the next process, or has passed."""
        self._sites, self._is_out, self._slot, self._expected = None, False, -1, _RELEASE_ALL
        self._busy.clear()

    def mark_all_lost(self, zone: EdgeZone) -> None:
        """Take all sites off the market, unless their process runs: it reports which are back."""
        if self._sites is None:
            zone.begin_slots()
            for site in zone.supply.market.site_ids:
                zone.lose_site(site, self._busy)

    def run_slot(self, zone: EdgeZone) -> None:
        """Begin the current slot, and dispatch it unless that was done."""
        zone.begin_slots()
        self._recover_results(zone)
        zone.replan_missed(self._busy)
        now = (zone.state.slot, frozenset(zone.state.lost))
        if now[0] != self._last_replanned[0] and not self._busy and _is_idle(zone):
            zone.speed.record_idle_slot()
        if now != self._last_replanned:
            self._last_replanned = now
            zone.replan_waiting(self._busy)
        if self._sites is None:
            return
        slot = zone.state.slot
        if slot > self._slot and not self._is_out:
            self._slot = slot
            self._dispatch(zone, slot)
        self._prewarm(zone, max(slot, self._slot + 1))

    def on_message(self, zone: EdgeZone, sites: SitesProcess, message: SitesReply) -> None:
        """Handle a message of the process."""
        zone.begin_slots()
        match message:
            case SitesReady(lost=lost):
                self.on_process_exit()
                self._sites = sites
                for site in sorted(zone.state.lost - set(lost)):
                    zone.return_site(site)
                for site in lost:
                    zone.lose_site(site, ())
            case SlotEnded(slot=slot, end=end):
                self._on_slot_end(zone, slot, end)
            case SlotDone():
                self._is_out = False
                self._busy.clear()
            case SiteLost(site=site):
                zone.lose_site(site, self._busy)
            case SiteRecovered(site=site):
                zone.return_site(site)
        self.run_slot(zone)

    def _recover_results(self, zone: EdgeZone) -> None:
        """Record slots whose process ended before it could report them."""
        idle = [job for job in zone.state.jobs.values() if job.id not in self._busy]
        for job in idle:
            for slot in job.missed_slots(zone.state.slot):
                found = self._load_outcome(job.id, slot, job.steps)
                if found is None:
                    break
                self._trained(zone, job.id, slot, found)

    def _dispatch(self, zone: EdgeZone, slot: int) -> None:
        jobs = [job for job in zone.state.jobs.values() if _trains_in(job, slot)]
        if jobs:
            requests = [self._request(zone, job, slot) for job in jobs]
            self._busy, self._is_out, self._expected = {job.id for job in jobs}, True, []
            assert self._sites is not None
            self._sites.train(slot, list(zone.state.jobs), requests)

    def _prewarm(self, zone: EdgeZone, slot: int) -> None:
        """Start the workers of the next slot early, even while the current slot is trained."""
        jobs = [job for job in zone.state.jobs.values() if _trains_in(job, slot)]
        expected = [f"{self._is_out}:{slot}:{job.id}" for job in jobs]
        if not zone.state.jobs and not self._is_out:
            expected = _RELEASE_ALL
        if expected != self._expected:
            self._expected = expected
            requests = [self._request(zone, job, slot) for job in jobs]
            assert self._sites is not None
            if self._is_out:
                self._sites.prefetch(requests)
            else:
                self._sites.expect(list(zone.state.jobs), requests)

    def _request(self, zone: EdgeZone, job: EdgeJobState, slot: int) -> SlotRequest:
        training = zone.supply.training(
            job.id, job.training, job.facts, job.request["sites"], self._content
        )
        # It may run into the next slot, which only delays that, but not beyond its deadline.
        # After lost ones it may run longer: else jobs in turn could each end the processes that
        # another's still start.
        until = zone.clock.slot_end(min(slot + 1 + job.failed_slots, job.deadline_slot))
        return slot_request(job, slot, training, until)

    def _trained(self, zone: EdgeZone, name: str, slot: int, outcome: SlotOutcome) -> None:
        job = zone.state.jobs.get(name)
        part = None if job is None else job.slot_plan(slot)
        if job is None or part is None:
            return
        if outcome.diverged:
            # The training diverged: that is not the market's failure.
            why = f"the loss of slot {slot} is not a number"
            zone.fail(name, "training_diverged", why, None, refund=False)
            return
        zone.record(trained_event(job, part, outcome, job.total_rows), name)
        is_slower = zone.record_slot(job, part, outcome.seconds)
        zone.replan_lost_sites([name])
        if is_slower and name in zone.state.jobs and (slots := zone.unfinishable_slots(job)):
            zone.replan({name: slots}, SLOWER)
        self._replan_slower(zone, name, is_slower=is_slower)

    def _on_slot_end(self, zone: EdgeZone, slot: int, end: SlotEnd) -> None:
        self._busy.discard(end.job)
        if isinstance(end, SlotTrained):
            self._trained(zone, end.job, slot, end.outcome)
        elif isinstance(end, SlotLost):
            self._on_slot_failed(zone, slot, end)
        elif end.job in zone.state.jobs:
            zone.fail(end.job, "training_failed", end.why, None)

    def _on_slot_failed(self, zone: EdgeZone, slot: int, end: SlotLost) -> None:
        name, why, late = end.job, end.why, end.late
        job = zone.state.jobs.get(name)
        part = None if job is None else job.slot_plan(slot)
        if job is not None and part is not None:
            _log.warning("a slot was not trained", zone=zone.name, job=name, slot=slot, why=why)
            text = f"slot {slot} was not trained: {why}"
            if end.out_of_memory and lose_to_memory(zone, name, slot, text, _LESS_MEMORY):
                return
            is_slower = late is not None and zone.record_slot(job, part, late.seconds, late.rows)
            # It may have run into later slots: they have passed too, and are replanned together.
            failed = {slot, *job.missed_slots(zone.state.slot)}
            if is_slower:
                failed.update(zone.unfinishable_slots(job))
            zone.replan({name: sorted(failed)}, text)
            self._replan_slower(zone, name, is_slower=is_slower)

    def _replan_slower(self, zone: EdgeZone, name: str, *, is_slower: bool) -> None:
        """Replan a job, or all that do not train now, if the sites are slower than sold."""
        names = [one for one in zone.state.jobs if one not in self._busy] if is_slower else [name]
        zone.replan_slower([one for one in names if one in zone.state.jobs])


def _is_idle(zone: EdgeZone) -> bool:
    """Return whether no job is planned in the current slot."""
    return not any(job.slot_plan(zone.state.slot) for job in zone.state.jobs.values())


def _trains_in(job: EdgeJobState, slot: int) -> bool:
    """Return whether a job is planned in a slot, and has trained all its earlier slots."""
    if job.phase not in (Phase.PLANNED, Phase.TRAINING):
        return False
    return job.slot_plan(slot) is not None and not job.missed_slots(slot)


def slot_request(
    job: EdgeJobState, slot: int, training: EdgeTraining, until: float = math.inf
) -> SlotRequest:
    """Return the request to train a job's slot; see `SlotRequest`."""
    part = job.slot_plan(slot)
    assert part is not None
    others = {one.slot for one in job.plan.slots} - {slot} - set(job.trained)
    return SlotRequest(
        job=job.job,
        training=training,
        part=part,
        taken=job.plan.chunks_before(slot),
        steps=job.steps,
        number=len(job.trained) + 1,
        is_last=not others and not job.chunks_left,
        until=until,
    )


def trained_event(
    job: EdgeJobState, part: SlotPlan, outcome: SlotOutcome, total_rows: int
) -> EdgeTrained:
    """Return the event of a slot that was trained.

    Args:
        job: before it.
        part: what was planned.
        outcome: what came of it.
        total_rows: of the job, over all epochs.
    """
    rows = job.progress.rows + outcome.samples
    loss, accuracy = outcome.validation_loss, outcome.validation_accuracy
    result = SlotResult(
        rows=rows,
        total_rows=total_rows,
        tokens=outcome.tokens,
        steps=outcome.steps,
        state="failed" if outcome.diverged else "done" if rows >= total_rows else "suspended",
        losses=outcome.losses,
        validation=() if loss is None else ((outcome.steps, rows, loss, accuracy),),
    )
    return EdgeTrained(
        node=part.server,
        slot=part.slot,
        seconds=outcome.seconds,
        result=result,
        outcome=outcome,
    )


# Nodes take some seconds to start, and slots sold before that would pass untrained.
_START_SECONDS = 90.0


class EdgeWorker(ZoneWorker[EdgeZone]):
    """Worker of an edge zone: one supervised process trains at all sites.

    Args:
        actor: actor of the zone.
        clock: slots of the zone.
        settings: settings of the process.
        dependencies: what all zones share.
    """

    def __init__(
        self,
        actor: ZoneActor[EdgeZone],
        clock: SlotClock,
        settings: SitesSettings,
        dependencies: ZoneDependencies,
    ) -> None:
        self._folder = EdgeFolder(Path(settings.folder))
        super().__init__(actor, clock, self._folder.jobs, dependencies)
        self._settings = settings
        self._scheduler = SlotScheduler(self._files.blobs.path, self._folder.read_outcome)
        self._supervisor = ProcessSupervisor(
            self._launch, self._on_message, _is_progress, zone=actor.name
        )
        self._process: SitesProcess | None = None
        self._ready = asyncio.Event()

    async def start(self) -> None:
        """Start the process, and wait until it is ready to train."""
        await super().start()
        try:
            await asyncio.wait_for(self._ready.wait(), _START_SECONDS)
        except TimeoutError:
            _log.warning("the sites are not ready yet", zone=self._actor.name)

    async def _stop_processes(self) -> None:
        await asyncio.to_thread(self._supervisor.stop)

    async def _run_slot(self) -> None:
        await asyncio.to_thread(self._supervisor.poll)
        if self._supervisor.is_crash_looping:
            await self._actor.call(self._scheduler.mark_all_lost)
        await self._actor.call(self._scheduler.run_slot)

    def _is_running(self, job: str) -> bool:
        return self._scheduler.is_running(job)

    def _result_folder(self, job: EdgeJobState) -> Path:
        return self._folder.adapter(job.id)

    def _launch(self, forward: OnMessage) -> SitesProcess:
        def on_message(message: SitesReply | None) -> None:
            if message is None:
                self._actor.submit(lambda _: self._scheduler.on_process_exit())
            forward(message)

        log = self._logs / f"{self._actor.name}.log"
        self._process = SitesProcess(self._settings, on_message, lock=self._lock, log=log)
        return self._process

    def _on_message(self, message: SitesReply) -> None:
        process = self._process
        if isinstance(message, SitesReady):
            self._loop.call_soon_threadsafe(self._ready.set)
        if not isinstance(message, Alive | Failed) and process is not None:
            self._post(lambda zone: self._scheduler.on_message(zone, process, message))


def _is_progress(message: SitesReply) -> bool:
    return isinstance(message, SlotEnded) and isinstance(message.end, SlotTrained)
