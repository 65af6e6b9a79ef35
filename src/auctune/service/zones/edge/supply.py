"""Supply of an edge zone: its sites, its model, and the training speed of a worker.

A bid becomes an `EdgeJob`:

 chunk      the samples that fit into `chunk_mb`
 D^r        ceil(samples at r / samples of a chunk)
 P          slot (1 - spare) / (samples of a chunk (1 / samples_per_second + step_seconds / batch))
 lambda     MB of a model, twice for each micro-batch that a worker processes in a slot: its
            weights and its gradient
 f          the bid for each finish up to the deadline, and 0 after it
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError, Money
from auctune.edge import ByDuration, EdgeJob, EdgeMarket, EdgeMenu, Eris, ErisParams
from auctune.run.open_sites.messages import TrainingTerms
from auctune.run.open_sites.model_size import model_mb
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.jobs.training import Training, ZoneBid
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.edge.site_datasets import SiteDatasets

MICRO_BATCH = 16
"""Samples of a micro-batch."""
MAX_MODEL_MB = 256.0
"""Largest model: each worker, and the process of all sites, hold several copies of it."""
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
        model: name of the model that it trains.
        market: its sites, over the slots of the window.
        params: parameters of the mechanism.
        clock: slots of the zone.
        worker, server: what each occupies, in units by resource type.
        samples_per_second: training speed of a worker.
        step_seconds: overhead of a step: the way of its weights to the sites, and back.
        spare: share of a slot that is not sold.
        momentum: momentum of gradient descent.
    """

    model: str
    market: EdgeMarket
    params: ErisParams
    clock: SlotClock
    worker: Mapping[str, float]
    server: Mapping[str, float]
    samples_per_second: float
    step_seconds: float
    spare: float
    momentum: float

    def chunk_samples(self, facts: SiteDatasets) -> int:
        """Return the number of samples in a full chunk."""
        return max(1, math.floor(self.market.chunk_mb * 1e6 / facts.sample_bytes))

    def job(self, bid: EdgeBid, slot: int) -> tuple[EdgeJob, int]:
        """Return a bid as the mechanism sees it, and the last slot that ends by its deadline.

        Args:
            bid: the bid.
            slot: the current slot; the job may run from the next one on.

        Raises:
            InputError: if its deadline leaves no slot, or its data or model are too large.
        """
        first, horizon = slot + 1, slot + self.market.slots - 1
        last = min(self.clock.last_slot_by(bid.deadline), horizon)
        if last < first:
            expected = (
                f"{to_rfc3339(self.clock.slot_end(first))}, when the next slot ends, or later"
            )
            raise InputError("market.deadline", "leaves no whole slot", expected)
        try:
            return self._edge_job(bid, slot, first, last), last
        except InputError as error:
            place = _REQUEST_FIELDS.get(error.place, error.place)
            raise InputError(place, error.found, error.expected) from None

    def _edge_job(self, bid: EdgeBid, slot: int, first: int, last: int) -> EdgeJob:
        training, facts = bid.training, bid.facts
        size, model = self.chunk_samples(facts), self._model_mb(facts)
        sample_seconds = 1 / self.samples_per_second + self.step_seconds / training.batch_size
        samples = self.clock.slot_seconds * (1 - self.spare) / sample_seconds
        exchanges = math.ceil(samples / micro_batch_of(training))
        job = EdgeJob(
            id=bid.job,
            arrival=first,
            epochs=training.epochs,
            chunks={site: math.ceil(count / size) for site, count in facts.samples.items()},
            worker=self.worker,
            server=self.server,
            chunks_per_worker_slot=samples / size,
            parameter_mb=2 * exchanges * model,
            utility=ByDuration((float(bid.bid),) * (last - first + 1)),
        )
        self.market.check(job, slot)
        return job

    def _model_mb(self, facts: SiteDatasets) -> float:
        """Return the size of the model for some data, in MB.

        Raises:
            InputError: if it is too large: one image or label can require a model of any size.
        """
        found = model_mb(self.model, facts.image, facts.classes)
        if found > MAX_MODEL_MB:
            sides = " x ".join(map(str, facts.image))
            data = f"images of {sides} in {facts.classes:,} classes"
            expected = f"{MAX_MODEL_MB:g} MB at most: smaller images, or fewer classes"
            raise InputError("market.sites", f"{data} make a model of {found:,.0f} MB", expected)
        return found

    def terms(
        self,
        training: Training,
        facts: SiteDatasets,
        sites: Mapping[str, str],
        content: Callable[[str], Path],
    ) -> TrainingTerms:
        """Return how the sites train a job.

        Args:
            training: settings of its owner.
            facts: shape of its data.
            sites: file ids by site.
            content: returns the path of a file, by its id.
        """
        validation = training.validation
        return TrainingTerms(
            model=self.model,
            batch_size=training.batch_size,
            micro_batch=micro_batch_of(training),
            learning_rate=training.learning_rate,
            momentum=self.momentum,
            weight_decay=training.weight_decay,
            seed=training.seed,
            files={site: str(content(file)) for site, file in sites.items()},
            validation=None if validation is None else str(content(validation)),
            classes=facts.classes,
        )


def micro_batch_of(training: Training) -> int:
    """Return the samples of a micro-batch: at most those of a batch."""
    return min(MICRO_BATCH, training.batch_size)
