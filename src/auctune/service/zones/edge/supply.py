"""Supply of an edge zone: its sites, its base, and the training speed of a worker.

A bid becomes an `EdgeJob`:

 D^r        ceil(rows at r / rows that fit into `CHUNK_MB`); a token counts 4 bytes
 P          (slot (1 - headroom) - V) / seconds of an epoch of the largest chunk: its micro-batches
            as the device profile says, and its share of the batches' `STEP_SECONDS`
 V          seconds in which one worker evaluates the validation data, at the end of each slot
 lambda     MB of the adapter, twice for each micro-batch that a worker processes in a slot: its
            weights and its gradient
 f          the bid for each finish up to the deadline, and 0 after it
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError, Money
from auctune.domain.data_size import DataSize
from auctune.edge import ByDuration, EdgeJob, EdgeMarket, EdgeMenu, Eris, ErisParams, SlotPlan
from auctune.engine.edge.inputs import EdgeTraining, adapter_settings, micro_batch_of
from auctune.engine.unix_time import SlotClock, to_rfc3339
from auctune.files.device_profile import Profile
from auctune.service.config.edge import CHUNK_MB, EdgeConfig
from auctune.service.jobs.training import Training, ZoneBid, check_adapter, check_batch
from auctune.service.zones.edge.state import SiteDatasets

STEP_SECONDS = 0.01
"""Latency of an optimizer step: to the workers and back."""

_TOKEN_BYTES = _PARAMETER_BYTES = 4
# Of a slot without its headroom: validation in each slot must leave time to train.
_MAX_VALIDATION_SHARE = 0.5
# Fields of a request, by the fields of a job that the mechanism checks.
_REQUEST_FIELDS = {
    "chunks": "market.sites",
    "epochs": "hyperparameters.n_epochs",
    "values[0]": "market.bid",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeBid(ZoneBid):
    """Bid in an edge zone; `request["sites"]` holds ids of files by site.

    Attributes:
        facts: data sets at sites.
        bid: amount of the bid.
        deadline: unix time.
    """

    facts: SiteDatasets
    bid: Money
    deadline: float


@dataclass(frozen=True, slots=True)
class MenuRequest:
    """A job and a copy of the market, from which a menu can be computed on any thread.

    Bids are decided on meanwhile; a line that is taken by one of them cannot be accepted any more.

    Attributes:
        eris: copy of the mechanism.
        job: as the mechanism sees it.
        slot: current slot.
        last: last slot that a plan may use.
    """

    eris: Eris
    job: EdgeJob
    slot: int
    last: int

    def answer(self) -> EdgeMenu:
        """Return prices by finish time; the job's bid does not count.

        Raises:
            InputError: if the job does not fit the market.
        """
        lines = self.eris.quote(self.job, self.slot).lines
        return EdgeMenu(self.job.id, tuple(line for line in lines if line.finish <= self.last))


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSupply:
    """Supply of an edge zone.

    Attributes:
        entry: settings of the zone.
        market: its sites, over the slots of the window, as recorded.
        params: parameters of the mechanism.
        clock: slots of the zone.
        profile: device profile of a worker.
        cache: folder of bases that are built on a machine.
    """

    entry: EdgeConfig
    market: EdgeMarket
    params: ErisParams
    clock: SlotClock
    profile: Profile
    cache: str

    def chunk_rows(self, facts: SiteDatasets) -> int:
        """Return the number of rows that fit into a chunk."""
        row_bytes = _TOKEN_BYTES * facts.size.mean_tokens
        # Of chunks that may move the size is recorded: their traffic is priced by it.
        chunk_mb = self.market.chunk_mb if self.entry.rows_move else CHUNK_MB
        return max(1, math.floor(chunk_mb * 1e6 / row_bytes))

    def job(self, bid: EdgeBid, slot: int, speed: float = 1.0) -> tuple[EdgeJob, int]:
        """Return a bid as the mechanism sees it, and the last slot that ends by its deadline.

        Args:
            bid: the bid.
            slot: the current slot; the job may run from the next one on.
            speed: of the sites, relative to their profile.

        Raises:
            InputError: if its deadline leaves no slot, or its data or adapter are too large.
        """
        first, horizon = slot + 1, slot + self.market.slots - 1
        last = min(self.clock.last_slot_by(bid.deadline), horizon)
        if last < first:
            expected = (
                f"{to_rfc3339(self.clock.slot_end(first))}, when the next slot ends, or later"
            )
            raise InputError("market.deadline", "leaves no whole slot", expected)
        try:
            return self._edge_job(bid, slot, first, last, speed), last
        except InputError as error:
            place = _REQUEST_FIELDS.get(error.place, error.place)
            raise InputError(place, error.found, error.expected) from None

    def rate(self, training: Training, facts: SiteDatasets, chunks: Mapping[str, int]) -> float:
        """Return the chunks that a worker passes through once in a slot, by its profile.

        `chunks` is their number by site.
        """
        seconds = self._usable_seconds - self._validation_seconds(training, facts)
        return seconds / self._chunk(training, facts, chunks)[1]

    def slot_share(
        self,
        training: Training,
        facts: SiteDatasets,
        chunks: Mapping[str, int],
        part: SlotPlan,
        done: float = 1.0,
    ) -> float:
        """Return the share of a slot that a part of a plan takes by the profile.

        If less than all of its rows are `done`, as a share, nothing was validated; `chunks` as of
        `rate`.
        """
        passes = max(
            training.epochs * chunks / part.workers[site]
            for site, chunks in part.chunks_by_site.items()
        )
        seconds = done * passes * self._chunk(training, facts, chunks)[1]
        if done >= 1.0:
            seconds += self._validation_seconds(training, facts)
        return seconds / self._usable_seconds

    def _edge_job(self, bid: EdgeBid, slot: int, first: int, last: int, speed: float) -> EdgeJob:
        training, facts, entry = bid.training, bid.facts, self.entry
        check_batch(training, facts.size)
        check_adapter(training, self.profile, self.profile.memory_gb - self.profile.base_memory_gb)
        self._check_validation(training, facts)
        chunks = self._chunks(facts)
        rate = self.rate(training, facts, chunks) * speed
        num_micro_batches, _ = self._chunk(training, facts, chunks)
        job = EdgeJob(
            id=bid.job,
            arrival=first,
            epochs=training.epochs,
            chunks=chunks,
            worker=entry.worker,
            server=entry.server,
            chunks_per_worker_slot=rate,
            parameter_mb=2 * math.ceil(rate * num_micro_batches) * self._adapter_mb(training),
            utility=ByDuration((float(bid.bid),) * (last - first + 1)),
        )
        self.market.check(job, slot)
        return job

    def _chunks(self, facts: SiteDatasets) -> dict[str, int]:
        """Return the number of chunks by site."""
        size = self.chunk_rows(facts)
        return {site: math.ceil(count / size) for site, count in facts.samples.items()}

    def _chunk(
        self, training: Training, facts: SiteDatasets, chunks: Mapping[str, int]
    ) -> tuple[int, float]:
        """Return the micro-batches of the largest chunk, and the seconds of an epoch of it."""
        micro_batch = self.micro_batch(training)
        rows = max(
            math.ceil(facts.samples[site] / count) for site, count in chunks.items() if count
        )
        # Short micro-batches are where a chunk ends, and where one is split between two batches.
        parts = math.ceil(rows / micro_batch)
        parts += math.ceil(rows / training.batch_size) if rows % micro_batch else 0
        step_seconds = STEP_SECONDS / training.batch_size
        row_seconds = self._row_seconds(training, facts.size, rows / parts)
        return parts, rows * (row_seconds + step_seconds)

    @property
    def _usable_seconds(self) -> float:
        return self.clock.slot_seconds * (1 - self.entry.headroom)

    def _validation_seconds(self, training: Training, facts: SiteDatasets) -> float:
        """Return the seconds of a slot in which a worker evaluates the validation data."""
        size = facts.size.validation
        if size is None:
            return 0.0
        row_seconds = self._row_seconds(training, size, self.micro_batch(training))
        return size.rows * size.evaluation_cost * row_seconds

    def _check_validation(self, training: Training, facts: SiteDatasets) -> None:
        """Check that validation leaves time to train: see `_MAX_VALIDATION_SHARE`."""
        seconds = self._validation_seconds(training, facts)
        limit = _MAX_VALIDATION_SHARE * self._usable_seconds
        if seconds > limit:
            assert facts.size.validation is not None
            rows = facts.size.validation.rows
            found = f"has {rows} rows: {seconds:.3g} s of validation at the end of each slot"
            most = math.floor(limit * rows / seconds)
            expected = f"at most {limit:.3g} s, or {most} rows of this length"
            raise InputError("validation_file", found, expected)

    def _row_seconds(self, training: Training, size: DataSize, micro_batch: float) -> float:
        """Return the seconds of a worker for a row in micro-batches of so many rows on average.

        Each takes a pass, and its gradient is copied and sent, which is taken to cost what a step
        does; `STEP_SECONDS` is what the server takes beside.
        """
        batch = self.profile.batch(training, size, micro_batch)
        return size.mean_tokens / self.profile.tokens_per_second(batch)

    def _adapter_mb(self, training: Training) -> float:
        features = self.profile.adapted_features(training.target_modules)
        return training.rank * features * _PARAMETER_BYTES / 1e6

    def micro_batch(self, training: Training) -> int:
        """Return the rows of a micro-batch of a job, whose batches it divides."""
        return micro_batch_of(training.batch_size, self.entry.micro_batch)

    def training(
        self,
        job: str,
        training: Training,
        facts: SiteDatasets,
        sites: Mapping[str, str],
        content: Callable[[str], Path],
    ) -> EdgeTraining:
        """Return how the sites train a job.

        Args:
            job: its id.
            training: settings of its owner.
            facts: size of its data.
            sites: file ids by site.
            content: returns the path of a file, by its id.
        """
        validation, start = training.validation, training.start_from
        return EdgeTraining(
            base=self.entry.base_source,
            cache=self.cache,
            config=adapter_settings(
                job,
                training.hyperparameters(),
                start_from=None if start is None else content(start),
                start_digest=training.start_digest,
            ),
            rows={site: str(content(file)) for site, file in sites.items()},
            are_uploads=True,
            may_move=self.entry.rows_move,
            num_rows=facts.size.rows,
            validation=None if validation is None else str(content(validation)),
            dtype=self.entry.dtype,
            threads=self.entry.worker_threads,
            micro_batch=self.micro_batch(training),
            gradient_checkpointing=self.entry.gradient_checkpointing,
        )
