"""The process of open sites: connects to their nodes, then trains slots until it is told to stop.

It speaks the protocol of `auctune.run.open_sites.messages`.
"""

import queue
from pathlib import Path
from typing import Any

from auctune.domain import AuctuneError
from auctune.run.open_sites.floor import Floor
from auctune.run.open_sites.folder import OpenSitesFolder
from auctune.run.open_sites.messages import SiteOrder, SitesSettings
from auctune.run.open_sites.nodes import Nodes, connected
from auctune.run.runtime.channel import Message, ParentChannel, error_record
from auctune.run.unix_time import unix_time
from auctune.train.edge.gradients import check_device

# So often is looked whether all nodes are there, while nothing is trained.
_IDLE_SECONDS = 0.5


class SitesWorker:
    """Open sites at work for their owner.

    Args:
        settings: what they are.
        parent: the owner.
    """

    def __init__(self, settings: SitesSettings, parent: ParentChannel) -> None:
        self._settings, self._parent = settings, parent
        self._place = OpenSitesFolder.at(Path(settings.folder))
        self._place.jobs.mkdir(parents=True, exist_ok=True)
        # Heard while a slot went on, to be followed after it.
        self._next: Message | None = None

    def run(self) -> None:
        """Until it is told to stop.

        Raises:
            InputError: if there is no cluster, or no such device on this machine, where it has the
                sites.
        """
        settings = self._settings
        if not settings.ray:
            # Workers on a cluster check the device of their own machine.
            check_device(settings.device)
        with connected(settings.to_sites(), settings.ray, self._place.run) as nodes:
            floor = Floor(
                self._place, settings.sites, settings.device, self._say, own_gpus=bool(settings.ray)
            )
            self._parent.send("ready", lost=sorted(floor.lost))
            self._train(floor, nodes)
            floor.close()

    def _train(self, floor: Floor, nodes: Nodes) -> None:
        while not self._parent.stop_requested.is_set():
            try:
                message = self._next or self._parent.inbox.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                nodes.mend()
                floor.look()
                continue
            self._next = None
            if message["do"] in ("slot", "coming", "ahead"):
                self._follow(floor, message)

    def _follow(self, floor: Floor, message: Message) -> None:
        floor.look()
        orders = [SiteOrder.from_record(record) for record in message["orders"]]
        if message["do"] == "ahead":
            floor.expect(orders)
            return
        floor.forget_but(message["open"])
        if message["do"] == "coming":
            floor.prepare(orders)
            return
        until = {order.job.id: order.until for order in orders}
        slot, stop = message["slot"], self._parent.stop_requested
        floor.run_slot(
            slot,
            orders,
            lambda job: stop.is_set() or unix_time() > until[job],
            lambda: self._look_ahead(floor),
        )
        self._say("slot_done", slot=slot)

    def _look_ahead(self, floor: Floor) -> None:
        """Have actors start for the next slot while one goes on."""
        while self._next is None:
            try:
                message = self._parent.inbox.get_nowait()
            except queue.Empty:
                return
            if message["do"] == "ahead":
                floor.expect([SiteOrder.from_record(one) for one in message["orders"]])
            else:
                self._next = message

    def _say(self, kind: str, **values: object) -> None:
        # What was stopped in its midst is no loss: it may be taken up again in its slot.
        if not (self._parent.stop_requested.is_set() and kind in ("torn", "slot_done")):
            self._parent.send(kind, **values)


def main(parent: ParentChannel, argument: dict[str, Any]) -> None:
    """Run the worker; the argument is its `SitesSettings`."""
    try:
        SitesWorker(SitesSettings(**argument), parent).run()
    except AuctuneError as error:
        parent.send("failed", **error_record(error))
        parent.exit(1)
