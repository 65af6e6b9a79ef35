"""Counter-based dropout: masks that depend on a key alone, not on the device or other rows.

Whether feature f of token t of a row is kept in a layer is decided by 16 bits of

    splitmix64(key(seed, row's place in the job's stream of rows, layer), word(t, f))

a counter-based generator: the word's number is mixed with the key by the finalizer of Steele, Lea
and Flood ("Fast splittable pseudorandom number generators", OOPSLA 2014). A row's place counts over
all epochs, hence names step and place in the micro-batch. The width to which a row is padded, and
what shares its batch, do not enter; a pass that is recomputed gets the same mask.

A probability is rounded to 1/65536, and kept features are scaled by the rounded one.
"""

import hashlib

import torch
from torch import Tensor

LANES = 4  # decisions of 16 bits in one word of 64
LEVELS = 1 << 16
_BITS = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def mix(value: int) -> int:
    """splitmix64's finalizer of a 64-bit number."""
    value = ((value ^ (value >> 30)) * _FIRST) & _BITS
    value = ((value ^ (value >> 27)) * _SECOND) & _BITS
    return value ^ (value >> 31)


def signed(value: int) -> int:
    """The int64 with the same bits."""
    return value - (1 << 64) if value >> 63 else value


def row_key(seed: int, place: int) -> int:
    """Key of the row that a job with `seed` takes at `place` of its stream, as an int64."""
    return signed(mix((mix((seed + _GOLDEN) & _BITS) + place * _GOLDEN) & _BITS))


def layer_key(name: str) -> int:
    """Key of a layer, from its name in the model, as an int64."""
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def num_dropped_levels(probability: float) -> int:
    """How many of the 65536 values of a decision drop the feature."""
    return min(round(probability * LEVELS), LEVELS - 1)


def keep_scale(probability: float) -> float:
    """What kept features are multiplied by."""
    return LEVELS / (LEVELS - num_dropped_levels(probability))


def keep_mask(
    row_keys: Tensor, positions: Tensor, layer: int, dropped: Tensor, features: int
) -> Tensor:
    """Which features of N tokens are kept: bool [N, features].

    Args:
        row_keys: int64 [N], of each token's row.
        positions: int64 [N], of each token in its row.
        layer: of `layer_key`.
        dropped: int64 [N], of `num_dropped_levels`.
        features: of a token.
    """
    words_per_token = -(-features // LANES)
    keys = _mix_in_place(row_keys ^ layer)
    counters = torch.arange(1, words_per_token + 1, device=row_keys.device)
    counters = positions.unsqueeze(1) * words_per_token + counters
    words = keys.unsqueeze(1) + counters.mul_(signed(_GOLDEN))
    lanes = _mix_in_place(words).view(torch.int16).view(len(row_keys), -1)
    lowest_kept = (dropped - LEVELS // 2).to(torch.int16)
    return lanes[:, :features] >= lowest_kept.unsqueeze(1)


def _mix_in_place(words: Tensor) -> Tensor:
    # Shifting an int64 right copies its sign; the masks take these bits away.
    scratch = words >> 30
    words ^= scratch.bitwise_and_(_BITS >> 30)
    words *= signed(_FIRST)
    torch.bitwise_right_shift(words, 27, out=scratch)
    words ^= scratch.bitwise_and_(_BITS >> 27)
    words *= signed(_SECOND)
    torch.bitwise_right_shift(words, 31, out=scratch)
    words ^= scratch.bitwise_and_(_BITS >> 31)
    return words
