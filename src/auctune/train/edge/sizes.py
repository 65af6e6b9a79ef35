"""How many parameters the models have, for those who must not load torch to know it."""

from collections.abc import Callable, Mapping

Shape = tuple[int, int, int]
"""Channels, height, width."""


def _convolution(side: int, inside: int, outside: int) -> int:
    return side * side * inside * outside


def _small(shape: Shape, num_classes: int) -> int:
    channels, height, width = shape
    convolutions = _convolution(3, channels, 8) + 8 + _convolution(3, 8, 16) + 16
    inside = 16 * ((height + 1) // 2) * ((width + 1) // 2)
    return convolutions + (inside + 1) * num_classes


def _lenet(shape: Shape, num_classes: int) -> int:
    convolutions = _convolution(5, shape[0], 6) + 6 + _convolution(5, 6, 16) + 16
    return convolutions + 257 * 120 + 121 * 84 + 85 * num_classes


def _residual(shape: Shape, num_classes: int) -> int:
    blocks = sum(
        _convolution(3, inside, outside)
        + _convolution(3, outside, outside)
        + 4 * outside
        + (0 if inside == outside else _convolution(1, inside, outside))
        for inside, outside in ((16, 16), (16, 32), (32, 64))
    )
    return _convolution(3, shape[0], 16) + 32 + blocks + 65 * num_classes


NUM_PARAMETERS: Mapping[str, Callable[[Shape, int], int]] = {
    "small": _small,
    "lenet": _lenet,
    "residual": _residual,
}
"""By model: how many, for images of a shape and a number of classes."""
