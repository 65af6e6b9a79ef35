"""Chunks in the object stores of their sites.

What a lost site held can still be read: the driver has all data, as the distributed file system of
Pang et al. (TMC 2024), section VI-A, would, and lends its own store. Such chunks cross.
"""

from contextlib import suppress
from typing import Any

from auctune.run.edge.actors import ChunkStore, StoredChunk
from auctune.run.edge.crews import sites_alive
from auctune.run.edge.job_data import JobData
from auctune.run.edge.resources import wanted
from auctune.run.edge.trouble import TroubleError, troubles
from auctune.train.edge.images import Images

_LOOK_SECONDS = 0.5


class Storage:
    """A store at each site that has chunks, and the driver's own."""

    def __init__(self) -> None:
        self._stores: dict[str, Any] = {}
        self._stored: dict[str, dict[int, StoredChunk]] = {}
        self._data: dict[str, JobData] = {}
        self._lost: set[str] = set()

    def place(self, job: str, sites: list[str], data: JobData) -> None:
        """Put all of a job's chunks where they lie; it is no traffic: they are there.

        Raises:
            TroubleError: if there is no room for them; none of them is kept then.
        """
        if job in self._stored:
            return
        self._stored[job], self._data[job] = {}, data
        for site in sites:
            if numbers := data.at_site(site):
                self._put_or_drop(job, site, numbers)

    def of(self, job: str, numbers: list[int]) -> list[StoredChunk]:
        """Some of a job's chunks.

        Raises:
            TroubleError: if they could not be kept when a site was lost.
        """
        if job not in self._stored:
            raise TroubleError("its data have no place now")
        return [self._stored[job][number] for number in numbers]

    def drop(self, job: str) -> None:
        """Let go of a job that needs no data any more, or whose data are to be placed anew."""
        self._data.pop(job, None)
        if self._stored.pop(job, None) is not None:
            for site, store in self._stores.items():
                if site not in self._lost:
                    store.drop.remote(job)

    def lose(self, site: str) -> None:
        """Lend the chunks of a site that is gone; a job for whose there is no room is dropped."""
        self._lost.add(site)
        for job, stored in list(self._stored.items()):
            numbers = [one.chunk for one in stored.values() if one.origin == site]
            with suppress(TroubleError):
                if numbers:
                    self._put_or_drop(job, site, numbers)

    def find(self, site: str) -> None:
        """A site that was gone is there again, and holds nothing: what is lent stays lent."""
        self._lost.discard(site)
        self._stores.pop(site, None)

    def _put_or_drop(self, job: str, site: str, numbers: list[int]) -> None:
        """A job's data are all there, or none of them."""
        try:
            with troubles():
                self._put(job, site, numbers)
        except TroubleError:
            self.drop(job)
            raise

    def _put(self, job: str, site: str, numbers: list[int]) -> None:
        import ray

        contents = [self._data[job].chunks[number] for number in numbers]
        references = None if site in self._lost else self._kept(site, job, contents)
        if references is None:
            references = [ray.put(content) for content in contents]
        for number, reference in zip(numbers, references, strict=True):
            self._stored[job][number] = StoredChunk(number, site, reference)

    def _kept(self, site: str, job: str, contents: list[Images]) -> list[Any] | None:
        """References to what a site's own store keeps; none if the site is gone meanwhile."""
        import ray

        pending = self._store(site).put.remote(job, contents)
        # What waits for a node that is gone waits for ever.
        while not ray.wait([pending], timeout=_LOOK_SECONDS)[0]:
            if site not in sites_alive():
                return None
        try:
            references: list[Any] = ray.get(pending)
        except ray.exceptions.RayError:
            return None
        return references

    def _store(self, site: str) -> Any:
        import ray

        if site not in self._stores:
            make = ray.remote(ChunkStore).options(num_cpus=0, resources=wanted(site, {}))
            self._stores[site] = make.remote()
        return self._stores[site]
