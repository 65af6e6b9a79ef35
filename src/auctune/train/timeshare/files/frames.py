"""What an expert saw of a game and did: frames.npy and actions.npy in a folder.

frames.npy: uint8 (rows, side, side), as Atari games are mostly seen, 84 x 84 and grey.
actions.npy: whole numbers (rows,), 0 to 17. Montezuma's Revenge itself cannot be shipped or played
here; a user who has an emulator writes these two files by it. Nobody walks then but the expert, so
that this is DAgger's first round only.
"""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from auctune.domain.errors import InputError

ACTIONS = 18


def read_frames(folder: Path) -> tuple[Tensor, Tensor]:
    """Frames uint8 (rows, 1, side, side) and actions int64 (rows,).

    Raises:
        InputError: naming the file.
    """
    frames = _load(folder / "frames.npy")
    actions = _load(folder / "actions.npy")
    if frames.dtype != np.uint8 or frames.ndim != 3 or frames.shape[1] != frames.shape[2]:
        found = f"has {frames.dtype} of shape {frames.shape}"
        raise InputError(str(folder / "frames.npy"), found, "uint8 of shape (rows, side, side)")
    whole = np.issubdtype(actions.dtype, np.integer) and actions.shape == (len(frames),)
    if not whole or not len(actions) or actions.min() < 0 or actions.max() >= ACTIONS:
        found = f"has {actions.dtype} of shape {actions.shape}"
        expected = f"{len(frames)} whole numbers of 0 to {ACTIONS - 1}"
        raise InputError(str(folder / "actions.npy"), found, expected)
    return torch.from_numpy(frames).unsqueeze(1), torch.from_numpy(actions.astype(np.int64))


def _load(path: Path) -> np.ndarray:
    try:
        loaded: np.ndarray = np.load(path, allow_pickle=False)
    except OSError as error:
        found = f"cannot be read ({error.strerror or error})"
        raise InputError(str(path), found, "an array of numpy") from None
    except ValueError as error:
        raise InputError(str(path), f"cannot be read ({error})", "an array of numpy") from None
    return loaded
