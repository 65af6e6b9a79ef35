"""From bids and their data to the tasks that the auction decides on.

work M = rows * epochs * mean tokens of a row / sample_tokens, and that of the validation data
(`DataSize.samples`), at what a token of the job costs on the slowest type of node. Where a vendor
must repair the data first, its rows and tokens are not known yet: every line of the file counts as
a row of its own text, which is more than what training will see; cells that turn out not to be
needed go back.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from auctune.domain import Cluster, InputError, Quote, Task
from auctune.domain.data_size import DataSize, job_notes
from auctune.domain.errors import RepairableError
from auctune.domain.start_adapter import StartAdapter
from auctune.domain.training import module_notes
from auctune.engine.data.examiner import Examiner
from auctune.engine.market.market_file import BidEntry, MarketFile, Resolve
from auctune.engine.vendors import RepairVendor
from auctune.files.device_profile import Profile, job_token_cost
from auctune.train.adapter_files import read_start
from auctune.train.job import LoraJob


@dataclass(frozen=True, slots=True)
class Request:
    """A bid whose data have been looked at.

    Attributes:
        entry: as the market file has it.
        job: as the trainer sees it; its data are as uploaded.
        size: of the data as uploaded.
        quotes: of vendors, if the data must be repaired.
        notes: what training loses of the data, unless they must be repaired, and who cannot load
            the adapter.
    """

    entry: BidEntry
    job: LoraJob
    size: DataSize
    quotes: tuple[Quote, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bid:
    """A bid ready to be offered: the task as the auction sees it."""

    task: Task
    request: Request

    @property
    def job(self) -> LoraJob:
        """As the trainer sees it."""
        return self.request.job


CheckStart = Callable[[StartAdapter, str], None]
"""Raises `InputError`, naming a place, if an adapter is not one of the base."""


@dataclass(frozen=True, slots=True)
class Appraiser:
    """Looks at the data sets of bids.

    Attributes:
        examiner: by the base's tokenizer.
        vendors: that quote for repairs.
        resolve: finds the files that the market names.
    """

    examiner: Examiner
    vendors: tuple[RepairVendor, ...]
    resolve: Resolve

    def requests(self, entries: Iterable[BidEntry], check_start: CheckStart) -> list[Request]:
        """All bids with their data sizes and quotes, in file order.

        Args:
            entries: bids of a market file.
            check_start: checks that an adapter to start from is one of the base.

        Raises:
            InputError: for the first bid whose data or hyperparameters cannot be used.
        """
        made = []
        for index, entry in enumerate(entries):
            try:
                made.append(self._request(entry, check_start))
            except InputError as error:
                raise error.within(f"bids[{index}] ({entry.id})") from None
        return made

    def size(self, path: Path, place: str, max_length: int) -> DataSize:
        """Return how much a clean data set is.

        Raises:
            InputError: if it is not one.
        """
        return self.examiner.facts(path, place, max_length).size

    def _request(self, entry: BidEntry, check_start: CheckStart) -> Request:
        data = self.resolve(entry.data)
        validation = None if entry.validation is None else self.resolve(entry.validation)
        job = entry.job(data, validation, self._start(entry, check_start))
        place = f"data {entry.data}"
        of_validation = None
        if validation is not None:
            named = f"validation {entry.validation}"
            of_validation = self.size(validation, named, job.max_length)
            of_validation.check_method(named, job.method)
            of_validation.check_truncation(named, job.max_length, truncate=entry.truncate)
        if entry.repair:
            if job.method != "supervised":
                expected = "false: no vendor repairs preferences"
                raise InputError("repair", f"is true for method {job.method!r}", expected)
            raw = self.examiner.appraise(data, place, job.max_length, self.vendors)
            for offer in raw.offers:
                repaired = offer.facts.size
                repaired.check_truncation(place, job.max_length, truncate=entry.truncate)
            size = replace(raw.size, validation=of_validation)
            quotes = tuple(offer.quote for offer in raw.offers)
            notes = (*size.work_notes(job.epochs), *module_notes(job.target_modules))
            return Request(entry, job, size, quotes, notes)
        size = replace(self._checked_size(data, place, job), validation=of_validation)
        size.check_method(place, job.method)
        size.check_truncation(place, job.max_length, truncate=entry.truncate)
        notes = job_notes(
            size,
            epochs=job.epochs,
            max_length=job.max_length,
            target_modules=job.target_modules,
        )
        return Request(entry, job, size, (), notes)

    def _start(self, entry: BidEntry, check_start: CheckStart) -> tuple[Path, StartAdapter] | None:
        """Return the adapter that a bid's task goes on from, checked."""
        if entry.start_from is None:
            return None
        path, place = self.resolve(entry.start_from), f"start_from {entry.start_from}"
        start, _ = read_start(path, place)
        check_start(start, place)
        return path, start

    def _checked_size(self, data: Path, place: str, job: LoraJob) -> DataSize:
        try:
            return self.size(data, place, job.max_length)
        except RepairableError as error:
            if not self.vendors or job.method != "supervised":
                raise
            hint = f"{error.expected} (or repair = true, and a vendor repairs it)"
            raise InputError(error.place, error.found, hint) from None


def make_bids(
    market: MarketFile,
    cluster: Cluster,
    profiles: Mapping[str, Profile],
    requests: Iterable[Request],
) -> list[Bid]:
    """The tasks of all requests on this supply, in their order.

    Raises:
        InputError: for the first one that no node can hold.
    """
    made = []
    for index, request in enumerate(requests):
        try:
            made.append(Bid(_task(market, cluster, profiles, request), request))
        except InputError as error:
            raise error.within(f"bids[{index}] ({request.entry.id})") from None
    return made


def _task(
    market: MarketFile, cluster: Cluster, profiles: Mapping[str, Profile], request: Request
) -> Task:
    entry, size, training = request.entry, request.size, request.job
    used = [profiles[name] for name in profiles if name in cluster.used_types]
    task = Task(
        id=entry.id,
        arrival=entry.arrival,
        deadline=entry.deadline,
        work=size.samples(training.epochs, market.sample_tokens)
        * job_token_cost(training, size, used),
        # A task may run on any type, and is sold the same memory on each.
        memory_gb=max(
            profile.task_memory_gb(
                training.rank,
                training.target_modules,
                keeps_start=training.method != "supervised" and training.start_from is not None,
            )
            for profile in profiles.values()
        ),
        bid=entry.bid,
        throughput={
            name: profile.throughput(
                market.slot_seconds,
                market.sample_tokens,
                profile.batch(training, size),
                entry.share,
            )
            for name, profile in profiles.items()
        },
        quotes=request.quotes,
    )
    kinds = [cluster.node_types[node.type] for node in cluster.nodes]
    room = max(kind.memory_gb for kind in kinds) - cluster.base_memory_gb
    if task.memory_gb > room:
        found = f"{training.rank} needs {task.memory_gb:.3g} GB, more than any node has left"
        raise InputError("rank", found, f"an adapter of at most {room:.3g} GB")
    return task
