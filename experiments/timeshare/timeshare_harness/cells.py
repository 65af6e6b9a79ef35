"""Cells that several tables show alike."""

from collections.abc import Mapping


def done_cell(row: Mapping[str, float]) -> str:
    """Threads done with their interval, and how long was explored where that was chosen."""
    explored = "" if row["explored"] is None else f" (explored {row['explored']:g})"
    return f"{row['done']:.2f} ±{row['half']:.2f}{explored}"
