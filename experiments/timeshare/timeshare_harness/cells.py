"""Cells that several tables show alike."""

from collections.abc import Mapping


def done_cell(row: Mapping[str, float]) -> str:
    """Threads done with their interval, and how long was explored where that was chosen."""
    explored = "" if row["explored"] is None else f" (explored {row['explored']:g})"
    return f"{row['done']:.2f} ±{row['done_half']:.2f}{explored}"


def ahead_cell(row: Mapping[str, float]) -> str:
    """By how much auctune's own does more, with the interval of paired differences."""
    return f"{row['ahead']:+.2f} ±{row['ahead_half']:.2f}"
