"""The process of one rented job of a service: its coordinator, tethered to whoever started it.

| message | says |
| --- | --- |
| ready {} | it has loaded all, and trains as soon as a slot is there for it |
| slot {slot, price, available, on_demand_price, on_demand, spot, paid} | what is held in a slot |
| slot_done {slot, rows, steps, tokens, losses, taken_back} | what came of it |
| held {slot, paid, ...} | a piece of the ending, likewise numbered, with what is trained by then |
| noted {text} | what an operator should know |
| ended {state, note, finish} | all is done; the adapter is there if the state is "done" |
| capped {rate} | the slot that comes next would cost so much, more than may be paid |
| failed {place, found, expected} | it cannot be done |
| stopped {} | it was to stop, and can go on |

The journal of its folder is the truth: a process that goes on first says again what is on record,
by the same numbers, so that who was killed before it heard them hears them.
"""

from pathlib import Path
from typing import Any

import numpy as np

from auctune.domain import AuctuneError
from auctune.run.event_log import read_events
from auctune.run.rental.estimate import Renting
from auctune.run.rental.order import RentedOrder, read_order, run_folder
from auctune.run.runtime.channel import ParentChannel, error_record
from auctune.run.spot.clock import UnixClock
from auctune.run.spot.cluster.supply import ClusterSupply
from auctune.run.spot.errors import CapReachedError, StoppedError
from auctune.run.spot.folder import SpotFolder
from auctune.run.spot.foresight import Foresee, Foresight, NoForesight
from auctune.run.spot.job import run_spot_job
from auctune.run.spot.market_provider import ReplayedMarket
from auctune.run.spot.order import SpotOrder
from auctune.run.spot.provider import Supply
from auctune.run.spot.state import SlotRecord, SpotRunState
from auctune.run.spot.trace import MarketTrace
from auctune.run.spot_ray_params import SpotRayParams
from auctune.spot.market import SpotMarket
from auctune.spot.policy import Policy
from auctune.train.job import LoraJob, Progress


class Teller:
    """A `SpotListener` that tells the parent.

    Args:
        parent: who is told.
        order: of the job.
    """

    def __init__(self, parent: ParentChannel, order: RentedOrder) -> None:
        self._parent = parent
        self._deadline, self._n_max = order.job.deadline, order.job.n_max
        self._num_held = 0
        self._price = 1.0
        self._progress: Progress | None = None
        self._losses: list[tuple[int, int, float]] = []

    def repeat(self, state: SpotRunState) -> None:
        """Say again what is on record."""
        for record in state.slots:
            self.slot_begun(record)
            if record.rows is not None:
                self.slot_done(record)
        for since, until in state.held:
            self.ending_held(since, until)

    def slot_begun(self, record: SlotRecord) -> None:
        """See `SpotListener`."""
        seen, held = record.observation, record.allocation
        self._price = seen.on_demand_price
        self._parent.send(
            "slot",
            slot=seen.slot,
            price=seen.price,
            available=seen.available,
            on_demand_price=seen.on_demand_price,
            on_demand=held.on_demand,
            spot=held.spot,
            paid=record.paid,
            missed=record.is_missed,
        )

    def trained(self, now: float, num_workers: int, progress: Progress) -> None:
        """See `SpotListener`."""
        self._progress = progress
        self._losses += progress.losses

    def taken_back(self, now: float, count: int) -> None:
        """See `SpotListener`; the slot's end says it."""

    def slot_done(self, record: SlotRecord) -> None:
        """See `SpotListener`."""
        self._losses.clear()
        trained = record.trained or {"steps": None, "tokens": None, "losses": []}
        self._parent.send(
            "slot_done",
            slot=record.observation.slot,
            rows=record.rows,
            taken_back=record.taken_back,
            **trained,
        )

    def ending_begun(self, now: float, num_instances: int) -> None:
        """See `SpotListener`."""
        self._parent.send("noted", text="past its deadline: the rest runs on demand")

    def ending_held(self, since: float, until: float) -> None:
        """See `SpotListener`."""
        found, losses = self._progress, list(self._losses)
        self._losses.clear()
        self._parent.send(
            "held",
            slot=self._deadline + self._num_held,
            since=since,
            until=until,
            on_demand=self._n_max,
            on_demand_price=self._price,
            paid=self._price * self._n_max * (until - since),
            rows=found.rows if found is not None else None,
            steps=found.steps if found is not None else None,
            tokens=found.tokens if found is not None else None,
            losses=losses,
        )
        self._num_held += 1

    def noted(self, text: str) -> None:
        """See `SpotListener`."""
        self._parent.send("noted", text=text)

    def data_noted(self, text: str) -> None:
        """See `SpotListener`; the service knows it from the size of the data."""


def main(parent: ParentChannel, folder: str) -> None:
    """Run the job of a folder."""
    try:
        _run(parent, Path(folder))
    except StoppedError:
        parent.send("stopped")
    except CapReachedError as error:
        parent.send("capped", rate=error.rate)
    except AuctuneError as error:
        parent.send("failed", **error_record(error))


def _run(parent: ParentChannel, folder: Path) -> None:
    order, place = read_order(folder), SpotFolder(run_folder(folder))
    teller = Teller(parent, order)
    teller.repeat(SpotRunState.fold(read_events(place.event_log)))
    renting = Renting(order.policy, order.forecast)
    policy = renting.read_policy()
    spot_order = _spot_order(order)

    def make_clock(_rows: int) -> UnixClock:
        # A run has loaded its base and its data by the time at which it needs a clock.
        parent.send("ready")
        return UnixClock(order.begins, order.slot_seconds)

    report = run_spot_job(
        spot_order,
        policy,
        _supply(order),
        place.root,
        cache=Path(order.cache),
        make_clock=make_clock,
        foresee=_foresight(policy, renting, order),
        listener=teller,
        resume=place.has_started,
        saved_every=order.saved_every,
        cap=order.cap,
        is_stopped=parent.stop_requested.is_set,
    )
    ended = SpotRunState.fold(read_events(place.event_log)).ended
    assert ended is not None
    parent.send("ended", state=ended["state"], note=report.note, finish=report.outcome.finish)


def _spot_order(order: RentedOrder) -> SpotOrder:
    training: dict[str, Any] = {
        **order.training,
        "target_modules": tuple(order.training["target_modules"]),
    }
    return SpotOrder(
        job=order.job.job(),
        training=LoraJob(
            id="job",
            data=Path(order.data),
            validation=None if order.validation is None else Path(order.validation),
            **training,
        ),
        base=order.base,
        micro_batch=order.micro_batch,
        device=order.device,
        dtype=order.dtype,
        threads=order.threads,
    )


def _supply(order: RentedOrder) -> Supply:
    trace = _trace(order.trace)
    if order.ray is None:
        return ReplayedMarket(trace, order.warm)
    return ClusterSupply(trace, SpotRayParams.from_record(order.ray), order.job.n_max)


def _trace(record: dict[str, list[Any]]) -> MarketTrace:
    return MarketTrace(
        np.array(record["times"]), np.array(record["price"]), np.array(record["available"])
    )


def _foresight(policy: Policy, renting: Renting, order: RentedOrder) -> Foresee:
    if policy.horizon == 0:
        return NoForesight()
    past = SpotMarket(
        np.array(order.seen["price"]),
        np.array(order.seen["available"], dtype=np.int64),
        slot_seconds=order.market_slot_seconds,
    )
    forecaster = renting.read_foretelling().forecaster(past, seed=0)
    return Foresight(forecaster, past, policy.horizon, order.job.deadline)
