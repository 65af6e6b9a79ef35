"""Chunks in the object stores of their sites.

A store reads the rows of its site. Those of a lost site are read again at another one, if they may
move and the same content can be read there, as from the distributed file system of Pang et al.
(TMC 2024), section VI-A; such chunks cross.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.edge.job import EdgeJob
from auctune.run.edge.actors import SiteStore, StoredChunk, read_validation
from auctune.run.edge.job_errors import SlotError, as_slot_error, unwrap
from auctune.run.edge.resources import actor_resources, sites_alive
from auctune.run.edge.training import EdgeTraining, chunks_at

_POLL_SECONDS = 0.5
_NO_PLACE = "its data have no place now"


class ChunkStorage:
    """A store at each site that has chunks.

    Attributes:
        rows: of each job, by site.
        validation: references to jobs' rows to measure by, or None.
    """

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, int]] = {}
        self.validation: dict[str, Any] = {}
        self._stores: dict[str, Any] = {}
        self._stored: dict[str, dict[int, StoredChunk]] = {}
        self._jobs: dict[str, tuple[EdgeJob, EdgeTraining]] = {}
        # SHA-256 of the rows of each job and site, as they were read first.
        self._digests: dict[tuple[str, str], str] = {}
        self._lost: set[str] = set()

    def place(self, job: EdgeJob, training: EdgeTraining) -> None:
        """Put all of a job's chunks where they lie, which is no traffic between sites.

        Rows of a lost site that no other one can read are left out.

        Raises:
            InputError: if its rows cannot be used.
            SlotError: if there is no room for them; none of them is kept then.
        """
        if job.id not in self._jobs:
            self._stored[job.id], self._jobs[job.id] = {}, (job, training)
        with self._all_or_none(job.id):
            if job.id not in self.validation:
                self.validation[job.id] = _put_validation(training)
            self.rows.setdefault(job.id, {})
            for site, count in job.chunks.items():
                if not count or self._has(job, site):
                    continue
                if not self._put(job.id, site) and site in sites_alive() - self._lost:
                    raise SlotError(_NO_PLACE)

    def get(self, job: str, numbers: list[int]) -> list[StoredChunk]:
        """Return some of a job's chunks.

        Raises:
            SlotError: if they could not be kept when a site was lost.
        """
        stored = self._stored.get(job, {})
        if not stored.keys() >= set(numbers):
            # A job without any had no room for them, and is placed again in its next slot.
            raise SlotError(_NO_PLACE, rows_lost=job in self._jobs)
        return [stored[number] for number in numbers]

    def drop(self, job: str) -> None:
        """Release a job that needs no data any more, or whose data are to be placed again."""
        for kept in (self._jobs, self.rows, self.validation):
            kept.pop(job, None)
        if self._stored.pop(job, None) is not None:
            for site, store in self._stores.items():
                if site not in self._lost:
                    store.drop.remote(job)

    def retain_only(self, jobs: Collection[str]) -> None:
        """Release all other jobs."""
        for job in [job for job in self._jobs if job not in jobs]:
            self.drop(job)
        self._digests = {key: one for key, one in self._digests.items() if key[0] in jobs}

    def on_site_lost(self, site: str) -> None:
        """Read the rows that the store of a lost site held again, where they can be read.

        A job for whose rows there is no room is dropped.
        """
        self._lost.add(site)
        for job, stored in list(self._stored.items()):
            lost = {number: one.origin for number, one in stored.items() if one.host == site}
            for number in lost:
                del stored[number]
            with suppress(SlotError, InputError), self._all_or_none(job):
                for origin in dict.fromkeys(lost.values()):
                    self._put(job, origin)

    def on_site_back(self, site: str) -> None:
        """A site that was lost is back, and holds nothing: its chunks stay where they are."""
        self._lost.discard(site)
        self._stores.pop(site, None)

    @contextmanager
    def _all_or_none(self, job: str) -> Iterator[None]:
        """Drop a job if its data cannot be placed."""
        try:
            with as_slot_error():
                yield
        except (SlotError, InputError):
            self.drop(job)
            raise

    def _has(self, job: EdgeJob, site: str) -> bool:
        return chunks_at(job, site)[0] in self._stored[job.id]

    def _hosts(self, training: EdgeTraining, site: str) -> list[str]:
        """Return the sites that may store the rows of one, in order."""
        own = [] if site in self._lost else [site]
        others = sorted(sites_alive() - self._lost - {site}) if training.may_move else []
        return own + others

    def _put(self, job: str, site: str) -> bool:
        """Have the rows of a site read, there or at another site; return whether one could.

        Raises:
            InputError: if the site itself cannot use them, or an upload is of no use.
        """
        import ray

        details, training = self._jobs[job]
        numbers, file = chunks_at(details, site), training.rows[site]
        source = ray.put(Path(file).read_bytes()) if training.are_uploads else file
        for host in self._hosts(training, site):
            put = self._store(host).put
            known = self._digests.get((job, site))
            pending = put.remote(job, site, source, len(numbers), training.config.seed, known)
            try:
                found = _wait(pending, host)
            except InputError:
                if host == site or training.are_uploads:
                    raise
                continue
            if found is not None:
                self._digests[job, site], chunks = found
                for number, (content, _, num_bytes) in zip(numbers, chunks, strict=True):
                    self._stored[job][number] = StoredChunk(number, site, host, content, num_bytes)
                self.rows[job][site] = sum(rows for _, rows, _ in chunks)
                return True
        return False

    def _store(self, site: str) -> Any:
        import ray

        if site not in self._stores:
            make = ray.remote(SiteStore).options(num_cpus=0, resources=actor_resources(site, {}))
            self._stores[site] = make.remote()
        return self._stores[site]


def _put_validation(training: EdgeTraining) -> Any:
    import ray

    return None if training.validation is None else ray.put(read_validation(training.validation))


def _wait(pending: Any, site: str) -> tuple[str, list[tuple[Any, int, int]]] | None:
    """Return what a site's store has kept; None if the site is lost meanwhile."""
    import ray

    # What waits for a node that is gone waits for ever.
    while not ray.wait([pending], timeout=_POLL_SECONDS)[0]:
        if site not in sites_alive():
            return None
    try:
        found: tuple[str, list[tuple[Any, int, int]]] = ray.get(pending)
    except ray.exceptions.RayTaskError as error:
        cause = unwrap(error)
        raise cause from None
    except ray.exceptions.RayActorError:
        return None
    return found
