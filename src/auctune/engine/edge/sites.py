"""Sites of the edge: where workers of jobs run, and which of a site's units are free.

Without a cluster all sites are on this machine (`LocalSites`), and a worker is a process of it.
On a cluster (`auctune.engine.edge.ray_sites`) a site is a Ray node, or a set of them, and a worker
is an actor there. What workers send each other passes through the coordinator as handles: on a
cluster those are references, and arrays go from site to site directly.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from auctune.domain import InputError
from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.edge.market import Site
from auctune.engine.edge.edge_folder import EdgeFolder
from auctune.engine.messages.base import IDLE_MESSAGES, Alive, Array, Stop
from auctune.engine.runtime.channel import OnMessage, ParentChannel
from auctune.engine.runtime.local import WorkerProcess, start_fork_server, start_worker
from auctune.engine.runtime.worker import WorkerHandle, WorkerSpec
from auctune.files.atomic import write_atomically

_THOUSANDTHS = 1000
# Rounding errors of a product of decimals are not a thousandth.
_SLACK = 1e-6
MESSAGES = IDLE_MESSAGES
_SITE_PROCESS = WorkerSpec("auctune.engine.edge.sites", {}, MESSAGES)


def capacity_units(capacity: Mapping[str, float]) -> dict[str, float]:
    """Return the units of a site in thousandths by resource type, rounded up.

    Ray counts in whole numbers.
    """
    return {
        kind: float(math.ceil(units * _THOUSANDTHS - _SLACK)) for kind, units in capacity.items()
    }


def needed_units(needs: Mapping[str, float]) -> dict[str, float]:
    """Return what a worker takes, rounded down: what fits the market fits the sites."""
    units = {
        kind: float(math.floor(units * _THOUSANDTHS + _SLACK)) for kind, units in needs.items()
    }
    return {kind: count for kind, count in units.items() if count}


class FreeResources:
    """Units of sites that no worker has taken.

    Args:
        free: by site and resource type, in thousandths. A site that is not there has nothing.
    """

    def __init__(self, free: Mapping[str, Mapping[str, float]]) -> None:
        self._free = {site: dict(units) for site, units in free.items()}
        self._known = frozenset(free)

    def reserve(self, site: str, needs: Mapping[str, float], *, force: bool = False) -> bool:
        """Take a worker's units if they are free, and return whether they were.

        Args:
            site: where.
            needs: of the market, by resource type.
            force: take them in any case, as the plan has it.
        """
        free, units = self._free.setdefault(site, {}), needed_units(needs)
        has_room = all(free.get(kind, 0.0) >= count for kind, count in units.items())
        fits = has_room and site in self._known
        if fits or force:
            for kind, count in units.items():
                free[kind] = free.get(kind, 0.0) - count
        return fits

    def reserve_slot(self, job: EdgeJob, part: SlotPlan) -> None:
        """Take what a job's slot needs."""
        for site, count in part.workers.items():
            for _ in range(count):
                self.reserve(site, job.worker, force=True)
        self.reserve(part.server, job.server, force=True)


class Sites(Protocol):
    """Starts workers at sites, and knows which sites are alive."""

    @property
    def names(self) -> frozenset[str]:
        """All sites, also those that are lost."""
        ...

    def alive(self) -> set[str]:
        """Return the sites that are alive; what ran at a lost one has ended."""
        ...

    def free(self) -> FreeResources:
        """Return all that sites have, as far as it is known where that is free."""
        ...

    def restart_missing(self) -> None:
        """Start lost sites again, if they were started here."""
        ...

    def start(
        self, site: str, needs: Mapping[str, float], worker: WorkerSpec, on_message: OnMessage
    ) -> WorkerHandle:
        """Start a worker at a site; does not wait for it.

        Args:
            site: where.
            needs: units of the site that it takes, by resource type.
            worker: what it runs.
            on_message: called with each of its messages, on any thread.

        Raises:
            InputError: if the site cannot have such a worker.
            OSError, RuntimeError: if it cannot be started.
        """
        ...

    def fetch(self, handle: Any) -> Array:
        """Return the array that a handle of a worker's message stands for."""
        ...


class LocalSites:
    """`Sites` on this machine: a site is a process that does nothing, and is lost with it.

    Args:
        sites: all of them.
        record: file of the sites' processes.
        log: file to which errors of workers are appended.
        niceness: of the processes, as of `WorkerSpec`.
    """

    def __init__(
        self, sites: Sequence[Site], record: Path, log: Path, *, niceness: int = 0
    ) -> None:
        self._capacity = {site.id: capacity_units(site.capacity) for site in sites}
        self._record, self._log, self._niceness = record, log, niceness
        log.parent.mkdir(parents=True, exist_ok=True)
        self._workers: dict[str, list[WorkerProcess]] = {}
        self._processes: dict[str, WorkerProcess] = {}
        self.restart_missing()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._capacity)

    def alive(self) -> set[str]:
        alive = {site for site, process in self._processes.items() if not process.is_gone}
        for site in self.names - alive:
            self._end(site)
        return alive

    def free(self) -> FreeResources:
        return FreeResources({site: self._capacity[site] for site in self.alive()})

    def restart_missing(self) -> None:
        missing = self.names - self.alive()
        for site in missing:
            self._processes[site] = self._start_process(_SITE_PROCESS, _ignore)
        if missing:
            processes = {site: process.pid for site, process in self._processes.items()}
            text = json.dumps({"processes": processes}, indent=2)
            write_atomically(self._record, f"{text}\n".encode())

    def start(
        self, site: str, needs: Mapping[str, float], worker: WorkerSpec, on_message: OnMessage
    ) -> WorkerHandle:
        process = self._start_process(worker, on_message)
        running = [one for one in self._workers.get(site, ()) if not one.is_gone]
        self._workers[site] = [*running, process]
        return process

    def fetch(self, handle: Any) -> Array:
        return np.asarray(handle)

    def close(self) -> None:
        """End all processes."""
        for site in self.names:
            self._end(site)

    def _start_process(self, worker: WorkerSpec, on_message: OnMessage) -> WorkerProcess:
        spec = replace(worker, log=self._log, niceness=self._niceness)
        return start_worker(spec, on_message)

    def _end(self, site: str) -> None:
        for worker in self._workers.pop(site, ()):
            worker.kill()
        if site in self._processes:
            self._processes[site].kill()


def main(parent: ParentChannel[Alive, Stop], _: object) -> None:
    """Run the process of a site."""
    parent.stop_requested.wait()


def _ignore(_: object) -> None:
    pass


@contextmanager
def open_sites(
    sites: Sequence[Site], ray: str, place: str, folder: EdgeFolder, *, niceness: int = 0
) -> Iterator[Sites]:
    """Open the sites of this machine, or connect to those of a cluster.

    Args:
        sites: all of them.
        ray: address of the cluster; empty: they are on this machine.
        place: of the address, for errors.
        folder: for records and logs.
        niceness: of workers on this machine.

    Raises:
        InputError: if there is no cluster at the address.
    """
    if ray:
        from auctune.engine.edge.ray_sites import connect_sites

        with connect_sites([site.id for site in sites], ray, place) as connected:
            yield connected
    else:
        start_fork_server()
        local = LocalSites(sites, folder.sites, folder.workers_log, niceness=niceness)
        try:
            yield local
        finally:
            local.close()


def check_device(device: str, place: str) -> None:
    """Check that this machine has a device of torch.

    Raises:
        InputError: naming `place`.
    """
    if device == "cpu":
        return
    from auctune.train.base import check_device as check

    try:
        check(device, "float32")
    except InputError as error:
        raise error.at(place) from None
