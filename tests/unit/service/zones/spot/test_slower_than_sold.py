"""A machine slower than sold: what its slots missed is not charged to metered jobs."""

from decimal import Decimal
from typing import Any

import pytest

from auctune.engine.messages.spot import CapReached, SpotReply
from auctune.service.ledger import user_account
from auctune.service.storage.event_log import EventType
from auctune.service.zones.core.job import SLOWER_THAN_SOLD
from auctune.service.zones.spot.worker import on_message
from support import run_events
from support.late_rentals import LateRentals


class Rental:
    """An admitted job whose process is played slot by slot."""

    def __init__(self) -> None:
        self.rentals = LateRentals(seed=0)
        bid = self.rentals.estimated()
        self.rentals.zone.decide(bid)
        self.id = bid.job

    @property
    def job(self) -> Any:
        return self.rentals.zone.state.jobs[self.id]

    def send(self, message: SpotReply) -> None:
        on_message(self.rentals.zone, self.id, message)

    def slot(self, number: int, *, skipped: bool = False) -> None:
        before = 2 if number else 0
        self.send(run_events.slot(number, spot=2, spot_before=before, skipped=skipped))

    def slot_done(self, rows: int, preempted: int = 0) -> None:
        self.send(run_events.slot_done(rows, preempted=preempted))

    def owed(self) -> Decimal:
        """What the ledger says that its owner owes."""
        log = self.rentals.log
        log.record(self.rentals.zone.pop_events(), lambda _: None)
        sums = log.balances()
        assert sum(sums.values()) == 0
        return sums.get(user_account("ann"), Decimal(0))


def test_the_charge_of_a_slot_that_trained_less_than_sold_is_refunded() -> None:
    rental = Rental()
    rental.slot(0)
    charged = rental.job.meter.charged
    assert charged > 0
    rental.slot_done(rows=0)
    assert rental.job.meter.charged == rental.owed() == 0
    assert rental.job.notes == [SLOWER_THAN_SOLD]
    rental.slot(1)
    assert rental.owed() == rental.job.meter.charged > 0
    state = rental.rentals.zone.state
    rental.rentals.restart()
    assert rental.rentals.zone.state == state


def test_a_slot_that_trained_what_was_sold_is_paid() -> None:
    rental = Rental()
    rental.slot(0)
    sold = rental.job.newest_promised / rental.job.terms.workload * rental.job.total_rows
    rental.slot_done(rows=round(sold))
    assert rental.owed() == rental.job.meter.charged > 0
    assert not rental.job.notes


def test_a_slot_that_lost_an_instance_to_the_market_is_paid() -> None:
    rental = Rental()
    rental.slot(0)
    rental.slot_done(rows=0, preempted=1)
    assert rental.owed() == rental.job.meter.charged > 0


@pytest.mark.parametrize("was_paused", [False, True])
def test_work_after_the_deadline_is_free_after_a_missed_slot_but_not_after_a_pause(
    was_paused: bool,
) -> None:
    rental = Rental()
    if was_paused:
        rental.rentals.zone.pause(rental.id)
        rental.rentals.zone.resume(rental.id)
    rental.slot(0, skipped=True)
    rental.send(run_events.overtime(20.0, 21.0, rows=0))
    assert (rental.owed() > 0) is was_paused


def test_a_job_that_the_service_missed_never_pays_its_cap_without_an_adapter() -> None:
    rental = Rental()
    rental.slot(0)
    rental.slot(1, skipped=True)
    assert rental.owed() > 0
    rental.send(CapReached(rate=1.0))
    assert rental.owed() == 0
    (failed,) = (e for e, _ in rental.rentals.log.events if e.type == EventType.FAILED)
    assert failed.body["refund"]
    assert "slower than sold" in failed.body["message"]


def test_a_job_that_had_all_that_was_sold_pays_up_to_its_cap() -> None:
    rental = Rental()
    rental.slot(0)
    rental.send(CapReached(rate=1.0))
    assert rental.owed() > 0
