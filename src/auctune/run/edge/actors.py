"""What runs at the sites: plain classes, made actors of Ray by whoever starts them.

Ray is imported by who uses it: a local cluster has things to say to it before.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from auctune.train.edge.batches import MicroBatch, slot_batches
from auctune.train.edge.descent import Contribution, Floats, TrainingState, mean_loss, step
from auctune.train.edge.recipe import Recipe

_LOOK_SECONDS = 0.1


class LeftError(Exception):
    """Nobody waits for a slot any more."""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk in the object store.

    Attributes:
        chunk: its number within its job.
        origin: the site at which it lies.
        content: refers to its `Images`.
    """

    chunk: int
    origin: str
    content: Any


@dataclass(frozen=True, slots=True)
class Crossed:
    """What a worker was sent from other sites: chunks, and their bytes."""

    chunks: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Member:
    """A worker as its server sees it: its actor, its site, and the chunks that it trains."""

    actor: Any
    site: str
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SlotResult:
    """What came of a job's slot.

    Attributes:
        state: after it.
        first_loss: mean over the samples of its first step.
        loss: mean over the samples of its last epoch, as they were met.
        parameter_bytes: weights and gradients that crossed sites.
        seconds: from the first step to the last.
    """

    state: TrainingState
    first_loss: float
    loss: float
    parameter_bytes: int
    seconds: float


class ChunkStore:
    """A site's share of the object store."""

    def __init__(self) -> None:
        self._held: dict[str, list[Any]] = {}

    def put(self, job: str, contents: Sequence[Any]) -> list[Any]:
        """Keep a job's chunks in the store of this node; refers to each."""
        import ray

        self._held[job] = [ray.put(content) for content in contents]
        return self._held[job]

    def drop(self, job: str) -> None:
        """Let go of a job's chunks."""
        self._held.pop(job, None)


class Worker:
    """Computes gradients on the chunks that it holds.

    Args:
        recipe: of its job.
        shape: of the job's images, an `ImageShape`.
        site: where it stands.
        device: of torch.
    """

    def __init__(self, recipe: Recipe, shape: Any, site: str, device: str) -> None:
        # Only workers load torch.
        from auctune.train.edge.alone import compute_part
        from auctune.train.edge.gradients import GradientMaker, check_device

        check_device(device)
        self._compute = compute_part
        self._maker = GradientMaker(recipe, shape, device)
        self._recipe, self._site = recipe, site
        self._chunks: dict[int, Any] = {}

    def has_started(self) -> None:
        """The answer says it."""

    def hold(self, stored: Sequence[StoredChunk]) -> Crossed:
        """Fetch the chunks of a slot; what it held before goes."""
        import ray

        contents = ray.get([one.content for one in stored])
        self._chunks = {one.chunk: content for one, content in zip(stored, contents, strict=True)}
        away = [self._chunks[one.chunk] for one in stored if one.origin != self._site]
        return Crossed(len(away), sum(content.num_bytes for content in away))

    def compute(self, weights: Floats, parts: Sequence[MicroBatch]) -> list[Contribution]:
        """The gradients of micro-batches, in their order."""
        self._maker.set_weights(weights)
        return [
            self._compute(self._maker, self._recipe, part, self._chunks[part.chunk])
            for part in parts
        ]


class ParameterServer:
    """Holds a job's weights, hands them out and adds gradients up.

    Args:
        recipe: of its job.
        site: where it stands.
    """

    def __init__(self, recipe: Recipe, site: str) -> None:
        self._recipe, self._site = recipe, site
        self._done, self._left = 0, -1

    def samples_done(self) -> int:
        """Samples passed in the slot that goes on; asked from another thread."""
        return self._done

    def leave(self, turn: int) -> None:
        """Break a turn off; called on another thread, maybe before the turn begins."""
        self._left = turn

    def run(
        self,
        state: TrainingState,
        members: Sequence[Member],
        sizes: Mapping[int, int],
        epochs: int,
        fetched: Sequence[Any],
        turn: int = 0,
    ) -> SlotResult:
        """Train one slot's chunks.

        Args:
            state: from which it goes on.
            members: the workers; each chunk is one's.
            sizes: samples by chunk.
            epochs: passes over them.
            fetched: refers to what each worker was sent; none computes before all have it.
            turn: names the call, for `leave`.

        Raises:
            LeftError: if it was left.
        """
        import ray

        # An actor keeps the order of one caller's calls, not that between two callers.
        waiting = list(fetched)
        while waiting:
            self._check_goes_on(turn)
            waiting = ray.wait(waiting, num_returns=len(waiting), timeout=_LOOK_SECONDS)[1]
        ray.get(list(fetched))
        begun, crossed, loss, first_loss = time.perf_counter(), 0, 0.0, None
        self._done = 0
        for batch in slot_batches(self._recipe, sizes, epochs):
            self._check_goes_on(turn)
            brought, sent = self._gather(state.weights, members, batch)
            state = step(state, brought, self._recipe)
            crossed += sent
            self._done += sum(one.num_samples for one in brought)
            if first_loss is None:
                first_loss = mean_loss(brought)
            if batch[0].epoch == epochs - 1:
                loss += float(np.sum([one.loss for one in brought]))
        mean = loss / sum(sizes.values())
        assert first_loss is not None, "a slot has a step"
        return SlotResult(state, first_loss, mean, crossed, time.perf_counter() - begun)

    def _check_goes_on(self, turn: int) -> None:
        if turn <= self._left:
            raise LeftError

    def _gather(
        self, weights: Floats, members: Sequence[Member], batch: Sequence[MicroBatch]
    ) -> tuple[list[Contribution], int]:
        """All contributions in the batch's order, and the bytes that crossed sites for them.

        Weights cross once to each site, as nodes share what their store has; gradients each.
        """
        import ray

        shared = ray.put(weights)
        asked, answers = [], []
        for member in members:
            mine = [part for part in batch if part.chunk in member.chunks]
            if mine:
                asked.append((member, mine))
                answers.append(member.actor.compute.remote(shared, mine))
        found: dict[MicroBatch, Contribution] = {}
        for (_, mine), came in zip(asked, ray.get(answers), strict=True):
            found |= zip(mine, came, strict=True)
        away = [(member.site, len(mine)) for member, mine in asked if member.site != self._site]
        copies = len({site for site, _ in away}) + sum(count for _, count in away)
        return [found[part] for part in batch], copies * weights.nbytes
