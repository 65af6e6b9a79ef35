"""`auctune run`: a market file to its end, by the auction zone of the service.

The clock is logical. Slot by slot:
 1. decide on the bids that arrive in it, in file order;
 2. let the vendors that were chosen repair data;
 3. let every node train what the plan puts on it, up to the plan's cumulative quota;
 4. export what is finished, and release the cells that it did not need.
A slot lasts as long as its quotas take. Each step is in the zone's log before it counts, and is
repeated from the checkpoints if the log does not have it: a run that was killed resumes with the
same decisions and payments.
"""

import queue
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from auctune.domain import Cluster, InputError
from auctune.engine.base_place import base_cache
from auctune.engine.console import RunConsole
from auctune.engine.market.demand import Bid
from auctune.engine.market.market_file import read_market
from auctune.engine.market.report_data import MarketReport
from auctune.engine.messages.node import NodeMessage, Progress
from auctune.engine.runtime.local import start_fork_server
from auctune.engine.runtime.supervisor import Executor, SupervisorPolicy
from auctune.engine.unix_time import SlotClock
from auctune.engine.vendors import RepairReport
from auctune.files.device_profile import Profile
from auctune.service.config.zone import AUCTION
from auctune.service.jobs.training import Training
from auctune.service.storage.event_log import VERSION as LOG_VERSION
from auctune.service.storage.event_log import EventType, ZoneEvent
from auctune.service.zones.auction.kind import executor_factory
from auctune.service.zones.auction.state import (
    AuctionEventType,
    AuctionJob,
    AuctionModel,
    AuctionState,
)
from auctune.service.zones.auction.zone import Bid as ZoneBid
from auctune.service.zones.auction.zone import Supply
from auctune.service.zones.core.events import JobNoted, adapter
from auctune.service.zones.core.zone import EventWriter
from auctune.standalone.folder import RunFolder
from auctune.standalone.market_zone import ZONE, MarketScheduler, MarketZone
from auctune.standalone.preparation import (
    Prepared,
    auction_settings,
    file_fields,
    input_files,
    node_settings,
    prepare,
)
from auctune.standalone.results import (
    decision_of,
    report_task,
    write_decisions,
    write_outcome,
    write_task,
)
from auctune.standalone.zone import OWNER, ZoneRun, open_zone, read_created

# A worker saves all of its tasks before it exits, however large they are.
_POLICY = SupervisorPolicy(stop_seconds=30.0)


def run_market(path: Path, out: Path, console: Console, *, fresh: bool = False) -> MarketReport:
    """Run a market file from its first slot.

    Args:
        path: the file.
        out: folder for what comes out; new, empty, or (with `fresh`) of an earlier run.
        console: shows what happens.
        fresh: delete an earlier run in `out`.

    Raises:
        InputError: if anything in the market or about the folder is wrong; nothing is written.
        NodeError: if training cannot go on; the run can be resumed.
    """
    folder, place = RunFolder(out), str(path)
    with folder.locked_new(fresh=fresh) as lock:
        market = read_market(path)
        base, files = input_files(market, path)
        start_fork_server()
        with RunConsole(console) as shown:
            with folder.staged(files, file_fields(market, place)) as staged:
                # Only the copies count: a resumed run reads what this one reads.
                if read_market(staged.resolve(""), place) != market:
                    raise InputError(place, "was changed while it was read", "a file that stays")
                prepared = prepare(
                    market, place, base, staged.resolve, base_cache(), {}, shown.preparing
                )
                created = _created_record(prepared, staged)
                with _open_zone(prepared, created, staged) as zone:
                    zone.call(lambda zone: zone.record_created(created))
            shown.prepared()
            return _run(prepared, created, folder, lock, shown)


def resume_market(out: Path, console: Console) -> MarketReport:
    """Go on with an earlier run; one that has ended only writes its report again.

    Raises:
        InputError: if there is no run in `out`, or its state is damaged.
        NodeError: as `run_market`.
    """
    folder = RunFolder(out)
    earlier = folder.earlier_report(MarketReport.from_json)
    if earlier is not None:
        return earlier
    start_fork_server()
    with folder.locked() as lock, RunConsole(console) as shown:
        created = read_created(folder, ZONE)
        folder.check_inputs(created)
        folder.clean_temp_files()
        place = f"{out}: market"
        profiles = {
            name: Profile.from_json(text, f"profile of {name}")
            for name, text in created["profiles"].items()
        }
        prepared = prepare(
            read_market(folder.resolve(""), place),
            place,
            created["base_source"],
            folder.resolve,
            base_cache(),
            profiles,
            shown.preparing,
        )
        if prepared.base_digest != created["base_digest"]:
            name = created["base_source"]
            raise InputError(
                f"base {name!r}", "has changed since the run began", "the same weights"
            )
        if prepared.settings != created["settings"]:
            found = f"{prepared.settings}, where the run began with {created['settings']}"
            raise InputError("auction", found, "the release with which the run was started")
        shown.prepared()
        return _run(prepared, created, folder, lock, shown)


def _created_record(prepared: Prepared, staged: RunFolder) -> dict[str, Any]:
    """Return the body of the first event of a market's zone: all that the run follows from."""
    mechanism, _ = auction_settings(prepared.market)
    return {
        "version": LOG_VERSION,
        "kind": AUCTION,
        "base": prepared.market.base,
        "base_source": prepared.base,
        "base_digest": prepared.base_digest,
        "cluster": adapter(Cluster).dump_python(prepared.cluster, mode="json"),
        "profiles": {name: profile.to_json() for name, profile in prepared.profiles.items()},
        "mechanism": mechanism,
        "settings": prepared.settings,
        "rolls": False,
        "sample_tokens": prepared.market.sample_tokens,
        "epoch": time.time(),
        "slot_seconds": prepared.market.slot_seconds,
        "inputs": staged.input_digests(),
    }


def _open_zone(
    prepared: Prepared, created: Mapping[str, Any], folder: RunFolder
) -> AbstractContextManager[ZoneRun[MarketZone]]:
    """Open the zone of a market, as its log in a folder has it."""
    market = prepared.market
    supply = Supply(market.base, prepared.cluster, prepared.profiles, market.sample_tokens)
    tasks = {bid.task.id: bid.task for bid in prepared.bids}

    def empty() -> AuctionModel:
        return AuctionModel(AuctionState(cluster=prepared.cluster), prepared.mechanism)

    def make(model: AuctionModel, clock: SlotClock, writer: EventWriter) -> MarketZone:
        return MarketZone(tasks, supply, model, clock, writer)

    return open_zone(ZONE, created, folder.state, empty, make)


def _run(
    prepared: Prepared,
    created: Mapping[str, Any],
    folder: RunFolder,
    lock: int,
    shown: RunConsole,
) -> MarketReport:
    for text in prepared.notes:
        shown.noted(text)
    with _open_zone(prepared, created, folder) as zone:
        return MarketRun(prepared, folder, zone, shown).run(lock)


class MarketRun:
    """One run, new or resumed.

    Args:
        prepared: the market.
        folder: of the run.
        zone: of the run.
        console: shows the run.
    """

    def __init__(
        self, prepared: Prepared, folder: RunFolder, zone: ZoneRun[MarketZone], console: RunConsole
    ) -> None:
        self._prepared, self._folder, self._zone = prepared, folder, zone
        self._console = console
        self._bids = {bid.task.id: bid for bid in prepared.bids}
        self._inbox: queue.SimpleQueue[tuple[str, NodeMessage]] = queue.SimpleQueue()
        self._slow: set[str] = set()
        zone.on_event = self._show

    def run(self, lock: int) -> MarketReport:
        """Run what is left of the market, and write its outcome.

        Args:
            lock: descriptor of the folder's lock, which workers inherit.

        Raises:
            NodeError: if a node's worker exits again and again.
            InputError: if a task cannot be trained as it stands.
        """
        zone = self._zone
        first, has_open_jobs = zone.call(lambda zone: (zone.event_slot, bool(zone.admitted_jobs)))
        if has_open_jobs or len(zone.by_job) < len(self._bids):
            # Workers take seconds to load the base, while bids are decided.
            with closing(self._make_executor(lock)) as executor:
                scheduler = MarketScheduler(self._folder, executor)
                for slot in range(first, self._prepared.cluster.slots):
                    self._run_slot(slot, scheduler)
        market = zone.call(lambda zone: zone.mechanism.state())
        notes = [
            event.body["text"] for event in zone.about_none if event.type == EventType.NOTE_ADDED
        ]
        return write_outcome(self._folder, self._prepared, market, zone.by_job, notes)

    def _make_executor(self, lock: int) -> Executor:
        market, folder = self._prepared.market, self._folder
        settings = {
            node.id: node_settings(
                market,
                node.type,
                self._prepared.base,
                base_cache(),
                self._prepared.profiles[node.type],
            )
            for node in market.nodes
        }
        factory = executor_factory(market)
        make = factory.executor(settings, folder.work, folder.worker_logs, lock, _POLICY)
        return make(lambda node, message: self._inbox.put((node, message)))

    def _run_slot(self, slot: int, scheduler: MarketScheduler) -> None:
        zone = self._zone
        arriving = [
            bid
            for bid in self._prepared.bids
            if bid.task.arrival == slot and bid.task.id not in zone.by_job
        ]
        if not arriving and not zone.call(lambda zone: zone.state.cells_of(slot)):
            return
        zone.clock.slot = slot
        for bid in arriving:
            zone.call(partial(MarketZone.decide, bid=self._zone_bid(bid)))
        if arriving:
            write_decisions(self._folder, zone.by_job)
        for job in zone.call(lambda zone: [*zone.admitted_jobs.values()]):
            if job.needs_repair:
                self._repair(job)
        for job in zone.call(scheduler.begin_slot):
            progress = job.progress
            self._console.training(
                slot, job.id, progress.rows, progress.total_rows, progress.last_loss
            )
        while waiting := scheduler.waiting:
            node, message = self._inbox.get()
            if not isinstance(message, Progress):
                zone.call(partial(scheduler.on_message, node=node, message=message))
            elif node in waiting and not message.stale:
                self._console.training(
                    slot, message.task, message.rows, message.total_rows, message.loss
                )
        self._end_jobs()

    def _zone_bid(self, bid: Bid) -> ZoneBid:
        task, entry, job = bid.task, bid.request.entry, bid.job
        deadline = self._zone.clock.slots.slot_end(task.deadline)
        training = Training(
            **job.hyperparameters(),
            data=entry.data,
            validation=entry.validation,
            truncate=entry.truncate,
            share=entry.share,
            repair=entry.repair,
            start_from=entry.start_from,
            start_digest=job.start_digest,
        )
        return ZoneBid(
            job=task.id,
            owner=OWNER,
            training=training,
            request={"bid": str(task.bid), "deadline": deadline},
            size=bid.request.size,
            bid=task.bid,
            deadline=deadline,
        )

    def _repair(self, job: AuctionJob) -> None:
        """Have the chosen vendor repair a job's data."""
        repair, bid, target = job.repair, self._bids[job.id], self._folder.repaired(job.id)
        assert repair is not None
        target.parent.mkdir(parents=True, exist_ok=True)
        source = self._folder.resolve(job.training.data)
        report = self._prepared.vendors[repair.vendor].repair(source, target)
        length = job.training.max_length
        size = self._prepared.appraiser.size(target, f"repaired data of {job.id}", length)
        notes = [*size.notes(length)]
        whole = replace(size, validation=job.size.validation)

        def complete(zone: MarketZone) -> None:
            if zone.supply.work(job.training, whole) > bid.task.work:
                notes.append("repaired, it is more work than was sold; its last slot grows")
            zone.complete_repair(job.id, repair, target.name, size, report.to_json())
            for text in notes:
                zone.record(JobNoted(text=f"{job.id}: {text}"))

        self._zone.call(complete)

    def _end_jobs(self) -> None:
        """End the jobs whose training is over, and write their results."""
        ended: dict[str, str | None] = {}
        for name in self._zone.call(lambda zone: [*zone.admitted_jobs]):
            result = self._last_result(name)
            if result is not None and result["state"] != "training":
                ended[name] = None if result["state"] == "done" else str(result["note"])
        if ended:
            self._zone.call(lambda zone: zone.end_jobs(ended))
        for name in ended:
            write_task(self._folder, report_task(self._bids[name].task, self._zone.by_job[name]))

    def _last_result(self, name: str) -> Mapping[str, Any] | None:
        """Return the result of the newest slot in which a job was trained."""
        events = reversed(self._zone.by_job[name])
        return next((one.body["result"] for one in events if one.type == EventType.TRAINED), None)

    def _show(self, event: ZoneEvent) -> None:
        """Show a new event on the console."""
        slot, body, name = event.slot, event.body, event.job
        if name is None:
            if event.type == EventType.NOTE_ADDED:
                self._console.noted(body["text"])
            return
        bid, events = self._bids[name], self._zone.by_job[name]
        match event.type:
            case EventType.DECIDED:
                self._console.decided(slot, bid, decision_of(events))
            case AuctionEventType.REPAIRED:
                report = RepairReport.from_json(body["report"])
                self._console.repaired(bid, report.vendor, report.rows_in, report.rows_out)
            case EventType.NOTE_ADDED:
                self._console.noted(f"{name}: {body['text']}")
            case EventType.TRAINED:
                result = body["result"]
                loss = result["losses"][-1][3] if result["losses"] else None
                self._console.training(slot, name, result["rows"], result["total_rows"], loss)
                self._note_slow(slot, body["node"], body["seconds"])
            case EventType.FINISHED | EventType.FAILED:
                self._console.finished(slot, report_task(bid.task, events))

    def _note_slow(self, slot: int, node: str, seconds: float) -> None:
        """Show once for each node that a slot was too long; the report counts all such slots."""
        limit = self._prepared.cluster.slot_seconds
        if seconds > limit and node not in self._slow:
            self._slow.add(node)
            self._console.noted(
                f"slot {slot} took {seconds:.1f} s on {node}, sold as {limit:g} s; work goes on "
                "as planned, in longer slots"
            )
