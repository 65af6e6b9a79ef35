"""The process of one spot job of the service: its coordinator, which exits with its parent.

It sends `SpotMessage`s. The event log in its folder is the truth: a resumed process first sends
what is recorded again, with the same numbers, in case the service was killed before it received it.
"""

import traceback
from pathlib import Path
from typing import Any

import numpy as np

from auctune.domain import AuctuneError
from auctune.engine.elastic.errors import SlotError
from auctune.engine.event_log import read_events
from auctune.engine.runtime.channel import ParentChannel, error_record
from auctune.engine.runtime.requests import WorkerEndedError
from auctune.engine.spot.clock import UnixClock
from auctune.engine.spot.coordinator import CapReachedError, ForecastSource, StoppedError
from auctune.engine.spot.inputs import SpotFolder
from auctune.engine.spot.job import SpotRunConfig, forecast_source, make_provider, run_spot_job
from auctune.engine.spot.job_config import (
    SpotJobConfig,
    SpotMessage,
    SpotStrategy,
    read_config,
    run_folder,
)
from auctune.engine.spot.state import (
    OvertimeBilled,
    OvertimeStarted,
    RowsTrained,
    SlotFinished,
    SlotRecord,
    SlotStarted,
    SpotEvent,
    SpotRunState,
    Warned,
)
from auctune.engine.spot.traces import MarketTrace
from auctune.spot.market import SpotMarket
from auctune.spot.policy import Policy
from auctune.train.job import CurvePoint, LoraJob, Progress


class EventForwarder:
    """Subscriber of a run that sends its events to the parent.

    Args:
        parent: the service.
        config: of the job.
    """

    def __init__(self, parent: ParentChannel[SpotMessage], config: SpotJobConfig) -> None:
        self._parent = parent
        self._deadline, self._n_max = config.job.deadline, config.job.n_max
        self._num_overtime = 0
        self._price = 1.0
        self._progress: Progress | None = None
        self._losses: list[CurvePoint] = []

    def replay(self, state: SpotRunState) -> None:
        """Send what is recorded."""
        for record in state.slots:
            self._send_started(record)
            if record.rows is not None:
                self._send_finished(record)
        for start, end in state.overtime:
            self._send_overtime(start, end)

    def __call__(self, event: SpotEvent) -> None:
        """Send an event."""
        match event:
            case SlotStarted(record):
                self._send_started(record)
            case RowsTrained(progress=progress):
                self._progress = progress
                self._losses += progress.losses
            case SlotFinished(record):
                self._send_finished(record)
            case OvertimeStarted():
                self._send_note("past its deadline: the rest runs on demand")
            case OvertimeBilled(start, end):
                self._send_overtime(start, end)
            case Warned(text):
                self._send_note(text)
            case _:
                # Preemptions are in a finished slot; the service has read the data itself.
                pass

    def _send_started(self, record: SlotRecord) -> None:
        observation, allocation = record.observation, record.allocation
        self._price = observation.on_demand_price
        self._parent.send(
            {
                "kind": "slot",
                "slot": observation.slot,
                "price": observation.price,
                "available": observation.available,
                "on_demand_price": observation.on_demand_price,
                "on_demand": allocation.on_demand,
                "spot": allocation.spot,
                "spot_before": observation.last.spot,
                "paid": record.paid,
                "skipped": record.is_skipped,
            }
        )

    def _send_finished(self, record: SlotRecord) -> None:
        self._losses.clear()
        trained = record.trained or {"steps": None, "tokens": None, "losses": []}
        self._parent.send(
            {
                "kind": "slot_done",
                "slot": record.observation.slot,
                "rows": record.rows,
                "paid": record.paid,
                "preempted": record.preempted,
                "steps": trained["steps"],
                "tokens": trained["tokens"],
                "losses": trained["losses"],
                "validation": trained.get("validation", []),
            }
        )

    def _send_overtime(self, start: float, end: float) -> None:
        progress, losses = self._progress, list(self._losses)
        self._losses.clear()
        self._parent.send(
            {
                "kind": "overtime",
                "slot": self._deadline + self._num_overtime,
                "since": start,
                "until": end,
                "on_demand": self._n_max,
                "on_demand_price": self._price,
                "paid": self._price * self._n_max * (end - start),
                "rows": None if progress is None else progress.rows,
                "steps": None if progress is None else progress.steps,
                "tokens": None if progress is None else progress.tokens,
                "losses": losses,
                "validation": [] if progress is None else list(progress.validation),
            }
        )
        self._num_overtime += 1

    def _send_note(self, text: str) -> None:
        self._parent.send({"kind": "noted", "text": text})


def main(parent: ParentChannel[SpotMessage], folder: str) -> None:
    """Run the job of a folder."""
    try:
        _run(parent, Path(folder))
    except StoppedError:
        parent.send({"kind": "stopped"})
    except CapReachedError as error:
        parent.send({"kind": "capped", "rate": error.rate})
    except (WorkerEndedError, SlotError):
        # It is started again, and goes on from its newest checkpoint.
        traceback.print_exc()
        parent.exit(1)
    except AuctuneError as error:
        parent.send({"kind": "failed", **error_record(error)})


def _run(parent: ParentChannel[SpotMessage], folder: Path) -> None:
    config, place = read_config(folder), SpotFolder(run_folder(folder))
    forwarder = EventForwarder(parent, config)
    events = read_events(place.event_log)
    place.check_version(events)
    forwarder.replay(SpotRunState.fold(events))
    strategy = SpotStrategy(config.policy, config.forecast)
    policy = strategy.read_policy()
    trace = MarketTrace(
        np.array(config.trace["times"]),
        np.array(config.trace["price"]),
        np.array(config.trace["available"]),
    )

    def make_clock(_rows: int) -> UnixClock:
        # Base and data are loaded by the time a run makes its clock.
        parent.send({"kind": "ready"})
        return UnixClock(config.begins, config.slot_seconds)

    report = run_spot_job(
        _run_config(config),
        policy,
        make_provider(trace, config.job.n_max, ray=config.ray, warm=config.warm),
        place.root,
        cache=Path(config.cache),
        make_clock=make_clock,
        forecast=_forecast(policy, strategy, config),
        on_event=forwarder,
        resume=place.has_started,
        saved_every=config.saved_every,
        cap=config.cap,
        should_stop=parent.stop_requested.is_set,
    )
    ended = SpotRunState.fold(read_events(place.event_log)).ended
    assert ended is not None
    parent.send(
        {
            "kind": "ended",
            "state": ended["state"],
            "note": report.note,
            "finish": report.outcome.finish,
        }
    )


def _run_config(config: SpotJobConfig) -> SpotRunConfig:
    training: dict[str, Any] = {
        **config.training,
        "target_modules": tuple(config.training["target_modules"]),
    }
    return SpotRunConfig(
        job=config.job.job(),
        training=LoraJob(
            id="job",
            data=Path(config.data),
            validation=None if config.validation is None else Path(config.validation),
            start_from=None if config.start_from is None else Path(config.start_from),
            start_digest=config.start_digest,
            **training,
        ),
        base=config.base,
        micro_batch=config.micro_batch,
        device=config.device,
        dtype=config.dtype,
        threads=config.threads,
        gradient_checkpointing=config.gradient_checkpointing,
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
