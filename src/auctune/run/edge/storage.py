"""Chunks in the object stores of their sites.

A store reads the rows of its site. Those of a lost site are read again at another one, if they may
move and can be read there, as from the distributed file system of Pang et al. (TMC 2024), section
VI-A; such chunks cross.
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
        self._lost: set[str] = set()

    def place(self, job: EdgeJob, training: EdgeTraining) -> None:
        """Put all of a job's chunks where they lie, which is no traffic between sites.

        Raises:
            InputError: if its rows cannot be used.
            SlotError: if there is no room for them; none of them is kept then.
        """
        if job.id not in self._jobs:
            self._stored[job.id], self._jobs[job.id] = {}, (job, training)
        with self._all_or_none(job.id):
            if job.id not in self.validation:
                self.validation[job.id] = _put_validation(training)
            for site, count in job.chunks.items():
                if count and not self._has(job, site) and self._hosts(training, site):
                    self.rows.setdefault(job.id, {})[site] = self._put(job.id, site)

    def get(self, job: str, numbers: list[int]) -> list[StoredChunk]:
        """Return some of a job's chunks.

        Raises:
            SlotError: if they could not be kept when a site was lost.
        """
        stored = self._stored.get(job, {})
        if not stored.keys() >= set(numbers):
            raise SlotError(_NO_PLACE)
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

    def on_site_lost(self, site: str) -> None:
        """Read the rows of a lost site again at another, if they may move.

        A job whose rows could not be read again is dropped.
        """
        self._lost.add(site)
        for job, stored in list(self._stored.items()):
            lost = [number for number, one in stored.items() if one.origin == site]
            for number in lost:
                del stored[number]
            if lost and self._jobs[job][1].may_move:
                with suppress(SlotError, InputError), self._all_or_none(job):
                    self._put(job, site)

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

    def _put(self, job: str, site: str) -> int:
        """Have the rows of a site read, there or at another site; return their number."""
        import ray

        details, training = self._jobs[job]
        numbers, file = chunks_at(details, site), training.rows[site]
        source = ray.put(Path(file).read_bytes()) if training.are_uploads else file
        for host in self._hosts(training, site):
            put = self._store(host).put
            pending = put.remote(job, site, source, len(numbers), training.config.seed)
            chunks = _wait(pending, host)
            if chunks is not None:
                for number, (content, _, num_bytes) in zip(numbers, chunks, strict=True):
                    self._stored[job][number] = StoredChunk(number, site, content, num_bytes)
                return sum(rows for _, rows, _ in chunks)
        raise SlotError(_NO_PLACE)

    def _store(self, site: str) -> Any:
        import ray

        if site not in self._stores:
            make = ray.remote(SiteStore).options(num_cpus=0, resources=actor_resources(site, {}))
            self._stores[site] = make.remote()
        return self._stores[site]


def _put_validation(training: EdgeTraining) -> Any:
    import ray

    return None if training.validation is None else ray.put(read_validation(training.validation))


def _wait(pending: Any, site: str) -> list[tuple[Any, int, int]] | None:
    """Return what a site's store has kept; None if the site is lost meanwhile."""
    import ray

    # What waits for a node that is gone waits for ever.
    while not ray.wait([pending], timeout=_POLL_SECONDS)[0]:
        if site not in sites_alive():
            return None
    try:
        chunks: list[tuple[Any, int, int]] = ray.get(pending)
    except ray.exceptions.RayTaskError as error:
        cause = unwrap(error)
        raise cause from None
    except ray.exceptions.RayActorError:
        return None
    return chunks
