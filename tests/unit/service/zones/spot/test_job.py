"""What the zone counts on of a job's instances."""

from dataclasses import replace

import pytest

from auctune.service.storage.event_log import EventType
from auctune.service.zones.spot.worker import on_message
from auctune.spot import InstanceStart, Overhead
from support import run_events
from support.late_rentals import LateRentals


@pytest.mark.parametrize(
    ("overhead", "promised", "preempted"),
    # Of two, one is preempted in the first slot, and another one starts for half of the second.
    [(InstanceStart(0.5), 0.5 * 2 + 2 - 0.5, 1), (Overhead(0.5, 1.0), 0.5 * 2 + 2, None)],
)
def test_by_instance_no_work_is_promised_of_starts_after_a_preemption(
    overhead: InstanceStart | Overhead, promised: float, preempted: int | None
) -> None:
    rentals = LateRentals(seed=0)
    rentals.zone.rental = replace(rentals.zone.rental, overhead=overhead)
    bid = rentals.estimated()
    rentals.zone.decide(bid)
    for number, spot_before in enumerate((0, 1)):
        begun = run_events.slot(number, spot=2, spot_before=spot_before)
        on_message(rentals.zone, bid.job, begun)
    assert rentals.zone.state.jobs[bid.job].promised == pytest.approx(promised)
    rentals.log.record(rentals.zone.pop_events(), lambda _: None)
    metered = [event for event, _ in rentals.log.events if event.type == EventType.METERED]
    assert [event.body.get("preempted") for event in metered] == [None, preempted]
    rentals.restart()
    assert rentals.zone.state.jobs[bid.job].promised == pytest.approx(promised)
