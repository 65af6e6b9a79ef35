"""Chunks of jobs' rows, at their sites.

The store of a site reads its rows. Those of a lost site are read again at another one, if they may
move and the same content can be read there, as from the distributed file system of Pang et al.
(TMC 2024), section VI-A; such chunks cross.

The chunks of a job are numbered: those of its first site, then of its second, and so on.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from auctune.domain import InputError
from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.engine.edge.edge_folder import EdgeFolder, SiteRows
from auctune.engine.edge.inputs import EdgeTraining
from auctune.engine.edge.site_store import STORE_WORKER
from auctune.engine.edge.sites import Sites
from auctune.engine.elastic.errors import SlotError, as_slot_error, read_failure
from auctune.engine.elastic.gradient_worker import dump_rows
from auctune.engine.messages.base import Array
from auctune.engine.messages.elastic import ReadRows, RowsRead
from auctune.engine.runtime.requests import RequestWorker, WorkerEndedError

_NO_PLACE = "its data have no place now"
_MAX_ATTEMPTS = 3


def chunks_at(job: EdgeJob, site: str) -> range:
    """Return the numbers of the chunks that lie at a site."""
    first = 0
    for name, count in job.chunks.items():
        if name == site:
            return range(first, first + count)
        first += count
    return range(0)


def assign_chunks(job: EdgeJob, part: SlotPlan, taken: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the chunks of a slot by the site that trains them.

    Args:
        job: whose.
        part: the plan of the slot.
        taken: number of chunks by origin that earlier slots trained; the next ones follow them.
    """
    position, assigned = Counter(dict(taken)), dict[str, list[int]]()
    for move in part.moves:
        first = position[move.origin]
        here = chunks_at(job, move.origin)[first : first + move.chunks]
        assigned.setdefault(move.destination, []).extend(here)
        position[move.origin] += move.chunks
    return assigned


@dataclass(frozen=True, slots=True, eq=False)
class StoredChunk:
    """A chunk that was read.

    Attributes:
        chunk: its number within its job.
        origin: the site of its rows.
        host: the site that has read it: the origin, or another one if that was lost.
        content: handle of its rows, as `dump_rows` writes them.
        num_bytes: of its texts.
    """

    chunk: int
    origin: str
    host: str
    content: Any
    num_bytes: int


@dataclass(slots=True)
class _Reading:
    """A site's rows that a store reads, and the sites that are tried if it cannot."""

    host: str
    answer: Future[RowsRead]
    others: list[str]
    attempt: int = 1


@dataclass(slots=True)
class _JobData:
    """Data of one job.

    Attributes:
        job, training: whose.
        validation: rows to measure by, or None.
        rows: by site, as they were read first.
        chunks: that are stored, by number.
        reading: by site of the rows.
        unreadable: lost sites whose rows no other site could read.
    """

    job: EdgeJob
    training: EdgeTraining
    validation: Array | None
    rows: dict[str, SiteRows]
    chunks: dict[int, StoredChunk] = field(default_factory=dict)
    reading: dict[str, _Reading] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)


class ChunkStorage:
    """Data of jobs: a store at each site reads the rows there. No call waits for a store.

    Args:
        folder: where is recorded what the rows of a job are.
        sites: where stores are started.
        alive: sites that are alive; the caller keeps them up to date.
    """

    def __init__(self, folder: EdgeFolder, sites: Sites, alive: Collection[str]) -> None:
        self._folder, self._sites, self._alive = folder, sites, alive
        self._jobs: dict[str, _JobData] = {}
        self._stores: dict[str, RequestWorker] = {}

    def load(self, job: EdgeJob, training: EdgeTraining) -> bool:
        """Have stores read what is missing of a job's rows; return whether nothing is to come.

        Rows are read where they lie, which is no traffic between sites. Those of a lost site that
        no other one can read are left out.

        Raises:
            InputError: if its rows cannot be used.
            SlotError: if there is no room for them; none of them is kept then.
        """
        try:
            with as_slot_error():
                data = self._jobs.get(job.id)
                if data is None:
                    data = self._begin(job, training)
                for site, count in job.chunks.items():
                    if count:
                        self._load_site(data, site)
        except (SlotError, InputError):
            self.drop(job.id)
            raise
        return not data.reading

    def pending(self, job: str) -> list[Future[RowsRead]]:
        """Return what is done when a job may have more of its data."""
        data = self._jobs.get(job)
        return [] if data is None else [one.answer for one in data.reading.values()]

    def get(self, job: str, numbers: list[int]) -> list[StoredChunk]:
        """Return some of a job's chunks.

        Raises:
            SlotError: if no site has them.
        """
        data = self._jobs[job]
        if not data.chunks.keys() >= set(numbers):
            # They may be readable in the next slot.
            data.unreadable.clear()
            raise SlotError(_NO_PLACE, rows_lost=True)
        return [data.chunks[number] for number in numbers]

    def validation(self, job: str) -> Array | None:
        """Return a job's rows to measure by, as `dump_rows` writes them, or None."""
        return self._jobs[job].validation

    def num_rows(self, job: str) -> int:
        """Return the rows of a job at all sites."""
        return sum(rows.num_rows for rows in self._jobs[job].rows.values())

    def drop(self, job: str) -> None:
        """Release a job that needs no data any more, or whose data are to be read again."""
        self._jobs.pop(job, None)

    def retain_only(self, jobs: Collection[str]) -> None:
        """Release all other jobs."""
        for job in self._jobs.keys() - set(jobs):
            self.drop(job)

    def on_site_lost(self, site: str) -> None:
        """Forget what the store of a lost site has read: `load` has it read elsewhere."""
        if (store := self._stores.pop(site, None)) is not None:
            store.kill()
        for data in self._jobs.values():
            data.chunks = {n: one for n, one in data.chunks.items() if one.host != site}

    def on_site_recovered(self, site: str) -> None:
        """Have the rows of a site that was lost read there again, unless they are stored."""
        for data in self._jobs.values():
            data.unreadable.discard(site)

    def _begin(self, job: EdgeJob, training: EdgeTraining) -> _JobData:
        validation = training.read_validation()
        rows = None if validation is None else dump_rows(validation)
        data = _JobData(job, training, rows, self._folder.read_rows(job.id))
        self._jobs[job.id] = data
        return data

    def _load_site(self, data: _JobData, site: str) -> None:
        reading = data.reading.get(site)
        if reading is None:
            if site not in data.unreadable and chunks_at(data.job, site)[0] not in data.chunks:
                own = [site] if site in self._alive else []
                others = sorted({*self._alive} - {site}) if data.training.may_move else []
                self._read_at_next(data, site, own + others)
        elif reading.host not in self._alive:
            # What waits for a node that is gone may wait for ever.
            self._read_at_next(data, site, reading.others)
        elif reading.answer.done():
            self._collect(data, site, reading)

    def _read_at_next(self, data: _JobData, site: str, hosts: list[str]) -> None:
        """Have the rows of a site read at the first of these sites that is alive."""
        data.reading.pop(site, None)
        hosts = [host for host in hosts if host in self._alive]
        if hosts:
            data.reading[site] = _Reading(hosts[0], self._read(data, site, hosts[0]), hosts[1:])
        else:
            data.unreadable.add(site)

    def _read(self, data: _JobData, site: str, host: str) -> Future[RowsRead]:
        training, known = data.training, data.rows.get(site)
        file = training.rows[site]
        request = ReadRows(
            site=site,
            source=file,
            num_chunks=data.job.chunks[site],
            seed=training.config.seed,
            method=training.config.method,
            place=training.place_of(site),
            sha256=None if known is None else known.sha256,
            arrays=[np.fromfile(file, np.uint8)] if training.are_uploads else (),
        )
        if host not in self._stores:
            start = partial(self._sites.start, host, {}, STORE_WORKER)
            self._stores[host] = RequestWorker(start, read_failure)
        return self._stores[host].request(request)

    def _collect(self, data: _JobData, site: str, reading: _Reading) -> None:
        """Keep what a store has read.

        Raises:
            InputError: if the site itself cannot use its rows, or an upload is of no use.
            SlotError: if they could not be read.
        """
        try:
            answer = reading.answer.result()
        except InputError:
            if reading.host == site or data.training.are_uploads:
                raise
            self._read_at_next(data, site, reading.others)
        except WorkerEndedError:
            # The store is gone, maybe with its site: then this one waits until that is known.
            if (store := self._stores.pop(reading.host, None)) is not None:
                store.kill()
            if reading.attempt == _MAX_ATTEMPTS:
                raise
            reading.attempt += 1
            reading.answer = self._read(data, site, reading.host)
        else:
            del data.reading[site]
            parts = zip(chunks_at(data.job, site), answer.arrays, answer.sizes, strict=True)
            for number, content, size in parts:
                data.chunks[number] = StoredChunk(number, site, reading.host, content, size)
            if site not in data.rows:
                data.rows[site] = SiteRows(answer.sha256, answer.num_rows)
                self._folder.write_rows(data.job.id, data.rows)
