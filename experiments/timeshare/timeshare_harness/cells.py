"""Cells that several tables show alike."""

from collections.abc import Mapping
from typing import Any

from timeshare_harness.rivals import OWN


def done_cell(row: Mapping[str, Any]) -> str:
    """Threads done, how long was explored where that was chosen, and auctune's own lead.

    The lead is the mean of paired differences, with its interval; auctune's own allocator has the
    interval of what it does in its place.
    """
    if row["allocator"] == OWN:
        return f"{row['done']:.2f} ±{row['done_half']:.2f}"
    explored = "" if row["explored"] is None else f", explored {row['explored']:g}"
    lead = f"{OWN} {row['ahead']:+.2f} ±{row['ahead_half']:.2f}"
    return f"{row['done']:.2f} ({lead}{explored})"
