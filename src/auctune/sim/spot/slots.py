"""From records to slots: a slot's price is the mean over its time, its count the least in it.

Whoever holds instances for a whole slot can count on no more than were there all the time.
"""

import math

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.numerics.arrays import Floats, Ints
from auctune.sim.spot.trace import SpotTrace

# Edges of slots and of lines that differ by less than this share of a line are one.
_SAME = 1e-6

# Of a market: half a minute each for ten years, and no more than memory has room for.
_MOST_SLOTS = 10**7


def slot_prices(trace: SpotTrace, start_s: float, slot_seconds: float, num_slots: int) -> Floats:
    """[t] the time mean of the price in each slot, in the file's money.

    Args:
        trace: that has prices.
        start_s: when slot 0 begins, in the trace's time.
        slot_seconds: length of a slot.
        num_slots: at most `whole_slots`.

    Raises:
        InputError: if the trace has no prices, or not for all the slots.
    """
    price = trace.recorded_price()
    means = np.empty(num_slots)
    for slot, (begin, end) in enumerate(_edges(trace, start_s, slot_seconds, num_slots)):
        lines = np.arange(math.floor(begin), math.ceil(end))
        held = np.minimum(lines + 1, end) - np.maximum(lines, begin)
        part = price[lines]
        # A price that does not change is its own mean to the last bit.
        flat = part.min() == part.max()
        means[slot] = part[0] if flat else float(part @ held) / (end - begin)
    return means


def slot_counts(trace: SpotTrace, start_s: float, slot_seconds: float, num_slots: int) -> Ints:
    """[t] the least count in each slot; arguments and errors as of `slot_prices`."""
    available = trace.recorded_available()
    edges = _edges(trace, start_s, slot_seconds, num_slots)
    least = [available[math.floor(begin) : math.ceil(end)].min() for begin, end in edges]
    return np.array(least, dtype=np.int64)


def whole_slots(trace: SpotTrace, start_s: float, slot_seconds: float) -> int:
    """Slots from `start_s` on that the trace covers; a part of one at its end is left out.

    Raises:
        InputError: if there is none or more than 10^7, or the start lies before the trace.
    """
    check_positive(slot_seconds, "slot_seconds", "a number > 0")
    lines = (trace.end_s - start_s) / trace.step_seconds
    slots = lines * trace.step_seconds / slot_seconds + _SAME
    covered = f"covers {trace.t_s[0]:g} to {trace.end_s:g} s"
    wanted = f"slots of {slot_seconds:g} s from {start_s:g} s on"
    if start_s < trace.t_s[0] or slots < 1:
        raise InputError(trace.place, covered, wanted)
    if slots > _MOST_SLOTS:
        raise InputError(trace.place, covered, f"{wanted}, at most {_MOST_SLOTS} of them")
    return math.floor(slots)


def _edges(
    trace: SpotTrace, start_s: float, slot_seconds: float, num_slots: int
) -> list[tuple[float, float]]:
    """Beginning and end of each slot, in lines of the trace."""
    if num_slots > whole_slots(trace, start_s, slot_seconds):
        raise InputError(trace.place, f"ends at {trace.end_s:g} s", f"{num_slots} slots")
    first = start_s - float(trace.t_s[0])
    edges = (first + slot_seconds * np.arange(num_slots + 1)) / trace.step_seconds
    near = np.round(edges)
    edges = np.where(np.abs(edges - near) < _SAME, near, edges)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))
