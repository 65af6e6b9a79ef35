import numpy as np
import pytest
import torch

from auctune.train.multilora.dropout import (
    keep_mask,
    keep_scale,
    layer_key,
    mix,
    num_dropped_levels,
    row_key,
    signed,
)

GOLDEN = 0x9E3779B97F4A7C15
BITS = (1 << 64) - 1


def masks(
    keys: list[int], layer: str = "layer", width: int = 5, features: int = 7, rate: float = 0.5
) -> torch.Tensor:
    """bool [rows, width, features] of rows of equal length."""
    by_token = torch.tensor(keys).repeat_interleave(width)
    positions = torch.arange(width).repeat(len(keys))
    dropped = torch.full_like(by_token, num_dropped_levels(rate))
    mask = keep_mask(by_token, positions, layer_key(layer), dropped, features)
    return mask.view(len(keys), width, features)


def mask_of(
    places: list[int], width: int = 5, features: int = 7, rate: float = 0.5
) -> torch.Tensor:
    keys = [row_key(1, place) for place in places]
    return masks(keys, width=width, features=features, rate=rate)


def test_mixing_gives_the_published_numbers_of_splitmix64() -> None:
    # The generator's first numbers from the state 1234567, as its authors' code prints them.
    state, numbers = 1234567, []
    for _ in range(3):
        state = (state + GOLDEN) & BITS
        numbers.append(mix(state))
    assert numbers == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_a_mask_is_what_its_formula_says_number_by_number() -> None:
    key, layer, width, features, rate = row_key(3, 8), layer_key("h.0"), 3, 10, 0.3
    levels = num_dropped_levels(rate)
    mask = masks([key], "h.0", width, features, rate)
    start = mix((key ^ layer) & BITS)
    words_per_token = 3  # ten features at four a word
    for token in range(width):
        for feature in range(features):
            number = token * words_per_token + feature // 4 + 1
            word = mix((start + number * GOLDEN) & BITS)
            lane = np.array([word], dtype="<u8").view("<i2")[feature % 4]
            assert mask[0, token, feature].item() == (int(lane) + (1 << 15) >= levels)


def test_a_rows_mask_depends_on_neither_its_company_nor_its_padding() -> None:
    alone = mask_of([4])[0]
    assert torch.equal(mask_of([9, 4, 2])[1], alone)
    assert torch.equal(mask_of([4], width=9)[0, :5], alone)


def test_rows_layers_and_seeds_have_masks_of_their_own() -> None:
    keys = [row_key(1, 0), row_key(1, 1), row_key(2, 0)]
    drawn = [mask for layer in ("a", "b") for mask in masks(keys, layer, 16, 64)]
    for index, one in enumerate(drawn):
        for other in drawn[:index]:
            # Of 1024 fair coins in common, 640 or more would be a wonder of 1 in 10^15.
            assert (one == other).sum() < 640


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.1, 0.5, 0.9, 0.999999])
def test_as_much_is_dropped_as_asked_for(rate: float) -> None:
    mask = mask_of(list(range(64)), width=32, features=128, rate=rate)
    kept = mask.double().mean().item()
    assert kept == pytest.approx(1 - num_dropped_levels(rate) / 65536, abs=2.5e-3)
    assert kept * keep_scale(rate) == pytest.approx(1.0, abs=0.03) or rate > 0.99


def test_without_dropout_everything_is_kept_as_it_is() -> None:
    assert mask_of([1, 2], rate=0.0).all()
    assert keep_scale(0.0) == 1.0


@pytest.mark.parametrize("value", [0, 1, (1 << 63) - 1, 1 << 63, BITS])
def test_signed_keeps_the_bits(value: int) -> None:
    assert signed(value) & BITS == value
    assert -(1 << 63) <= signed(value) < 1 << 63
