"""Kinds of instances."""

from enum import StrEnum


class Kind(StrEnum):
    """How an instance is rented."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
