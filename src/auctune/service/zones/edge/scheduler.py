"""Dispatches slots to the sites of an edge zone.

A slot is given out once the one before is answered for, which may run into it; never beyond a job's
deadline. What a slot did not train is planned anew, at the market's cost, while there is still room
before the deadline. All of it runs on the actor's thread.
"""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import structlog

from auctune.run.child import Message
from auctune.run.open_sites.folder import SiteOutcome
from auctune.run.open_sites.messages import SiteOrder
from auctune.service.zones.core.events import EventType
from auctune.service.zones.core.job import Phase
from auctune.service.zones.core.zone import lose_to_memory
from auctune.service.zones.edge import replanning
from auctune.service.zones.edge.job import EdgeJobState
from auctune.service.zones.edge.zone import EdgeZone

_log = structlog.get_logger(__name__)


class SiteProcess(Protocol):
    """The process that trains at them."""

    def train(self, slot: int, jobs: Collection[str], orders: Iterable[SiteOrder]) -> None:
        """Have a slot trained."""
        ...

    def expect(self, jobs: Collection[str], orders: Iterable[SiteOrder]) -> None:
        """Say what the next slot will be."""
        ...

    def look_ahead(self, orders: Iterable[SiteOrder]) -> None:
        """Say what is known of the next slot, while one goes on."""
        ...


_LESS_MEMORY = "a smaller batch_size, or fewer samples at each site, need less"

# Sentinel: no jobs are left, the process may release its actors.
_RELEASE_ALL = ["nobody"]

LoadResult = Callable[[str, int, int], SiteOutcome | None]


class SlotScheduler:
    """Between one zone and its sites.

    Args:
        content: where the content of a file lies, by its id.
        kept: what came of a job's slot that began after so many steps, if that is on disk.
    """

    def __init__(self, content: Callable[[str], Path], kept: LoadResult) -> None:
        self._content, self._kept = content, kept
        self._sites: SiteProcess | None = None
        # Jobs of the slot that is given out and not answered for.
        self._busy: set[str] = set()
        self._is_out = False
        self._slot = -1
        self._expected = _RELEASE_ALL
        # When jobs that wait for a site were looked at: the slot, and the sites lost then.
        self._looked: tuple[int, frozenset[str]] = (-1, frozenset())

    def is_running(self, job: str) -> bool:
        """Whether the sites may be at a job, which may be over by now."""
        return job in self._busy

    def on_process_exit(self) -> None:
        """The process has ended: what it was at is given out again, or has passed."""
        self._sites, self._is_out, self._slot, self._expected = None, False, -1, _RELEASE_ALL
        self._busy.clear()

    def mark_all_lost(self, zone: EdgeZone) -> None:
        """Take all sites off the market, unless their process is there: it says which are back."""
        if self._sites is None:
            zone.begin_slots()
            for site in zone.supply.market.site_ids:
                replanning.lose_site(zone, site, self._busy)

    def run_slot(self, zone: EdgeZone) -> None:
        """Begin the current slot, if it has not begun, and have it trained."""
        zone.begin_slots()
        self._recover_results(zone)
        replanning.replan_missed(zone, self._busy)
        now = (zone.state.slot, frozenset(zone.state.lost))
        if now != self._looked:
            self._looked = now
            replanning.replan_waiting(zone, self._busy)
        if self._sites is None:
            return
        slot = zone.state.slot
        if slot > self._slot and not self._is_out:
            self._slot = slot
            self._dispatch(zone, slot)
        self._prewarm(zone, max(slot, self._slot + 1))

    def on_message(self, zone: EdgeZone, sites: SiteProcess, message: Message) -> None:
        """Take over what the process says."""
        zone.begin_slots()
        match message["kind"]:
            case "ready":
                self.on_process_exit()
                self._sites = sites
                for site in sorted(zone.state.lost - set(message["lost"])):
                    replanning.return_site(zone, site)
                for site in message["lost"]:
                    replanning.lose_site(zone, site, ())
            case "trained":
                self._trained(zone, message["job"], message["slot"], message["outcome"])
            case "torn":
                self._on_slot_failed(zone, message)
            case "broken":
                self._busy.discard(message["job"])
                if message["job"] in zone.state.jobs:
                    zone.fail(message["job"], "training_failed", message["why"], None)
            case "slot_done":
                self._is_out = False
                self._busy.clear()
            case "lost":
                replanning.lose_site(zone, message["site"], self._busy)
            case "back":
                replanning.return_site(zone, message["site"])
        self.run_slot(zone)

    def _recover_results(self, zone: EdgeZone) -> None:
        """Note slots that were trained by a process that could not tell of them any more."""
        idle = [job for job in zone.state.jobs.values() if job.id not in self._busy]
        for job in idle:
            for slot in job.missed_slots(zone.state.slot):
                found = self._kept(job.id, slot, job.steps)
                if found is None:
                    break
                self._trained(zone, job.id, slot, asdict(found))

    def _dispatch(self, zone: EdgeZone, slot: int) -> None:
        jobs = [job for job in zone.state.jobs.values() if _trains_in(job, slot)]
        if jobs:
            self._busy, self._is_out, self._expected = {job.id for job in jobs}, True, []
            orders = [self._request(zone, job, slot) for job in jobs]
            assert self._sites is not None
            self._sites.train(slot, list(zone.state.jobs), orders)

    def _prewarm(self, zone: EdgeZone, slot: int) -> None:
        """Let actors start before their slot does, also while another goes on."""
        jobs = [job for job in zone.state.jobs.values() if _trains_in(job, slot)]
        expected = [f"{self._is_out}:{slot}:{job.id}" for job in jobs]
        if not zone.state.jobs and not self._is_out:
            expected = _RELEASE_ALL
        if expected != self._expected:
            self._expected = expected
            orders = [self._request(zone, job, slot) for job in jobs]
            assert self._sites is not None
            if self._is_out:
                self._sites.look_ahead(orders)
            else:
                self._sites.expect(list(zone.state.jobs), orders)

    def _request(self, zone: EdgeZone, job: EdgeJobState, slot: int) -> SiteOrder:
        part = job.slot_plan(slot)
        assert part is not None
        terms = zone.supply.terms(job.training, job.facts, job.request["sites"], self._content)
        others = {one.slot for one in job.plan.slots} - {slot} - set(job.trained)
        return SiteOrder(
            job=job.job,
            terms=terms,
            part=part,
            taken=job.consumed_chunks(slot),
            steps=job.steps,
            is_last=not others and not job.chunks_left,
            # What runs into the next slot holds that up, and no promise of its own; a deadline is.
            until=zone.clock.slot_end(min(slot + 1, job.deadline_slot)),
        )

    def _trained(self, zone: EdgeZone, name: str, slot: int, outcome: dict[str, Any]) -> None:
        self._busy.discard(name)
        job = zone.state.jobs.get(name)
        part = None if job is None else job.slot_plan(slot)
        if job is None or part is None:
            return
        loss = outcome["loss"]
        if not (math.isfinite(loss) and math.isfinite(outcome["first_loss"])):
            # Settings that let the weights go astray are not the market's failure.
            why = f"the loss of slot {slot} is {loss}"
            zone.fail(name, "training_failed", why, None, refund=False)
            return
        body = {
            "node": part.server,
            "slot": slot,
            "seconds": outcome["seconds"],
            "result": _result(job, outcome),
            "outcome": outcome,
        }
        zone.record(EventType.TRAINED, name, body)
        replanning.replan_lost_sites(zone, [name])

    def _on_slot_failed(self, zone: EdgeZone, message: Message) -> None:
        name, slot, why = message["job"], message["slot"], message["why"]
        self._busy.discard(name)
        job = zone.state.jobs.get(name)
        if job is not None and job.slot_plan(slot) is not None:
            _log.warning("a slot was not trained", zone=zone.name, job=name, slot=slot, why=why)
            text = f"slot {slot} was not trained: {why}"
            if message.get("out_of_memory") and lose_to_memory(
                zone, name, slot, text, _LESS_MEMORY
            ):
                return
            # What it ran into has passed with it: one plan is for all of it.
            torn = sorted({slot, *job.missed_slots(zone.state.slot)})
            replanning.replan(zone, {name: torn}, text)


def _trains_in(job: EdgeJobState, slot: int) -> bool:
    """Whether a job is to train in a slot, and has trained all before."""
    if job.phase not in (Phase.PLANNED, Phase.TRAINING):
        return False
    return job.slot_plan(slot) is not None and not job.missed_slots(slot)


def _result(job: EdgeJobState, outcome: dict[str, Any]) -> dict[str, Any]:
    """What a slot came to, as training of all kinds is told of."""
    before, samples = job.progress.rows, outcome["samples"]
    rows, steps, loss = before + samples, outcome["steps"], outcome["test_loss"]
    losses = [[steps, before, rows, outcome["loss"]]]
    if not job.steps and steps > 1:
        # A job's progress says how far the loss fell since its first step.
        losses.insert(0, [1, 0, min(samples, job.training.batch_size), outcome["first_loss"]])
    return {
        "rows": rows,
        "total_rows": job.total_rows,
        "tokens": 0,
        "steps": steps,
        "losses": losses,
        "validation": [] if loss is None else [[steps, rows, loss]],
        "state": "done" if rows >= job.total_rows else "suspended",
        "note": "",
    }
