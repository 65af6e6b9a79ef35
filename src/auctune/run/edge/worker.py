"""Process of the sites of a zone: connects to their nodes, then trains slots until it is stopped.

Its messages are those of `auctune.run.edge.messages`.
"""

import queue
from pathlib import Path
from typing import Any

from auctune.domain import AuctuneError
from auctune.run.edge.edge_folder import OUTCOME, EdgeFolder
from auctune.run.edge.messages import SitesSettings, read_requests
from auctune.run.edge.nodes import SiteNodes, check_device, connect
from auctune.run.edge.site_trainer import SiteTrainer, SlotTrained, TrainerCallbacks
from auctune.run.edge.slot_runner import SlotLost
from auctune.run.runtime.channel import Message, ParentChannel, error_record
from auctune.run.unix_time import unix_time

# Interval of checks whether all nodes are alive while nothing is trained.
_IDLE_SECONDS = 0.5


class SitesWorker:
    """Trains at sites for a zone.

    Args:
        settings: of the process.
        parent: channel to the zone.
    """

    def __init__(self, settings: SitesSettings, parent: ParentChannel) -> None:
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
        settings = self._settings
        if not settings.ray:
            # Workers on a cluster check the device of their own machine.
            check_device(settings.device, "--device")
        sites = settings.to_sites()
        with connect(sites, settings.ray, "ray.address", self._folder) as nodes:
            callbacks = TrainerCallbacks(
                lambda site: self._send("lost", site=site),
                lambda site: self._send("back", site=site),
            )
            trainer = SiteTrainer(
                self._folder,
                settings.sites,
                settings.device,
                callbacks,
                own_gpus=bool(settings.ray),
            )
            self._send("ready", lost=sorted(trainer.lost))
            self._train(trainer, nodes)
            trainer.close()

    def _train(self, trainer: SiteTrainer, nodes: SiteNodes) -> None:
        while not self._parent.stop_requested.is_set():
            try:
                message = self._next or self._parent.inbox.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                nodes.restart_missing()
                trainer.check_sites()
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
            if isinstance(found, SlotTrained):
                outcome = OUTCOME.dump_python(found.outcome, mode="python")
                self._send("trained", job=found.job, slot=slot, outcome=outcome)
            elif isinstance(found, SlotLost):
                memory = found.out_of_memory
                self._send("torn", job=found.job, slot=slot, why=found.why, out_of_memory=memory)
            else:
                self._send("broken", job=found.job, why=found.why)
        self._send("slot_done", slot=slot)

    def _prefetch(self, trainer: SiteTrainer) -> None:
        """Start the actors of the next slot while one is trained."""
        while self._next is None:
            try:
                message = self._parent.inbox.get_nowait()
            except queue.Empty:
                return
            if message["do"] == "prefetch":
                trainer.prestart(read_requests(message["requests"]), beside=True)
            else:
                self._next = message

    def _send(self, kind: str, **values: object) -> None:
        # A slot that was stopped halfway is not lost: it may be trained again in its time.
        if not (self._parent.stop_requested.is_set() and kind in ("torn", "slot_done")):
            self._parent.send(kind, **values)


def main(parent: ParentChannel, argument: dict[str, Any]) -> None:
    """Run the worker; the argument is its `SitesSettings`."""
    try:
        SitesWorker(SitesSettings(**argument), parent).run()
    except AuctuneError as error:
        parent.send("failed", **error_record(error))
        parent.exit(1)
