"""Events of a rented job's run: recorded once, also those of a log that was in its folder."""

from typing import Any

import pytest

from auctune.engine.messages.spot import RunEvent
from auctune.engine.spot.state import SpotRunState
from auctune.service.storage.event_log import ZoneEvent
from auctune.service.zones.core.job import SLOWER_THAN_SOLD
from auctune.service.zones.spot.state import SpotEventType, SpotJobState, empty_model
from auctune.service.zones.spot.worker import import_events, on_message
from auctune.service.zones.spot.zone import SpotZone
from support import run_events
from support.late_rentals import LateRentals

RUN = [
    run_events.slot(0, spot=2),
    run_events.slot_done(300, losses=[[1, 300, 2100, 1.5, 0.5]]),
    run_events.slot(1, spot=2, spot_before=2),
    # Less than sold: its charge is given back.
    run_events.slot_done(301),
    run_events.slot(2, skipped=True),
    run_events.overtime(3.0, 3.5, 310),
    run_events.overtime(3.5, 4.0, 320),
]


class Rental:
    """A job that was just admitted."""

    def __init__(self) -> None:
        self.rentals = LateRentals(seed=0)
        bid = self.rentals.estimated()
        self.rentals.zone.decide(bid)
        self.id = bid.job

    @property
    def zone(self) -> SpotZone:
        return self.rentals.zone

    @property
    def job(self) -> SpotJobState:
        return self.zone.state.jobs[self.id]

    def send(self, message: RunEvent) -> None:
        assert on_message(self.zone, self.id, message)

    def events(self) -> list[ZoneEvent]:
        log = self.rentals.log
        log.record(self.zone.pop_events(), lambda _: None)
        return [event for event, _ in log.events]

    def as_of_version_11(self) -> None:
        """Go on from the same log without the events of runs, which such a log lacks."""
        model = empty_model({})
        for event in self.events():
            if event.type != SpotEventType.RUN_EVENT:
                model.apply(event)
        self.rentals.zone = SpotZone("rented", self.zone.rental, model, self.rentals.log)


def of_runs(events: list[ZoneEvent]) -> list[Any]:
    return [event.body["event"] for event in events if event.type == SpotEventType.RUN_EVENT]


def old(event: dict[str, Any]) -> dict[str, Any]:
    """An event as logs in a run's folder had it."""
    later = ["paid", "preempted"] if event["type"] == "slot_done" else []
    later += ["rows", "trained"] if event["type"] == "overtime" else []
    return {key: value for key, value in event.items() if key not in later}


def test_an_event_is_recorded_as_it_is_with_what_it_means() -> None:
    rental = Rental()
    for message in RUN:
        rental.send(message)
    assert of_runs(rental.events()) == [message.event for message in RUN]
    assert rental.job.meter.next_slot == 5
    assert rental.job.progress.rows == 320
    assert rental.job.notes == [SLOWER_THAN_SOLD]


@pytest.mark.parametrize("num_recorded", range(len(RUN) + 1))
def test_the_log_of_a_run_in_its_folder_is_imported_and_nothing_is_charged_twice(
    num_recorded: int,
) -> None:
    whole, imported = Rental(), Rental()
    for message in RUN:
        whole.send(message)
    for message in RUN[:num_recorded]:
        imported.send(message)
    imported.as_of_version_11()
    events = [old(message.event) for message in RUN]
    import_events(imported.zone, imported.id, events)
    assert imported.job.meter == whole.job.meter
    assert imported.job.notes == whole.job.notes
    # What was trained after the deadline was not in it.
    if num_recorded == len(RUN):
        assert imported.job.progress == whole.job.progress
    recorded = of_runs(imported.events())[num_recorded:]
    state = SpotRunState.fold(recorded)
    assert [slot.rows for slot in state.slots] == [300, 301, 301]
    assert state.overtime == [(3.0, 3.5), (3.5, 4.0)]
    numbers = [one.body["slot"] for one in imported.events() if one.type == "job.metered"]
    assert numbers == [0, 1, 2, 3, 4]


def test_nothing_is_recorded_of_a_job_that_has_ended() -> None:
    rental = Rental()
    rental.zone.cancel(rental.id)
    before = rental.events()
    assert not on_message(rental.zone, rental.id, RUN[0])
    assert rental.events() == before
