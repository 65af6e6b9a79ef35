"""Chunks of jobs' rows, in the object stores of their sites.

A store reads the rows of its site. Those of a lost site are read again at another one, if they may
move and the same content can be read there, as from the distributed file system of Pang et al.
(TMC 2024), section VI-A; such chunks cross.

The chunks of a job are numbered: those of its first site, then of its second, and so on.
"""

import hashlib
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from auctune.domain import InputError
from auctune.domain.dataset import DataSet, read_dataset
from auctune.edge.decision import SlotPlan
from auctune.edge.job import EdgeJob
from auctune.engine.edge.cluster import actor_resources
from auctune.engine.edge.edge_folder import EdgeFolder, SiteRows
from auctune.engine.edge.errors import SlotError, as_slot_error, unwrap
from auctune.engine.edge.inputs import EdgeTraining
from auctune.numerics.rng import stream

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


def cut_chunks(path: Path, site: str, count: int, seed: int, place: str = "rows") -> list[DataSet]:
    """Return the rows of a site as chunks, in an order that the seed draws.

    Chunks differ by one row at most.

    Raises:
        InputError: naming `place`, if the file cannot be read, or has fewer rows than chunks.
    """
    data = read_dataset(path, place)
    if len(data) < count:
        raise InputError(place, f"has {len(data)} rows", f"{count} at least, one for each chunk")
    order = stream(seed, "edge", "site", site).permutation(len(data))
    return [
        DataSet(data.kind, tuple(data.rows[index] for index in part))
        for part in np.array_split(order, count)
    ]


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk in the object store.

    Attributes:
        chunk: its number within its job.
        origin: the site of its rows.
        host: the site whose store holds it: the origin, or another one if that was lost.
        content: reference to its `DataSet`.
        num_bytes: of its rows.
    """

    chunk: int
    origin: str
    host: str
    content: Any
    num_bytes: int


class SiteStore:
    """A site's share of the object store; an actor of Ray."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], list[Any]] = {}

    def put(
        self,
        job: EdgeJob,
        site: str,
        source: str | bytes,
        seed: int,
        place: str,
        expected_sha256: str | None,
    ) -> tuple[SiteRows, list[tuple[Any, int]]]:
        """Cut a site's rows into chunks, and keep them in the store of this node.

        Args:
            job: whose.
            site: at which the rows lie.
            source: a file at this site, or the content of an upload.
            seed: of the order of rows.
            place: of the file's name, for errors.
            expected_sha256: of the content that was read before, or None at the first time.

        Returns:
            What the rows are, and for each chunk a reference to it and the bytes of its texts.

        Raises:
            InputError: if the rows cannot be used, or are not those that were read before.
        """
        import ray

        if isinstance(source, str):
            try:
                source = Path(source).read_bytes()
            except OSError as error:
                found = f"cannot be read ({error.strerror})"
                raise InputError(place, found, "a JSONL file") from None
        sha256 = hashlib.sha256(source).hexdigest()
        if expected_sha256 not in (None, sha256):
            raise InputError(place, "has changed", "the rows with which the job began")
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
            file.write(source)
            file.flush()
            chunks = cut_chunks(Path(file.name), site, job.chunks[site], seed, place)
        stored = [
            (ray.put(chunk), sum(len(str(row).encode()) for row in chunk.rows)) for chunk in chunks
        ]
        self._held[job.id, site] = [reference for reference, _ in stored]
        return SiteRows(sha256, sum(map(len, chunks))), stored

    def drop(self, job: str) -> None:
        """Release a job's chunks."""
        self._held = {key: held for key, held in self._held.items() if key[0] != job}


@dataclass(slots=True)
class _Reading:
    """A site's rows that a store reads, and the sites that are tried if it cannot."""

    host: str
    answer: Any
    others: list[str]
    attempt: int = 1


@dataclass(slots=True)
class _JobData:
    """Data of one job.

    Attributes:
        job, training: whose.
        validation: reference to rows to measure by, or None.
        rows: by site, as they were read first.
        chunks: that are stored, by number.
        reading: by site of the rows.
        unreadable: lost sites whose rows no other site could read.
    """

    job: EdgeJob
    training: EdgeTraining
    validation: Any
    rows: dict[str, SiteRows]
    chunks: dict[int, StoredChunk] = field(default_factory=dict)
    reading: dict[str, _Reading] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)


class ChunkStorage:
    """Data of jobs: a store at each site that holds chunks. No call waits for a store.

    Args:
        folder: where is recorded what the rows of a job are.
        alive: sites that are alive; the caller keeps them up to date.
    """

    def __init__(self, folder: EdgeFolder, alive: Collection[str]) -> None:
        self._folder, self._alive = folder, alive
        self._jobs: dict[str, _JobData] = {}
        self._stores: dict[str, Any] = {}

    def load(self, job: EdgeJob, training: EdgeTraining) -> bool:
        """Have stores read what is missing of a job's rows; return whether nothing is to come.

        Rows are put where they lie, which is no traffic between sites. Those of a lost site that
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

    def pending(self, job: str) -> list[Any]:
        """Return references that are ready when a job may have more of its data."""
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

    def validation(self, job: str) -> Any:
        """Return a reference to a job's rows to measure by, or None."""
        return self._jobs[job].validation

    def num_rows(self, job: str) -> int:
        """Return the rows of a job at all sites."""
        return sum(rows.num_rows for rows in self._jobs[job].rows.values())

    def drop(self, job: str) -> None:
        """Release a job that needs no data any more, or whose data are to be read again."""
        if self._jobs.pop(job, None) is not None:
            for store in self._stores.values():
                store.drop.remote(job)

    def retain_only(self, jobs: Collection[str]) -> None:
        """Release all other jobs."""
        for job in self._jobs.keys() - set(jobs):
            self.drop(job)

    def on_site_lost(self, site: str) -> None:
        """Forget what the store of a lost site held: `load` has it read elsewhere."""
        self._stores.pop(site, None)
        for data in self._jobs.values():
            data.chunks = {n: one for n, one in data.chunks.items() if one.host != site}

    def on_site_recovered(self, site: str) -> None:
        """Have the rows of a site that was lost read there again, unless they are stored."""
        for data in self._jobs.values():
            data.unreadable.discard(site)

    def _begin(self, job: EdgeJob, training: EdgeTraining) -> _JobData:
        import ray

        validation = training.read_validation()
        reference = None if validation is None else ray.put(validation)
        data = _JobData(job, training, reference, self._folder.read_rows(job.id))
        self._jobs[job.id] = data
        return data

    def _load_site(self, data: _JobData, site: str) -> None:
        import ray

        reading = data.reading.get(site)
        if reading is None:
            if site not in data.unreadable and chunks_at(data.job, site)[0] not in data.chunks:
                own = [site] if site in self._alive else []
                others = sorted({*self._alive} - {site}) if data.training.may_move else []
                self._read_at_next(data, site, own + others)
        elif reading.host not in self._alive:
            # What waits for a node that is gone may wait for ever.
            self._read_at_next(data, site, reading.others)
        elif ray.wait([reading.answer], timeout=0)[0]:
            self._collect(data, site, reading)

    def _read_at_next(self, data: _JobData, site: str, hosts: list[str]) -> None:
        """Have the rows of a site read at the first of these sites that is alive."""
        data.reading.pop(site, None)
        hosts = [host for host in hosts if host in self._alive]
        if hosts:
            data.reading[site] = _Reading(hosts[0], self._read(data, site, hosts[0]), hosts[1:])
        else:
            data.unreadable.add(site)

    def _read(self, data: _JobData, site: str, host: str) -> Any:
        import ray

        training, known = data.training, data.rows.get(site)
        file = training.rows[site]
        source = ray.put(Path(file).read_bytes()) if training.are_uploads else file
        if host not in self._stores:
            make = ray.remote(SiteStore).options(num_cpus=0, resources=actor_resources(host, {}))
            self._stores[host] = make.remote()
        return self._stores[host].put.remote(
            data.job,
            site,
            source,
            training.config.seed,
            training.place_of(site),
            None if known is None else known.sha256,
        )

    def _collect(self, data: _JobData, site: str, reading: _Reading) -> None:
        """Keep what a store has read.

        Raises:
            InputError: if the site itself cannot use its rows, or an upload is of no use.
        """
        import ray

        try:
            rows, stored = ray.get(reading.answer)
        except ray.exceptions.RayTaskError as error:
            cause = unwrap(error)
            is_theirs = reading.host == site or data.training.are_uploads
            if is_theirs or not isinstance(cause, InputError):
                raise cause from None
            self._read_at_next(data, site, reading.others)
        except ray.exceptions.RayActorError:
            # The store is gone, maybe with its site: then this one waits until that is known.
            self._stores.pop(reading.host, None)
            if reading.attempt == _MAX_ATTEMPTS:
                raise
            reading.attempt += 1
            reading.answer = self._read(data, site, reading.host)
        else:
            del data.reading[site]
            for number, (content, size) in zip(chunks_at(data.job, site), stored, strict=True):
                data.chunks[number] = StoredChunk(number, site, reading.host, content, size)
            if site not in data.rows:
                data.rows[site] = rows
                self._folder.write_rows(data.job.id, data.rows)
