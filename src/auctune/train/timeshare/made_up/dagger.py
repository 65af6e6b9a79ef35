"""Learning by imitation with one's own mistakes in view: DAgger (Ross et al., AISTATS 2011).

    D = views on the expert's ways, with the expert's actions
    repeat: train the policy on D; let it walk; add what it saw to D, with what the expert
            would have done there

A batch is rows of D. Each time that D grows the loss rises, and falls again: the curve of such a
thread is a saw that wears down.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from auctune.numerics.rng import stream
from auctune.train.checkpoint import Checkpoint
from auctune.train.timeshare.made_up.grid_world import ACTIONS, SIDE, Room, make_room
from auctune.train.timeshare.source import Batch, generator_of


class DaggerSource:
    """Batches (views, the expert's actions) of what was seen so far.

    Args:
        batch_size: rows a batch.
        seed: of rooms, walks and batches.
        rooms: in which there are walks.
        walks: that are added at a time.
        every: batches between two additions.
        most: rows of D; once it is full nothing is added.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        seed: int,
        rooms: int = 200,
        walks: int = 40,
        every: int = 400,
        most: int = 4000,
    ) -> None:
        self._batch_size, self._seed = batch_size, seed
        self._walks, self._every, self._most = walks, every, most
        self._rooms = [make_room(stream(seed, "room", number)) for number in range(rooms)]
        self._taken = 0
        self._views = torch.empty(0, 3, SIDE, SIDE, dtype=torch.uint8)
        self._actions = torch.empty(0, dtype=torch.int64)

    def next_batch(self, module: nn.Module) -> Batch:
        """Rows of D drawn at random, after walks of `module` where they are due."""
        if self._taken % self._every == 0 and len(self._views) < self._most:
            self._add(*self._walk(None if self._taken == 0 else module))
        generator = generator_of(self._seed, "batch", self._taken)
        rows = torch.randint(len(self._views), (self._batch_size,), generator=generator)
        self._taken += 1
        return self._views[rows].float(), self._actions[rows]

    def state(self) -> Checkpoint:
        """D and the number of batches taken."""
        return Checkpoint({"views": self._views, "actions": self._actions}, {"taken": self._taken})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go to where `state` was taken."""
        self._taken = checkpoint.state["taken"]
        self._views = checkpoint.tensors["views"].clone()
        self._actions = checkpoint.tensors["actions"].clone()

    def _add(self, views: list[Tensor], actions: list[int]) -> None:
        self._views = torch.cat([self._views, torch.stack(views)])[: self._most]
        self._actions = torch.cat([self._actions, torch.tensor(actions)])[: self._most]

    def _walk(self, module: nn.Module | None) -> tuple[list[Tensor], list[int]]:
        """What is seen on walks of the policy, or of the expert if it is none."""
        draw = stream(self._seed, "walks", self._taken)
        chosen = [
            self._rooms[number] for number in draw.integers(len(self._rooms), size=self._walks)
        ]
        walkers = [room.start for room in chosen]
        views: list[Tensor] = []
        actions: list[int] = []
        for _ in range(2 * SIDE):
            seen = torch.from_numpy(
                np.stack([room.view(cell) for room, cell in zip(chosen, walkers, strict=True)])
            )
            expert = [room.expert(cell) for room, cell in zip(chosen, walkers, strict=True)]
            views += list(seen)
            actions += expert
            steps = expert if module is None else _choose(module, seen)
            chosen, walkers = _go(chosen, walkers, steps)
            if not chosen:
                break
        return views, actions


def _choose(module: nn.Module, views: Tensor) -> list[int]:
    device = next(module.parameters()).device
    was_training = module.training
    module.eval()
    with torch.no_grad():
        logits: Tensor = module(views.float().to(device))
    module.train(was_training)
    assert logits.shape[1] == len(ACTIONS)
    return [int(action) for action in logits.argmax(1).tolist()]


def _go(
    rooms: Sequence[Room], walkers: Sequence[tuple[int, int]], steps: Sequence[int]
) -> tuple[list[Room], list[tuple[int, int]]]:
    """Rooms and walkers after a step, without those at the treasure."""
    moved = [
        (room, room.move(cell, step))
        for room, cell, step in zip(rooms, walkers, steps, strict=True)
    ]
    left = [(room, cell) for room, cell in moved if cell != room.treasure]
    return [room for room, _ in left], [cell for _, cell in left]
