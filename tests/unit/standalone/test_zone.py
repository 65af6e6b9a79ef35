"""A zone without a service: its clock and its log."""

import pytest

from auctune.standalone.zone import LogicalClock


@pytest.mark.parametrize("slot_seconds", [1e-9, 0.01, 0.05, 0.11, 1.0, 3600.0])
def test_the_clock_is_at_the_slot_that_a_run_has_reached_however_short_slots_are(
    slot_seconds: float,
) -> None:
    clock = LogicalClock(1_795_831_510.123, slot_seconds)
    for slot in range(2000):
        clock.slot = slot
        assert clock.slots.slot() == slot
