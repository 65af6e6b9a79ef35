"""Sounds of eight words, each a yes or a no, in place of the recordings of Yesno.

A yes glides up in pitch and a no down, by an amount, from a pitch and with a loudness that differ
from word to word; each has an overtone. A sound is cut into frames, and of each frame the
loudness of 16 bands is kept, by the discrete Fourier transform.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from auctune.numerics.rng import stream

WORDS = 8
FRAMES = 32
FRAME_SAMPLES = 32
BANDS = 16


def sounds(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sounds (count, FRAMES, BANDS) and whether each word is a yes (count, WORDS), float32."""
    draw = stream(seed, "sounds")
    yes = draw.integers(0, 2, (count, WORDS))
    waves = _waves(yes, draw).reshape(count, FRAMES, FRAME_SAMPLES)
    strength = np.abs(np.fft.rfft(waves * np.hanning(FRAME_SAMPLES)))[..., 1 : BANDS + 1]
    features = np.log(strength + 0.1).astype(np.float32)
    return torch.from_numpy(features), torch.from_numpy(yes.astype(np.float32))


def _waves(yes: NDArray[np.int64], draw: np.random.Generator) -> NDArray[np.float64]:
    """Words one after the other: (count, samples of all words)."""
    samples = FRAMES * FRAME_SAMPLES // WORDS
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
