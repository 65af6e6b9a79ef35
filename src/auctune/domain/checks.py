"""Checks of numbers that more than one type of the domain makes."""

import math

from auctune.domain.errors import InputError


def check_finite(value: float, place: str, expected: str) -> None:
    """Refuse a number that is not finite or is below zero.

    Raises:
        InputError: naming `place` and `expected`.
    """
    if not (math.isfinite(value) and value >= 0):
        raise InputError(place, f"{value!r}", expected)


def check_positive(value: float, place: str, expected: str) -> None:
    """Refuse a number that is not finite or is not above zero.

    Raises:
        InputError: naming `place` and `expected`.
    """
    if not (math.isfinite(value) and value > 0):
        raise InputError(place, f"{value!r}", expected)


def check_count(value: int, place: str, least: int) -> None:
    """Refuse a whole number under the least that is allowed.

    Raises:
        InputError: naming `place`.
    """
    if value < least:
        raise InputError(place, f"{value!r}", f"a whole number >= {least}")
