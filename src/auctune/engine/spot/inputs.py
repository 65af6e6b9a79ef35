"""Folder of a spot run: its files, the copies of its inputs, and a snapshot of its progress.

DIR/
  adapter/                in PEFT's format, once the job is done
  epochs/N/               the same of the last epochs
  bill.json               allocations and payments, by slot
  inputs/job.toml         the job
  inputs/market           the market's file, gzipped or not
  inputs/prices           the prices' file, if they came from another one
  inputs/data             the training rows
  inputs/start.zip        the adapter that the job starts from, if there is one
  inputs/settings.json    `RunSettings`
  state/journal.jsonl     event log (auctune.engine.spot.state)
  state/checkpoints/
  state/workers.log       standard error of the workers
  .lock                   held by the coordinator

A run is resumed from its folder alone.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter, ValidationError

from auctune.atomic_files import write_atomically
from auctune.domain import InputError
from auctune.engine.event_log import EventRecord, read_events
from auctune.engine.run_directory import RunDirectory
from auctune.engine.spot.job_config import SpotRayParams
from auctune.engine.spot.state import VERSION, SlotRecord, SpotRunState
from auctune.sim.spot.job_file import JobFile, read_job_file
from auctune.sim.spot.trace import FixedPrice, FromFile, MarketRecipe, read_market
from auctune.spot.market import SpotMarket
from auctune.spot.play import PastSlot
from auctune.train.adapter_files import pack_adapter


@dataclass(frozen=True, slots=True)
class SpotFolder(RunDirectory):
    """Paths of a run."""

    @property
    def adapter(self) -> Path:
        """The result."""
        return self.root / "adapter"

    @property
    def bill(self) -> Path:
        """Allocations and payments."""
        return self.root / "bill.json"

    @property
    def log(self) -> Path:
        """Standard error of the workers."""
        return self.state / "workers.log"

    @property
    def settings(self) -> Path:
        """Settings of the run."""
        return self.inputs / "settings.json"

    def check_version(self, events: Sequence[EventRecord]) -> None:
        """Refuse the events of a run that another release began.

        Raises:
            InputError: naming the event log.
        """
        for begun in events[:1]:
            if begun["version"] != VERSION:
                found = f"{begun['version']}, of another release"
                raise InputError(f"{self.event_log}: version", found, f"{VERSION}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a job is run.

    Attributes:
        policy, forecast: as `NAME[:KEY=VALUE...]`.
        start: slot of the market in which the job begins.
        slot_seconds: length of a slot; None: time advances by the model, without waiting.
        warm: fork workers from a process that has everything loaded.
        device, dtype, threads: of workers.
        seed: of noise in forecasts.
        base: the base model's name; a folder by its absolute path.
        fixed_price: a constant price; None: those of the files.
        ray: cluster on which instances run; None: they are processes of this machine.
    """

    policy: str
    forecast: str
    start: int
    slot_seconds: float | None
    warm: bool
    device: str
    dtype: str
    threads: int
    seed: int
    base: str
    fixed_price: float | None
    ray: SpotRayParams | None = None


_SETTINGS = TypeAdapter(RunSettings)
_START = "start.zip"


@dataclass(frozen=True, slots=True)
class RunInputs:
    """Files and settings of a run.

    Attributes:
        job, market, prices, data: the files; `prices` is None if the market's file has them.
        settings: how it is run.
        start_from: adapter that the job starts from, as of `read_start`, or None.
    """

    job: Path
    market: Path
    prices: Path | None
    data: Path
    settings: RunSettings
    start_from: Path | None = None

    def read_job(self) -> JobFile:
        """Read the job's file.

        Raises:
            InputError: naming the key.
        """
        return read_job_file(self.job)

    def recipe(self, file: JobFile) -> MarketRecipe:
        """Return where the market's counts and prices come from."""
        price: FromFile | FixedPrice | None = None
        if self.prices is not None:
            price = FromFile(self.prices)
        elif self.settings.fixed_price is not None:
            price = FixedPrice(self.settings.fixed_price)
        return MarketRecipe(
            available=FromFile(self.market),
            price=price,
            on_demand_price=file.market.on_demand_price,
            slot_seconds=file.market.slot_seconds,
        )


def find_inputs(job: Path, market: Path, prices: Path | None, settings: RunSettings) -> RunInputs:
    """Return the inputs of a new run, with data and base found beside the job's file.

    Raises:
        InputError: if the job has no training section, or its data or adapter do not exist.
    """
    training = read_job_file(job).training
    if training is None:
        raise InputError(f"{job}: training", "is missing", "[training], for a real run")
    data = job.parent / training.data
    if not data.is_file():
        raise InputError(f"{job}: training.data", f"{training.data!r} is no file", "training rows")
    start_from = None if training.start_from is None else job.parent / training.start_from
    if start_from is not None and not start_from.exists():
        found = f"there is no {training.start_from!r}"
        raise InputError(f"{job}: training.start_from", found, "an adapter's folder or archive")
    base = training.base
    if base != "tiny" and (job.parent / base).is_dir():
        base = str((job.parent / base).resolve())
    return RunInputs(job, market, prices, data, replace(settings, base=base), start_from)


def copy_inputs(inputs: RunInputs, place: SpotFolder) -> RunInputs:
    """Copy the inputs of a new run into its folder; return the copies.

    Raises:
        InputError: if a file cannot be read or the folder cannot be written.
    """
    copies = copies_of(inputs, place)
    try:
        place.inputs.mkdir(parents=True, exist_ok=True)
        # A run that was stopped before its start may have had what this one has not.
        every = _all_copies(place, inputs.settings)
        for left, kept in ((every.prices, copies.prices), (every.start_from, copies.start_from)):
            if left is not None and kept is None:
                left.unlink(missing_ok=True)
        for name in ("job", "market", "prices", "data"):
            source, target = getattr(inputs, name), getattr(copies, name)
            if source is not None:
                shutil.copyfile(source, target)
        if inputs.start_from is not None:
            assert copies.start_from is not None
            pack_adapter(inputs.start_from, copies.start_from)
        # Written last: a folder without it holds no run.
        write_atomically(place.settings, _SETTINGS.dump_json(inputs.settings, indent=2) + b"\n")
    except OSError as error:
        found = f"cannot be copied to ({error.strerror})"
        raise InputError(str(place.inputs), found, "room for the run's inputs") from None
    return copies


def read_inputs(place: SpotFolder) -> RunInputs:
    """Return the copied inputs of a run.

    Raises:
        InputError: if the folder holds no run, or an input is not as it was when the run began.
    """
    events = read_events(place.event_log)
    place.check_version(events)
    for begun in events[:1]:
        place.check_inputs(begun)
    try:
        settings = _SETTINGS.validate_json(place.settings.read_bytes())
    except FileNotFoundError:
        found = "holds no run"
        raise InputError(str(place.root), found, "the folder of a run that was started") from None
    except ValidationError:
        raise InputError(str(place.settings), "is damaged", "the settings of a run") from None
    copies = _all_copies(place, settings)
    has_prices, has_start = (place.inputs / "prices").exists(), (place.inputs / _START).exists()
    return replace(
        copies,
        prices=copies.prices if has_prices else None,
        start_from=copies.start_from if has_start else None,
    )


def copies_of(inputs: RunInputs, place: SpotFolder) -> RunInputs:
    """Return the paths of the copies of a new run's inputs in its folder."""
    copies = _all_copies(place, inputs.settings)
    return replace(
        copies,
        prices=None if inputs.prices is None else copies.prices,
        start_from=None if inputs.start_from is None else copies.start_from,
    )


def _all_copies(place: SpotFolder, settings: RunSettings) -> RunInputs:
    """Return the paths of copies in a run's folder, also of those that a run need not have."""
    job, market, prices, data, start = (
        place.inputs / name for name in ("job.toml", "market", "prices", "data", _START)
    )
    return RunInputs(job, market, prices, data, settings, start)


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """A run at the start of its current slot.

    Attributes:
        file: the job's.
        policy, forecast: as `NAME[:KEY=VALUE...]`.
        start: slot of the market in which the job began.
        history: the market up to the present slot; from the job's start on as the run saw it.
        past: the finished slots, with what was done and paid.
    """

    file: JobFile
    policy: str
    forecast: str
    start: int
    history: SpotMarket
    past: tuple[PastSlot, ...]


def read_snapshot(folder: Path) -> RunSnapshot:
    """Read how far a run has come, without disturbing it.

    Raises:
        InputError: if the folder holds no run, or one whose deadline is over.
    """
    place = SpotFolder(folder)
    inputs = read_inputs(place)
    state = SpotRunState.fold(read_events(place.event_log))
    if state.ended is not None or state.overtime_started is not None:
        raise InputError(str(folder), "holds a run that is over", "one that has slots to come")
    if not state.slots:
        raise InputError(str(folder), "holds a run without a slot", "one that has begun")
    file, settings = inputs.read_job(), inputs.settings
    market = read_market(inputs.recipe(file))
    return RunSnapshot(
        file=file,
        policy=settings.policy,
        forecast=settings.forecast,
        start=settings.start,
        history=_history(market.between(0, settings.start), state.slots, market),
        past=tuple(
            PastSlot(
                record.observation,
                record.allocation,
                following.observation.progress,
                record.paid,
                record.preempted,
            )
            for record, following in pairwise(state.slots)
        ),
    )


def _history(before: SpotMarket, slots: list[SlotRecord], market: SpotMarket) -> SpotMarket:
    return SpotMarket(
        np.concatenate((before.price, [one.observation.price for one in slots])),
        np.concatenate((before.available, [one.observation.available for one in slots])),
        market.on_demand_price,
        market.slot_seconds,
    )
