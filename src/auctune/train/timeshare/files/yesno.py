"""Sixty recordings of eight words each, yes or no: Yesno (openslr.org, SLR1), from its folder.

waves_yesno/0_0_1_0_1_0_1_1.wav: 8 kHz, one channel, 16 bits; its name says the words, 1 for yes.
A recording is cut, or filled with silence, to the same length; of each frame the loudness of bands
of the discrete Fourier transform is kept.
"""

import re
import wave
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from auctune.domain.errors import InputError

RATE = 8000
FRAME_SAMPLES = 512
FRAMES = 96
BANDS = 32
_NAME = re.compile(r"([01])" + r"_([01])" * 7)
EXPECTED = "Yesno's 0_0_0_0_1_1_1_1.wav and the like"


def read_yesno(folder: Path) -> tuple[Tensor, Tensor]:
    """Sounds (rows, FRAMES, BANDS) and whether each word is a yes (rows, 8), float32.

    Raises:
        InputError: naming the folder or the file.
    """
    named = [(path, _NAME.fullmatch(path.stem)) for path in sorted(folder.glob("*.wav"))]
    paths = [(path, match) for path, match in named if match is not None]
    if not paths:
        raise InputError(str(folder), "has no recordings", EXPECTED)
    sounds = np.stack([_features(_samples(path)) for path, _ in paths])
    words = [[float(word) for word in match.groups()] for _, match in paths]
    return torch.from_numpy(sounds), torch.tensor(words)


def _samples(path: Path) -> NDArray[np.float64]:
    expected = f"a WAV file of {RATE} Hz, one channel, 16 bits"
    try:
        with wave.open(str(path), "rb") as file:
            shape = file.getframerate(), file.getnchannels(), file.getsampwidth()
            data = file.readframes(file.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        raise InputError(str(path), f"cannot be read ({error})", expected) from None
    if shape != (RATE, 1, 2):
        found = f"has {shape[0]} Hz, {shape[1]} channels, {8 * shape[2]} bits"
        raise InputError(str(path), found, expected)
    return np.frombuffer(data, dtype="<i2") / 32768.0


def _features(samples: NDArray[np.float64]) -> NDArray[np.float32]:
    whole = np.zeros(FRAMES * FRAME_SAMPLES)
    whole[: len(samples)] = samples[: len(whole)]
    frames = whole.reshape(FRAMES, FRAME_SAMPLES) * np.hanning(FRAME_SAMPLES)
    strength = np.abs(np.fft.rfft(frames))[:, : FRAME_SAMPLES // 2]
    bands = strength.reshape(FRAMES, BANDS, -1).mean(2)
    features: NDArray[np.float32] = np.log(bands + 1e-3).astype(np.float32)
    return features
