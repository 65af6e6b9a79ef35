"""What an edge zone offers: its sites, its model, and how fast a worker trains it.

A bid becomes an `EdgeJob`:

 chunk      as many samples as `chunk_mb` holds
 D^r        ceil(samples at r / samples of a chunk)
 P          slot (1 - spare) / (samples of a chunk (1 / samples_per_second + step_seconds / batch))
 lambda     MB of a model, twice for each micro-batch that a worker passes in a slot: its
            weights and its gradient
 f          the bid for each finish up to the deadline, and 0 after it
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from auctune.domain import InputError
from auctune.edge import ByDuration, EdgeJob, EdgeMarket, ErisParams
from auctune.run.open_sites.messages import TrainingTerms
from auctune.run.open_sites.model_size import model_mb
from auctune.service.jobs.timestamps import to_rfc3339
from auctune.service.jobs.training import Training
from auctune.service.zones.core.clock import SlotClock
from auctune.service.zones.edge.bid import EdgeBid
from auctune.service.zones.edge.site_datasets import SiteDatasets

MICRO_BATCH = 16
"""Samples whose gradient is computed at once."""
MOST_MODEL_MB = 256.0
"""Of a model, of which each worker and the process of all sites have several copies."""
# What owners call what the mechanism refuses.
_ASKED = {
    "chunks": "market.sites",
    "epochs": "hyperparameters.n_epochs",
    "values[0]": "market.bid",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSupply:
    """Of one zone.

    Attributes:
        model: that it trains.
        market: its sites, over the slots of the window.
        params: how they are sold.
        clock: its slots.
        worker, server: what they occupy, units by resource type.
        samples_per_second: that a worker passes.
        step_seconds: what a step takes beside: its way to the sites and back.
        spare: share of a slot that is not counted on.
        momentum: of gradient descent.
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
        """Most samples of a chunk."""
        return max(1, math.floor(self.market.chunk_mb * 1e6 / facts.sample_bytes))

    def job(self, bid: EdgeBid, slot: int) -> tuple[EdgeJob, int]:
        """A bid as the mechanism sees it, from the slot after `slot` on; and the last one in time.

        Raises:
            InputError: if its deadline leaves no slot, or its data or its model are more than the
                zone takes.
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
            place = _ASKED.get(error.place, error.place)
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
        """MB of the model of some data.

        Raises:
            InputError: if it would not fit: one image and one label can ask for any size.
        """
        found = model_mb(self.model, facts.image, facts.classes)
        if found > MOST_MODEL_MB:
            sides = " x ".join(map(str, facts.image))
            data = f"images of {sides} in {facts.classes:,} classes"
            expected = f"{MOST_MODEL_MB:g} MB at most: smaller images, or fewer classes"
            raise InputError("market.sites", f"{data} make a model of {found:,.0f} MB", expected)
        return found

    def terms(
        self,
        training: Training,
        facts: SiteDatasets,
        sites: Mapping[str, str],
        content: Callable[[str], Path],
    ) -> TrainingTerms:
        """How a job trains.

        Args:
            training: what its owner chose.
            facts: of its data.
            sites: ids of files.
            content: where a file's content lies, by its id.
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
    """Samples whose gradient is computed at once: of a small batch, all."""
    return min(MICRO_BATCH, training.batch_size)
