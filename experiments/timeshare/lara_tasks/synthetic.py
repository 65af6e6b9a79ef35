"""Synthetic data in place of those of the paper's tasks.

| data | in place of |
| --- | --- |
| scikit-learn's digits, shifted and overlaid with noise | CIFAR-10 |
| reviews of drawn words | IMDB |
| words made of glides | Yesno |
| rooms with walls and an expert who knows the shortest path | Montezuma's Revenge |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from auctune.domain.errors import InputError
from auctune.extras import install_command
from auctune.numerics.rng import stream
from auctune.train.checkpoint import Checkpoint
from lara_tasks.module_job import Batch, generator_of


@cache
def digits() -> tuple[Tensor, Tensor]:
    """Return images (1797, 1, 8, 8) of about -1 to 1, and their classes (1797,).

    Raises:
        InputError: if scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            "digits", "scikit-learn is not installed", install_command("experiments")
        ) from None
    pixels, classes = load_digits(return_X_y=True)
    images = torch.from_numpy(pixels).float().view(-1, 1, 8, 8) / 8.0 - 1.0
    return images, torch.from_numpy(classes).long()


class Blur:
    """Augmentation: shift each image by up to a pixel in each direction and add noise.

    There are 1,797 images only, which a network memorizes in seconds. With new noise in each batch
    no image occurs twice, and the loss ends on a floor that depends on the network.

    Args:
        noise: standard deviation of what is added to a pixel.
    """

    def __init__(self, noise: float) -> None:
        self._noise = noise

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        rows, _, side, _ = images.shape
        framed = torch.nn.functional.pad(images, (1, 1, 1, 1), value=-1.0)[:, 0]
        down, right = torch.randint(0, 3, (2, rows, 1, 1), generator=generator)
        steps = torch.arange(side)
        moved = framed[torch.arange(rows).view(-1, 1, 1), down + steps.view(-1, 1), right + steps]
        drawn = torch.randn(moved.shape, generator=generator)
        return (moved + self._noise * drawn).unsqueeze(1)


LENGTH = 24
SENTENCES = 5
GOOD = (
    "fine", "warm", "funny", "clever", "moving", "bright", "honest", "gripping", "lovely", "sharp",
)  # fmt: skip
BAD = (
    "dull", "cold", "stale", "clumsy", "tiresome", "bleak", "false", "slow", "ugly", "blunt",
)  # fmt: skip
PARTS = (
    "plot", "cast", "music", "camera", "ending", "dialogue", "pace", "light", "sets", "hero",
    "villain", "jokes",
)  # fmt: skip
FILLERS = (
    "the", "a", "and", "of", "its", "was", "very", "quite", "with", "here", "then", "so", "in",
    "all", "some", "it",
)  # fmt: skip
NOT = "not"
NOTHING = "-"
WORDS = (NOTHING, NOT, *GOOD, *BAD, *PARTS, *FILLERS)


def reviews(count: int, seed: int, wrong: float = 0.05) -> tuple[Tensor, Tensor]:
    """Return reviews (count, LENGTH), numbers of words, and whether they are good (count,), int64.

    A sentence says something good or bad, or the contrary with a `not`; a review is good if most of
    its sentences are. Fillers stand between them. Wrong labels can only be memorized.

    Args:
        count: how many.
        seed: of what they say.
        wrong: share of wrong labels.
    """
    draw = stream(seed, "reviews")
    written = [_review(draw) for _ in range(count)]
    texts = np.array([words for words, _ in written])
    labels = np.array([good for _, good in written]) ^ (draw.random(count) < wrong)
    return torch.from_numpy(texts), torch.from_numpy(labels.astype(np.int64))


def _review(draw: np.random.Generator) -> tuple[list[int], bool]:
    words: list[str] = []
    good = draw.random(SENTENCES) < 0.5
    for sentence in good:
        turned = draw.random() < 0.3
        says = GOOD if bool(sentence) != turned else BAD
        words += [_one(FILLERS, draw), _one(PARTS, draw)]
        words += [NOT] if turned else []
        words += [_one(says, draw)]
    words += [_one(FILLERS, draw) for _ in range(draw.integers(0, LENGTH - len(words) + 1))]
    words += [NOTHING] * (LENGTH - len(words))
    return [NUMBERS[word] for word in words], int(good.sum()) * 2 > SENTENCES


def _one(words: tuple[str, ...], draw: np.random.Generator) -> str:
    return words[draw.integers(len(words))]


NUMBERS = {word: number for number, word in enumerate(WORDS)}


NUM_WORDS = 8
FRAMES = 32
FRAME_SAMPLES = 32
BANDS = 16


def sounds(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return sounds (count, FRAMES, BANDS) and whether each word is a yes, float32.

    A yes glides up in pitch and a no down; each has an overtone. Features are the loudness of
    bands of the discrete Fourier transform, by frame. The answers have shape (count, NUM_WORDS).
    """
    draw = stream(seed, "sounds")
    yes = draw.integers(0, 2, (count, NUM_WORDS))
    waves = _waves(yes, draw).reshape(count, FRAMES, FRAME_SAMPLES)
    strength = np.abs(np.fft.rfft(waves * np.hanning(FRAME_SAMPLES)))[..., 1 : BANDS + 1]
    features = np.log(strength + 0.1).astype(np.float32)
    return torch.from_numpy(features), torch.from_numpy(yes.astype(np.float32))


def _waves(yes: NDArray[np.int64], draw: np.random.Generator) -> NDArray[np.float64]:
    """Words one after the other: (count, samples of all words)."""
    samples = FRAMES * FRAME_SAMPLES // NUM_WORDS
    shape = (*yes.shape, 1)
    time = np.arange(samples) / samples
    start = draw.uniform(6.0, 18.0, shape)
    glide = np.where(yes[..., None] == 1, 1.0, -1.0) * draw.uniform(0.5, 3.0, shape)
    # Pitch is the phase's derivative: start + glide * (time - 1/2), in cycles a word.
    phase = 2 * np.pi * (start * time + glide * (time**2 - time) / 2)
    loud = draw.uniform(0.5, 1.0, shape)
    tone = loud * (np.sin(phase) + 0.5 * np.sin(2 * phase))
    noise = 0.5 * draw.standard_normal((*yes.shape, samples))
    waves: NDArray[np.float64] = (tone + noise).reshape(len(yes), -1)
    return waves


SIDE = 8
ACTIONS = ((-1, 0), (1, 0), (0, -1), (0, 1))
FAR = 10_000


@dataclass(frozen=True)
class Room:
    """Square room of cells with walls, a walker and a treasure, and its expert.

    An action is a step up, down, left or right; one into a wall does nothing. The expert steps to
    the neighbour that is nearest to the treasure, the first of those in the order of ACTIONS.

    Attributes:
        walls: (SIDE, SIDE), 1 where there is a wall.
        treasure: its cell.
        start: the walker's first cell.
        distance: (SIDE, SIDE) steps to the treasure; FAR where there is no way.
    """

    walls: NDArray[np.int64]
    treasure: tuple[int, int]
    start: tuple[int, int]
    distance: NDArray[np.int64]

    def view(self, walker: tuple[int, int]) -> NDArray[np.uint8]:
        """Return (3, SIDE, SIDE): walls, the walker, the treasure."""
        seen = np.zeros((3, SIDE, SIDE), dtype=np.uint8)
        seen[0] = self.walls
        seen[1][walker] = 1
        seen[2][self.treasure] = 1
        return seen

    def move(self, walker: tuple[int, int], action: int) -> tuple[int, int]:
        """Return the cell after an action."""
        down, right = ACTIONS[action]
        cell = walker[0] + down, walker[1] + right
        inside = 0 <= cell[0] < SIDE and 0 <= cell[1] < SIDE
        return cell if inside and not self.walls[cell] else walker

    def expert(self, walker: tuple[int, int]) -> int:
        """Return the expert's action in a cell other than the treasure's."""
        return int(np.argmin([self.distance[self.move(walker, a)] for a in range(len(ACTIONS))]))


def make_room(draw: np.random.Generator, walls: float = 0.25) -> Room:
    """Draw a room with a path of two steps at least."""
    while True:
        built = (draw.random((SIDE, SIDE)) < walls).astype(np.int64)
        free = np.argwhere(built == 0)
        if len(free) == 0:
            continue
        row, column = free[draw.integers(len(free))]
        treasure = int(row), int(column)
        distance = _distances(built, treasure)
        starts = np.argwhere((distance >= 2) & (distance < FAR))
        if len(starts):
            row, column = starts[draw.integers(len(starts))]
            return Room(built, treasure, (int(row), int(column)), distance)


def _distances(walls: NDArray[np.int64], treasure: tuple[int, int]) -> NDArray[np.int64]:
    distance = np.full((SIDE, SIDE), FAR)
    distance[treasure] = 0
    border = [treasure]
    while border:
        reached = []
        for row, column in border:
            for down, right in ACTIONS:
                cell = row + down, column + right
                inside = 0 <= cell[0] < SIDE and 0 <= cell[1] < SIDE
                if inside and not walls[cell] and distance[cell] == FAR:
                    distance[cell] = distance[row, column] + 1
                    reached.append(cell)
        border = reached
    return distance


class DaggerSource:
    """Batches of DAgger (Ross et al., AISTATS 2011): views, and the expert's actions for them.

        D = views on the expert's paths, with the expert's actions
        repeat: train the policy on D; let it walk; add what it saw to D, with what the expert
                would have done there

    Each time that D grows the loss rises, and falls again.

    Args:
        batch_size: rows a batch.
        seed: of rooms, walks and batches.
        rooms: number of rooms.
        walks: added to D at a time.
        every: batches between two additions.
        max_rows: size of D from which on nothing is added.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        seed: int,
        rooms: int = 200,
        walks: int = 40,
        every: int = 400,
        max_rows: int = 4000,
    ) -> None:
        self._batch_size, self._seed = batch_size, seed
        self._walks, self._every, self._max_rows = walks, every, max_rows
        self._rooms = [make_room(stream(seed, "room", number)) for number in range(rooms)]
        self._taken = 0
        self._views = torch.empty(0, 3, SIDE, SIDE, dtype=torch.uint8)
        self._actions = torch.empty(0, dtype=torch.int64)

    def next_batch(self, module: nn.Module) -> Batch:
        if self._taken % self._every == 0 and len(self._views) < self._max_rows:
            self._add(*self._walk(None if self._taken == 0 else module))
        generator = generator_of(self._seed, "batch", self._taken)
        rows = torch.randint(len(self._views), (self._batch_size,), generator=generator)
        self._taken += 1
        return self._views[rows].float(), self._actions[rows]

    def state(self) -> Checkpoint:
        return Checkpoint({"views": self._views, "actions": self._actions}, {"taken": self._taken})

    def restore(self, checkpoint: Checkpoint) -> None:
        self._taken = checkpoint.state["taken"]
        self._views = checkpoint.tensors["views"].clone()
        self._actions = checkpoint.tensors["actions"].clone()

    def _add(self, views: list[Tensor], actions: list[int]) -> None:
        self._views = torch.cat([self._views, torch.stack(views)])[: self._max_rows]
        self._actions = torch.cat([self._actions, torch.tensor(actions)])[: self._max_rows]

    def _walk(self, module: nn.Module | None) -> tuple[list[Tensor], list[int]]:
        """Return views and the expert's actions on walks of the policy; `None`: of the expert."""
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
    """Return rooms and walkers after a step, without those at the treasure."""
    moved = [
        (room, room.move(cell, step))
        for room, cell, step in zip(rooms, walkers, steps, strict=True)
    ]
    left = [(room, cell) for room, cell in moved if cell != room.treasure]
    return [room for room, _ in left], [cell for _, cell in left]
