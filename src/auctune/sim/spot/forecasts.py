"""Forecasters by name and settings, and the forecasts of a market, in memory or in files."""

import hashlib
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import polars as pl

from auctune.domain import InputError
from auctune.domain.checks import check_finite
from auctune.files.parameter_text import parse_label, parse_params
from auctune.numerics.arrays import Floats
from auctune.spot import SpotMarket
from auctune.spot.forecasts import (
    Arima,
    Fixed,
    Forecast,
    Forecaster,
    ForecastTable,
    HeavyTailedNoise,
    MarkovChain,
    NoisyForecaster,
    PerfectForecaster,
    PosteriorForecaster,
    Proportional,
    SeasonalNaive,
    UniformNoise,
    stack_forecasts,
)

# Forecasters by name and settings, as the command line gives them.
#
# | name | what | settings |
# | --- | --- | --- |
# | perfect | knows the market | none |
# | seasonal | the last season again | season |
# | chain | a Markov chain with the rates seen so far | refit |
# | arima | ARIMA, with the extra `spot` | season, refit, memory, least |
# | noisy | the truth and noise of a known law, with its quantiles | error, magnitude, noise, clip |
#
# No count is ever thought to pass the most that a market has had.


class ForecasterSpec(Protocol):
    """A way to forecast, before a market is known."""

    @property
    def knows_future(self) -> bool:
        """Return whether it reads the future of the market."""
        ...

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        """Return a forecaster for one market.

        Args:
            market: its slots; those to come are read only by who knows the future.
            seed: of noise.
        """
        ...


@dataclass(frozen=True, slots=True)
class PerfectSpec:
    """Perfect foresight."""

    knows_future = True

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        return PerfectForecaster(market)


@dataclass(frozen=True, slots=True)
class SeasonalSpec:
    """The last season again.

    Attributes:
        season: in slots; None: a day.
    """

    season: int | None = None

    knows_future = False

    def __post_init__(self) -> None:
        if self.season is not None and self.season < 1:
            raise InputError("season", f"{self.season!r}", "a whole number of slots >= 1")

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        day = max(1, round(86_400 / market.slot_seconds))
        return SeasonalNaive(day if self.season is None else self.season, highest_count(market))


@dataclass(frozen=True, slots=True)
class ChainSpec:
    """A Markov chain; the setting is that of `auctune.spot.forecasts.MarkovChain`."""

    refit: int = 144

    knows_future = False

    def __post_init__(self) -> None:
        MarkovChain(self.refit)

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        return MarkovChain(self.refit)


@dataclass(frozen=True, slots=True)
class ArimaSpec:
    """ARIMA; the settings are those of `auctune.spot.forecasts.Arima`."""

    season: int = 1
    refit: int = 48
    memory: int = 480
    least: int = 48

    knows_future = False

    def __post_init__(self) -> None:
        Arima(None, self.season, self.refit, self.memory, self.least)

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        cap = highest_count(market)
        made = Arima(cap, self.season, self.refit, self.memory, self.least)
        # Says at once if the extra is not there.
        assert made.description
        return made


@dataclass(frozen=True, slots=True)
class NoisySpec:
    """The truth and noise.

    Attributes:
        error: e, 0.3 for thirty per cent.
        magnitude: of the value itself, or of the series' mean.
        noise: uniform in [-1, 1], or Student's t with two degrees of freedom.
        clip: of the latter.
    """

    error: float = 0.3
    magnitude: Literal["proportional", "fixed"] = "proportional"
    noise: Literal["uniform", "heavy"] = "uniform"
    clip: float = 5.0

    knows_future = True

    def __post_init__(self) -> None:
        check_finite(self.error, "error", "a number >= 0")
        HeavyTailedNoise(self.clip)

    def forecaster(self, market: SpotMarket, seed: int) -> Forecaster:
        law = HeavyTailedNoise(self.clip) if self.noise == "heavy" else UniformNoise()
        size = Fixed(self.error) if self.magnitude == "fixed" else Proportional(self.error)
        return PosteriorForecaster(NoisyForecaster(market, size, law, highest_count(market), seed))


_KINDS: Mapping[str, type[PerfectSpec | SeasonalSpec | ChainSpec | ArimaSpec | NoisySpec]] = {
    "perfect": PerfectSpec,
    "seasonal": SeasonalSpec,
    "chain": ChainSpec,
    "arima": ArimaSpec,
    "noisy": NoisySpec,
}


def forecaster_names() -> tuple[str, ...]:
    """Return all that `parse_forecaster` knows."""
    return tuple(_KINDS)


def parse_forecaster(label: str, place: str) -> ForecasterSpec:
    """Return the way to forecast of a text such as `noisy:error=0.3:noise=heavy`.

    Args:
        label: the text.
        place: as errors name it.

    Raises:
        InputError: for an unknown name or setting, or a value that is not one.
    """
    name, settings = parse_label(label, place, "forecaster")
    if name not in _KINDS:
        offered = ", ".join(forecaster_names())
        raise InputError(place, f"{name!r} is not offered", f"one of {offered}")
    try:
        return parse_params(_KINDS[name], settings)
    except InputError as error:
        raise InputError(f"{place} {label}: {error.place}", error.found, error.expected) from None


def highest_count(market: SpotMarket) -> int:
    """Return the most spot GPUs that there ever were."""
    return int(market.available.max(initial=0))


class SharedForecasts:
    """The forecasts made in each slot of a market, in memory.

    Args:
        forecaster: sees, for each slot, the market up to and with it, and nothing after.
        market: the whole series.
        horizon: slots ahead.
    """

    def __init__(self, forecaster: Forecaster, market: SpotMarket, horizon: int) -> None:
        self._forecaster, self._market, self._horizon = forecaster, market, horizon
        self._made: dict[int, Forecast] = {}

    def at(self, slot: int) -> Forecast:
        """Return the forecast made in a slot."""
        if slot not in self._made:
            past = self._market.until(slot)
            self._made[slot] = self._forecaster.forecast(past, self._horizon)
        return self._made[slot]

    def save(self) -> None:
        """Nothing to do: they are quicker made than read."""


# Forecasts of a market, made once and kept as parquet under a name of their content.
#
# A file has the forecasts of as many slots as were asked for so far. It is named by a digest of
# the market's bytes, of all that the forecaster depends on, and of how far it looked; so it never
# goes stale, and may be deleted at any time. One row is one slot looked at from one slot: `slot`,
# `ahead` (1 is the next slot), `price`, `available`, and for each level q the quantiles `price_q`
# and `available_q`.

Progress = Callable[[int, int], None]
"""Told of slots done, and of all slots."""

# Counted up with each change of the files, or of what a forecaster of ours makes of a past.
_FORMAT = "1"


@runtime_checkable
class DescribedForecaster(Forecaster, Protocol):
    """A forecaster that says what it depends on."""

    @property
    def description(self) -> str:
        """All that its forecasts depend on, besides the past: two that differ differ in this."""
        ...


def market_forecasts(
    forecaster: DescribedForecaster,
    market: SpotMarket,
    horizon: int,
    folder: Path,
    progress: Progress | None = None,
) -> ForecastTable:
    """Return the forecasts made in every slot of a market, from the cache where they are there.

    Args:
        forecaster: sees, for each slot, the market up to and with it, and nothing after.
        market: the whole series.
        horizon: slots ahead.
        folder: of the cache; made if need be.
        progress: told after each slot.

    Raises:
        InputError: if the folder cannot be written, or a file of it is damaged.
    """
    kept = CachedForecasts(forecaster, market, horizon, folder)
    made = []
    for slot in range(market.num_slots):
        made.append(kept.at(slot))
        if progress is not None:
            progress(slot + 1, market.num_slots)
    kept.save()
    return stack_forecasts(made)


class CachedForecasts(SharedForecasts):
    """The forecasts of one market, from a file as far as they are there.

    Args:
        forecaster: sees, for each slot, the market up to and with it, and nothing after.
        market: the whole series.
        horizon: slots ahead.
        folder: of the cache; made if need be.

    Raises:
        InputError: if the folder cannot be written, or a file of it is damaged.
    """

    def __init__(
        self, forecaster: DescribedForecaster, market: SpotMarket, horizon: int, folder: Path
    ) -> None:
        super().__init__(forecaster, market, horizon)
        self._path = folder / f"{forecast_digest(forecaster, market, horizon)}.parquet"
        if self._path.is_file():
            self._made = _read(self._path, horizon)
        self._found = len(self._made)
        # Before the minutes that forecasts may take.
        _make_folder(folder)

    def save(self) -> None:
        """Write the file anew, if anything was made.

        Raises:
            InputError: if it cannot be written.
        """
        if len(self._made) > self._found:
            _write(self._made, self._path)
            self._found = len(self._made)


def user_cache() -> Path:
    """Return the folder of forecasts in the user's cache; it need not be there yet."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "auctune" / "forecasts"


def forecasts_of_job(table: ForecastTable, start: int, num_slots: int) -> ForecastTable:
    """Return the forecasts made in the slots of a job, of those of its market.

    Raises:
        InputError: if the table has not all of them.
    """
    if not 0 <= start <= start + num_slots <= len(table.price):
        expected = f"slots {start} to {start + num_slots - 1}, for the job"
        raise InputError("forecasts", f"made in {len(table.price)} slots", expected)
    rows = slice(start, start + num_slots)
    return ForecastTable(
        table.price[rows],
        table.available[rows],
        table.levels,
        table.price_quantiles[rows],
        table.available_quantiles[rows],
        table.chains[rows],
    )


def forecast_digest(forecaster: DescribedForecaster, market: SpotMarket, horizon: int) -> str:
    """Return the name of what a forecaster says of a market."""
    digest = hashlib.blake2b(digest_size=16)
    said = (_FORMAT, forecaster.description, market.slot_seconds, market.num_slots, horizon)
    digest.update(repr(said).encode())
    digest.update(market.price.tobytes())
    digest.update(market.available.tobytes())
    return digest.hexdigest()


def _write(made: Mapping[int, Forecast], path: Path) -> None:
    slots = sorted(made)
    table = stack_forecasts([made[slot] for slot in slots])
    num_slots, horizon = table.price.shape
    columns = {
        "slot": np.repeat(np.array(slots, dtype=np.int32), horizon),
        "ahead": np.tile(np.arange(1, horizon + 1, dtype=np.int32), num_slots),
        "price": table.price.ravel(),
        "available": table.available.ravel(),
    }
    for index, level in enumerate(table.levels.tolist()):
        columns[f"price_{level!r}"] = table.price_quantiles[:, :, index].ravel()
        columns[f"available_{level!r}"] = table.available_quantiles[:, :, index].ravel()
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        pl.DataFrame(columns).write_parquet(draft)
        draft.replace(path)
    except OSError as error:
        raise _unwritable(path.parent, error) from None
    finally:
        draft.unlink(missing_ok=True)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(
        str(folder), f"cannot be written ({error.strerror})", "a folder for forecasts"
    )


def _read(path: Path, horizon: int) -> dict[int, Forecast]:
    try:
        frame = pl.read_parquet(path)
    except pl.exceptions.PolarsError:
        raise InputError(str(path), "is damaged", "forecasts; delete it") from None
    slots = frame["slot"].to_numpy().reshape(-1, horizon)[:, 0].tolist()
    shape = (len(slots), horizon)
    levels = [name.removeprefix("price_") for name in frame.columns if name.startswith("price_")]

    def quantiles(series: str) -> list[Floats]:
        return [frame[f"{series}_{level}"].to_numpy().reshape(shape) for level in levels]

    table = ForecastTable(
        price=frame["price"].to_numpy().reshape(shape),
        available=frame["available"].to_numpy().reshape(shape),
        levels=np.array([float(level) for level in levels]),
        price_quantiles=np.stack(quantiles("price"), axis=2),
        available_quantiles=np.stack(quantiles("available"), axis=2),
    )
    return {slot: table.at(row) for row, slot in enumerate(slots)}
