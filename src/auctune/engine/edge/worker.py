"""Process of the sites of a zone: opens them, then trains slots until it is stopped.

It receives slot {slot, open, requests}, next {open, requests}, prefetch {requests} and stop, and
sends `SiteMessage`s.

`requests` are `SlotRequest`s: of a slot that has begun, or of the one that comes next, whose
workers may be started: all of them by `next`, in the room beside a running slot by `prefetch`.
`open` are the jobs that have not ended: the process releases all others. After `slot` it answers
for each job of it, and sends slot_done last; a slot that was trained before is reported again.
"""

import queue
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

from auctune.domain import AuctuneError
from auctune.edge.market import Site
from auctune.engine.edge.edge_folder import EdgeFolder
from auctune.engine.edge.records import SlotRequest, read_requests, requests_record
from auctune.engine.edge.site_trainer import SLOT_END, SiteTrainer, SlotLost
from auctune.engine.edge.sites import Sites, check_device, open_sites
from auctune.engine.runtime.channel import (
    Alive,
    Failed,
    Message,
    OnMessage,
    ParentChannel,
    error_record,
)
from auctune.engine.runtime.local import WorkerProcess
from auctune.engine.unix_time import unix_time


class SitesReady(TypedDict):
    """The sites are connected, but for those that are `lost`."""

    kind: Literal["ready"]
    lost: list[str]


class SlotEnded(TypedDict):
    """A job's slot ended: how, as `SLOT_END` writes it."""

    kind: Literal["slot_end"]
    slot: int
    end: Message


class SlotDone(TypedDict):
    """All jobs of a slot have been answered."""

    kind: Literal["slot_done"]
    slot: int


class SiteLost(TypedDict):
    """A site is lost, or has recovered."""

    kind: Literal["lost", "recovered"]
    site: str


SiteMessage = Alive | Failed | SitesReady | SlotEnded | SlotDone | SiteLost

# Interval of checks whether all sites are alive while nothing is trained.
_IDLE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class SitesSettings:
    """Settings of the process.

    Attributes:
        folder: an `EdgeFolder`.
        sites: units by resource type, by site.
        ray: address of a cluster; empty: all sites are on this machine.
        device: of workers.
        niceness: of the process and the workers, as of `WorkerProcess`.
    """

    folder: str
    sites: Mapping[str, Mapping[str, float]]
    ray: str = ""
    device: str = "cpu"
    niceness: int = 0


class SitesProcess(WorkerProcess):
    """Child process that trains at sites; it ends at once when its parent does.

    Args:
        settings: of the process.
        on_message, lock, log: as of `WorkerProcess`.
    """

    def __init__(
        self,
        settings: SitesSettings,
        on_message: OnMessage,
        *,
        lock: int | None = None,
        log: Path | None = None,
    ) -> None:
        super().__init__(
            __name__,
            asdict(settings),
            on_message,
            lock=lock,
            log=log,
            fork=True,
            niceness=settings.niceness,
        )

    def train(self, slot: int, jobs: Collection[str], requests: Iterable[SlotRequest]) -> None:
        """Train a slot; `jobs` are those that have not ended."""
        plain = requests_record(requests)
        self.send({"do": "slot", "slot": slot, "open": list(jobs), "requests": plain})

    def expect(self, jobs: Collection[str], requests: Iterable[SlotRequest]) -> None:
        """Prepare the next slot, and release the jobs that have ended."""
        self.send({"do": "next", "open": list(jobs), "requests": requests_record(requests)})

    def prefetch(self, requests: Iterable[SlotRequest]) -> None:
        """Prepare the next slot while one is trained."""
        self.send({"do": "prefetch", "requests": requests_record(requests)})


class SitesWorker:
    """Trains at sites for a zone.

    Args:
        settings: of the process.
        parent: channel to the zone.
    """

    def __init__(self, settings: SitesSettings, parent: ParentChannel[SiteMessage]) -> None:
        self._settings, self._parent = settings, parent
        self._folder = EdgeFolder(Path(settings.folder))
        self._folder.jobs.mkdir(parents=True, exist_ok=True)
        # Received while a slot was trained, to be handled after it.
        self._next: Message | None = None

    def run(self) -> None:
        """Run until the process is stopped.

        Raises:
            InputError: if there is no cluster, or no such device on this machine, where it has the
                sites.
        """
        settings, parent = self._settings, self._parent
        if not settings.ray:
            # Workers on a cluster check the device of their own machine.
            check_device(settings.device, "--device")
        sites = [Site(name, capacity) for name, capacity in settings.sites.items()]
        niceness = settings.niceness
        with open_sites(
            sites, settings.ray, "ray.address", self._folder, niceness=niceness
        ) as opened:
            trainer = SiteTrainer(
                self._folder,
                opened,
                settings.device,
                on_site_lost=lambda site: parent.send({"kind": "lost", "site": site}),
                on_site_recovered=lambda site: parent.send({"kind": "recovered", "site": site}),
            )
            parent.send({"kind": "ready", "lost": sorted(trainer.lost)})
            self._train(trainer, opened)
            trainer.close()

    def _train(self, trainer: SiteTrainer, sites: Sites) -> None:
        while not self._parent.stop_requested.is_set():
            try:
                message = self._next or self._parent.inbox.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                trainer.check_sites()
                sites.restart_missing()
                continue
            self._next = None
            if message["do"] in ("slot", "next", "prefetch"):
                trainer.check_sites()
                self._handle(trainer, message)

    def _handle(self, trainer: SiteTrainer, message: Message) -> None:
        requests = read_requests(message["requests"])
        if message["do"] == "prefetch":
            trainer.prestart(requests, beside=True)
            return
        trainer.retain_only(message["open"])
        if message["do"] == "next":
            trainer.prestart(requests)
            return
        until = {one.job.id: one.until for one in requests}
        slot, stop = message["slot"], self._parent.stop_requested

        def is_over(job: str) -> bool:
            return stop.is_set() or unix_time() > until[job]

        for found in trainer.run_slot(slot, requests, is_over, lambda: self._prefetch(trainer)):
            # A slot that was stopped halfway is not lost: it may be trained again in its time.
            if not (stop.is_set() and isinstance(found, SlotLost)):
                end = SLOT_END.dump_python(found)
                self._parent.send({"kind": "slot_end", "slot": slot, "end": end})
        if not stop.is_set():
            self._parent.send({"kind": "slot_done", "slot": slot})

    def _prefetch(self, trainer: SiteTrainer) -> None:
        """Start the workers of the next slot while one is trained."""
        while self._next is None:
            try:
                message = self._parent.inbox.get_nowait()
            except queue.Empty:
                return
            if message["do"] == "prefetch":
                trainer.prestart(read_requests(message["requests"]), beside=True)
            else:
                self._next = message


def main(parent: ParentChannel[SiteMessage], argument: dict[str, Any]) -> None:
    """Run the worker; the argument is its `SitesSettings`."""
    try:
        SitesWorker(SitesSettings(**argument), parent).run()
    except AuctuneError as error:
        parent.send({"kind": "failed", **error_record(error)})
        parent.exit(1)
