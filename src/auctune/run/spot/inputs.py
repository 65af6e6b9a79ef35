"""What a run of files was started with, copied into its folder: it goes on from there alone.

inputs/
  job.toml        the job
  market          the market's file, gzipped or not
  prices          the prices' file, where they came from another
  data            the training rows
  settings.json   how it is run (`RunSettings`), and the price that never changes, if any
"""

import json
import shutil
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from auctune.atomic_files import write_atomically
from auctune.domain import InputError
from auctune.run.spot.folder import SpotFolder
from auctune.sim.spot.job_file import JobFile, read_job_file
from auctune.sim.spot.trace import FixedPrice, FromFile, MarketRecipe


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How a job is run.

    Attributes:
        policy: NAME[:KEY=VALUE...].
        forecast: likewise.
        start: slot of the market in which the job begins.
        slot_seconds: how long a slot lasts here; none: as the model counts time, whatever it
            takes.
        warm: workers are forked from a process that has loaded everything.
        device, dtype, threads: of workers.
        seed: of noise in forecasts.
        base: the base model's name; a folder by its absolute path.
        fixed_price: a price that never changes; none: as files say.
        ray: of the cluster on which instances are, as `SpotRayParams.to_record` has it; none: they
            are processes here.
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
    ray: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RunInputs:
    """A run's files, wherever they lie.

    Attributes:
        job, market, prices, data: the files; no prices: those of the market.
        settings: how it is run.
    """

    job: Path
    market: Path
    prices: Path | None
    data: Path
    settings: RunSettings

    def read_job(self) -> JobFile:
        """The job's file.

        Raises:
            InputError: naming the key.
        """
        return read_job_file(self.job)

    def recipe(self, file: JobFile) -> MarketRecipe:
        """What the market is put together from."""
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


_NAMES = tuple(field.name for field in fields(RunSettings))


def given_inputs(job: Path, market: Path, prices: Path | None, settings: RunSettings) -> RunInputs:
    """The files of a new run; data and a base's folder are found beside the job's file.

    Raises:
        InputError: if the job says nothing of training.
    """
    training = read_job_file(job).training
    if training is None:
        raise InputError(f"{job}: training", "is missing", "[training], for a real run")
    data = job.parent / training.data
    if not data.is_file():
        raise InputError(f"{job}: training.data", f"{training.data!r} is no file", "training rows")
    base = training.base
    if base != "tiny" and (job.parent / base).is_dir():
        base = str((job.parent / base).resolve())
    values = asdict(settings) | {"base": base}
    return RunInputs(job, market, prices, data, RunSettings(**values))


def keep_inputs(given: RunInputs, place: SpotFolder) -> RunInputs:
    """Copy the files of a new run into its folder.

    Raises:
        InputError: if a file cannot be read or the folder not be written.
    """
    kept = inputs_in(place, given.settings, has_prices=given.prices is not None)
    try:
        place.inputs.mkdir(parents=True, exist_ok=True)
        for name in ("job", "market", "prices", "data"):
            source, target = getattr(given, name), getattr(kept, name)
            if source is not None:
                shutil.copyfile(source, target)
        # Written last: a folder without it holds no run.
        text = json.dumps(asdict(given.settings) | {"prices": given.prices is not None}, indent=2)
        write_atomically(_settings_file(place), text.encode() + b"\n")
    except OSError as error:
        found = f"cannot be copied to ({error.strerror})"
        raise InputError(str(place.inputs), found, "room for the run's inputs") from None
    return kept


def kept_inputs(place: SpotFolder) -> RunInputs:
    """The files of a run that was begun.

    Raises:
        InputError: if there is none.
    """
    path = _settings_file(place)
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        has_prices = bool(record.pop("prices"))
        # A run of before there were clusters is on none.
        given = {name: record[name] for name in _NAMES if name in record}
        settings = RunSettings(**given)
    except FileNotFoundError:
        found = "holds no run"
        raise InputError(str(place.root), found, "the folder of a run that was started") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise InputError(str(path), "is damaged", "the settings of a run") from None
    return inputs_in(place, settings, has_prices=has_prices)


def has_inputs(place: SpotFolder) -> bool:
    """Whether there is a run to go on with, or to begin."""
    return _settings_file(place).exists()


def inputs_in(place: SpotFolder, settings: RunSettings, *, has_prices: bool) -> RunInputs:
    """Where the files of a run lie in its folder."""
    folder = place.inputs
    prices = folder / "prices" if has_prices else None
    return RunInputs(folder / "job.toml", folder / "market", prices, folder / "data", settings)


def _settings_file(place: SpotFolder) -> Path:
    return place.inputs / "settings.json"
