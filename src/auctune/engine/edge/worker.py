"""Process of the sites of a zone: opens them, then trains slots until it is stopped.

Its messages are those of `auctune.engine.messages.sites`.
"""

import queue
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from auctune.domain import AuctuneError
from auctune.edge.market import Site
from auctune.engine.edge.edge_folder import EdgeFolder
from auctune.engine.edge.records import SlotRequest
from auctune.engine.edge.site_trainer import SiteTrainer
from auctune.engine.edge.sites import Sites, check_device, open_sites
from auctune.engine.messages.base import ErrorRecord, Failed, Stop
from auctune.engine.messages.sites import (
    SITES_MESSAGES,
    PrefetchSlot,
    PrepareSlot,
    SiteLost,
    SiteRecovered,
    SitesReady,
    SitesReply,
    SitesRequest,
    SlotDone,
    SlotEnded,
    SlotLost,
    TrainSlot,
)
from auctune.engine.runtime.channel import OnMessage, ParentChannel
from auctune.engine.runtime.local import WorkerProcess
from auctune.engine.unix_time import unix_time

MESSAGES = SITES_MESSAGES
Parent = ParentChannel[SitesReply, SitesRequest]

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
            SITES_MESSAGES,
            lock=lock,
            log=log,
            fork=True,
            niceness=settings.niceness,
        )

    def train(self, slot: int, jobs: Collection[str], requests: Iterable[SlotRequest]) -> None:
        """Train a slot; `jobs` are those that have not ended."""
        self.send(TrainSlot(slot=slot, open=tuple(jobs), requests=tuple(requests)))

    def expect(self, jobs: Collection[str], requests: Iterable[SlotRequest]) -> None:
        """Prepare the next slot, and release the jobs that have ended."""
        self.send(PrepareSlot(open=tuple(jobs), requests=tuple(requests)))

    def prefetch(self, requests: Iterable[SlotRequest]) -> None:
        """Prepare the next slot while one is trained."""
        self.send(PrefetchSlot(requests=tuple(requests)))


class SitesWorker:
    """Trains at sites for a zone.

    Args:
        settings: of the process.
        parent: channel to the zone.
    """

    def __init__(self, settings: SitesSettings, parent: Parent) -> None:
        self._settings, self._parent = settings, parent
        self._folder = EdgeFolder(Path(settings.folder))
        self._folder.jobs.mkdir(parents=True, exist_ok=True)
        # Received while a slot was trained, to be handled after it.
        self._next: SitesRequest | None = None

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
                on_site_lost=lambda site: parent.send(SiteLost(site=site)),
                on_site_recovered=lambda site: parent.send(SiteRecovered(site=site)),
            )
            parent.send(SitesReady(lost=sorted(trainer.lost)))
            self._train(trainer, opened)
            trainer.close()

    def _train(self, trainer: SiteTrainer, sites: Sites) -> None:
        while not self._parent.stop_requested.is_set():
            try:
                request = self._next or self._parent.inbox.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                trainer.check_sites()
                sites.restart_missing()
                continue
            self._next = None
            if not isinstance(request, Stop):
                trainer.check_sites()
                self._handle(trainer, request)

    def _handle(
        self, trainer: SiteTrainer, request: TrainSlot | PrepareSlot | PrefetchSlot
    ) -> None:
        match request:
            case PrefetchSlot():
                trainer.prestart(request.requests, beside=True)
            case PrepareSlot():
                trainer.retain_only(request.open)
                trainer.prestart(request.requests)
            case TrainSlot():
                trainer.retain_only(request.open)
                self._train_slot(trainer, request.slot, request.requests)

    def _train_slot(self, trainer: SiteTrainer, slot: int, requests: Sequence[SlotRequest]) -> None:
        until = {one.job.id: one.until for one in requests}
        stop = self._parent.stop_requested

        def is_over(job: str) -> bool:
            return stop.is_set() or unix_time() > until[job]

        for found in trainer.run_slot(slot, requests, is_over, lambda: self._prefetch(trainer)):
            # A slot that was stopped halfway is not lost: it may be trained again in its time.
            if not (stop.is_set() and isinstance(found, SlotLost)):
                self._parent.send(SlotEnded(slot=slot, end=found))
        if not stop.is_set():
            self._parent.send(SlotDone(slot=slot))

    def _prefetch(self, trainer: SiteTrainer) -> None:
        """Start the workers of the next slot while one is trained."""
        while self._next is None:
            try:
                request = self._parent.inbox.get_nowait()
            except queue.Empty:
                return
            if isinstance(request, PrefetchSlot):
                trainer.prestart(request.requests, beside=True)
            else:
                self._next = request


def main(parent: Parent, argument: dict[str, Any]) -> None:
    """Run the worker; the argument is its `SitesSettings`."""
    try:
        SitesWorker(SitesSettings(**argument), parent).run()
    except AuctuneError as error:
        parent.send(Failed(error=ErrorRecord.of(error)))
        parent.exit(1)
