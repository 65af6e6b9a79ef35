"""Reviews of films made up of words, good or bad, in place of those of IMDB.

A review is a row of sentences about parts of a film. Each sentence says something good or bad, or
the contrary with a `not`; the review is good if most of its sentences are. Words that say nothing
stand between them. A share of reviews has the wrong label, as people's have: those can only be
learnt by heart.
"""

import numpy as np
import torch
from torch import Tensor

from auctune.numerics.rng import stream

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
    """Reviews (count, LENGTH), numbers of words, and whether they are good (count,), int64.

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
