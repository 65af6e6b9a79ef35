"""The process of one spot job of the service: its coordinator, which exits with its parent.

It is a process of its own because its fork server holds the job's base and data, gradients need not
pass through the service's interpreter, and Ray ends a driver that loses its cluster.
"""

import shutil
import traceback
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from auctune.domain import AuctuneError
from auctune.engine.elastic.errors import SlotError
from auctune.engine.messages.base import ErrorRecord, Failed
from auctune.engine.messages.spot import (
    SPOT_MESSAGES,
    BeginRun,
    CapReached,
    EventCommitted,
    JobReady,
    JobWarning,
    RunEvent,
    SpotReply,
    SpotRequest,
)
from auctune.engine.runtime.channel import ParentChannel
from auctune.engine.runtime.requests import WorkerEndedError
from auctune.engine.spot.clock import UnixClock
from auctune.engine.spot.coordinator import CapReachedError, ForecastSource, StoppedError
from auctune.engine.spot.job import (
    SpotFolder,
    SpotRunConfig,
    forecast_source,
    make_provider,
    train_job,
)
from auctune.engine.spot.job_config import SPOT_JOB_CONFIG, SpotJobConfig, SpotStrategy
from auctune.engine.spot.state import EventRecord, SpotEvent, Warned
from auctune.engine.spot.traces import MarketTrace
from auctune.spot.market import SpotMarket
from auctune.spot.policy import Policy

MESSAGES = SPOT_MESSAGES
Parent = ParentChannel[SpotReply, SpotRequest]

T = TypeVar("T", BeginRun, EventCommitted)


class ServiceLog:
    """A `RunLog` in the log of the service, which commits each event.

    Args:
        parent: the service.
        events: of the job's run so far.
    """

    def __init__(self, parent: Parent, events: Sequence[EventRecord]) -> None:
        self._parent = parent
        self.events = list(events)

    def append(self, event: EventRecord) -> None:
        """Have an event recorded; when this returns, it is on disk.

        Raises:
            StoppedError: if the job has ended: nothing more is recorded of it.
        """
        self._parent.send(RunEvent(event=event))
        if not _receive(self._parent, EventCommitted).is_open:
            raise StoppedError("the job has ended")
        self.events.append(event)


def _receive(parent: Parent, kind: type[T]) -> T:
    """Return the next request of a class; of a requested stop, the channel has a flag."""
    while not isinstance(request := parent.inbox.get(), kind):
        pass
    return request


def main(parent: Parent, argument: dict[str, Any]) -> None:
    """Run a job."""
    config = SPOT_JOB_CONFIG.validate_python(argument)
    log = ServiceLog(parent, _receive(parent, BeginRun).events)
    try:
        _run(parent, config, log)
    except StoppedError:
        # It goes on from the log.
        return
    except CapReachedError as error:
        parent.send(CapReached(rate=error.rate))
    except (WorkerEndedError, SlotError):
        # It is started again, and goes on from its newest checkpoint.
        traceback.print_exc()
        parent.exit(1)
    except AuctuneError as error:
        parent.send(Failed(error=ErrorRecord.of(error)))


def _run(parent: Parent, config: SpotJobConfig, log: ServiceLog) -> None:
    strategy = SpotStrategy(config.policy, config.forecast)
    policy = strategy.read_policy()
    trace = MarketTrace.read(config.trace)
    place = SpotFolder(config.folder)
    if not log.events:
        # Of a run that the log does not know: its database is a copy from before.
        shutil.rmtree(place.state, ignore_errors=True)
    place.state.mkdir(parents=True, exist_ok=True)
    provider = make_provider(trace, config.job.n_max, ray=config.ray, warm=True)
    run = SpotRunConfig(
        job=config.job.job(), workers=config.workers, micro_batch=config.micro_batch
    )
    provider.check(run.job)

    def make_clock(_rows: int) -> UnixClock:
        # Base and data are loaded by the time a run makes its clock.
        parent.send(JobReady())
        return UnixClock(config.begins, config.slot_seconds)

    def on_event(event: SpotEvent) -> None:
        if isinstance(event, Warned):
            parent.send(JobWarning(text=event.text))

    train_job(
        run,
        policy,
        provider,
        place,
        log,
        make_clock=make_clock,
        forecast=_forecast(policy, strategy, config),
        on_event=on_event,
        saved_every=config.saved_every,
        cap=config.cap,
        should_stop=parent.stop_requested.is_set,
    )


def _forecast(policy: Policy, strategy: SpotStrategy, config: SpotJobConfig) -> ForecastSource:
    history = SpotMarket(
        np.array(config.history["price"]),
        np.array(config.history["available"], dtype=np.int64),
        slot_seconds=config.market_slot_seconds,
    )
    return forecast_source(
        policy,
        config.job.deadline,
        lambda: strategy.read_forecaster().forecaster(history, seed=0),
        history,
    )
