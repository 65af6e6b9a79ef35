from itertools import pairwise

import pytest

from auctune.charts.theme import DARK, LIGHT, Palette, recolouring

PALETTES = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])


def luminance(colour: str) -> float:
    """Relative luminance, WCAG 2.2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_each_colour_has_one_counterpart() -> None:
    colours = [*LIGHT.colours(), *DARK.colours()]
    assert len(set(colours)) == len(colours)
    assert recolouring()[LIGHT.ink] == DARK.ink
    assert recolouring()[LIGHT.use_ramp[-1]] == DARK.use_ramp[-1]


@PALETTES
def test_text_can_be_read(palette: Palette) -> None:
    assert contrast(palette.ink, palette.surface) >= 12
    assert contrast(palette.muted, palette.surface) >= 4.5
    for ramp in (palette.price_ramp, palette.use_ramp):
        half = (len(ramp) + 1) // 2
        assert all(contrast(palette.text_on_low, colour) >= 4.5 for colour in ramp[:half])
        assert all(contrast(palette.text_on_high, colour) >= 4.5 for colour in ramp[half:])


@PALETTES
def test_ramps_go_one_way_in_lightness(palette: Palette) -> None:
    for ramp in (palette.price_ramp, palette.use_ramp):
        away = [contrast(colour, palette.surface) for colour in ramp]
        assert all(left < right for left, right in pairwise(away))


@PALETTES
def test_marks_stand_out_from_the_ground(palette: Palette) -> None:
    for colour in (palette.accent, palette.warning, palette.market, palette.vendor):
        assert contrast(colour, palette.surface) >= 3
