"""Small jobs and markets for properties of renting by deadline."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from auctune.spot import (
    Ahanp,
    Ahap,
    InstanceStart,
    LinearScaling,
    OnDemandOnly,
    Overhead,
    Policy,
    Robust,
    SpotFirst,
    SpotJob,
    SpotMarket,
    TableScaling,
    UniformProgress,
)
from auctune.spot.deadline import ProgressLine
from auctune.spot.forecasts import Forecast, ForecastTable, MarketChain

prices = st.sampled_from([0.0, 0.25, 0.3, 0.55, 0.8, 1.0, 1.3])
lines: st.SearchStrategy[ProgressLine] = st.sampled_from(["slot_end", "slot_start"])
overheads = st.sampled_from(
    [Overhead(), Overhead(0.5, 0.75), Overhead(1.0, 1.0), Overhead(0.8, 0.8), Overhead(0.5, 1.0)]
)
starts = st.sampled_from([InstanceStart(s) for s in (0.0, 0.1, 180 / 2700, 0.5, 1.0)])
# With these it goes on in later slots.
long_starts = st.sampled_from([InstanceStart(1.2), InstanceStart(2.5)])
# Their works lie on no coarse grid.
uneven_tables = st.sampled_from(
    [(1.03173, 1.98211, 2.87003, 3.70019), (1.00007, 1.71803, 2.23607, 2.64575)]
)


@st.composite
def even_jobs(draw: st.DrawFn, max_deadline: int = 4, max_gpus: int = 4) -> SpotJob:
    """A job with an exact work grid."""
    n_max = draw(st.integers(1, max_gpus))
    return SpotJob(
        workload=draw(st.sampled_from([0.5, 1.0, 3.0, 4.5, 7.0, 12.0])),
        deadline=draw(st.integers(1, max_deadline)),
        hard_factor=draw(st.sampled_from([1.0, 1.5, 3.0])),
        value=draw(st.sampled_from([0.0, 2.0, 10.0, 40.0])),
        n_min=draw(st.integers(1, n_max)),
        n_max=n_max,
        scaling=LinearScaling(*draw(st.sampled_from([(1.0, 0.0), (0.5, 0.5), (1.0, -0.25)]))),
        overhead=draw(overheads),
    )


@st.composite
def started_jobs(draw: st.DrawFn, max_deadline: int = 4, max_gpus: int = 4) -> SpotJob:
    """A job by instance, with an exact work grid."""
    job = draw(even_jobs(max_deadline, max_gpus))
    if draw(st.booleans()):
        return replace(job, overhead=draw(starts))
    return replace(job, overhead=draw(long_starts), n_min=1, scaling=LinearScaling())


@st.composite
def uneven_jobs(draw: st.DrawFn, max_deadline: int = 4) -> SpotJob:
    """A job whose works lie on no grid that is coarse enough."""
    n_max = draw(st.integers(1, 4))
    return SpotJob(
        workload=draw(st.sampled_from([1.5, 3.0, 4.56789, 7.1, 11.0])),
        deadline=draw(st.integers(1, max_deadline)),
        value=draw(st.sampled_from([0.0, 10.0, 40.0])),
        n_min=draw(st.integers(1, n_max)),
        n_max=n_max,
        scaling=TableScaling(draw(uneven_tables)),
        overhead=draw(st.one_of(overheads, starts)),
    )


@st.composite
def markets(draw: st.DrawFn, num_slots: int, most: int = 5) -> SpotMarket:
    """A market of so many slots."""
    price = draw(st.lists(prices, min_size=num_slots, max_size=num_slots))
    available = draw(st.lists(st.integers(0, most), min_size=num_slots, max_size=num_slots))
    dear = draw(st.sampled_from([1.0, 0.75]))
    return SpotMarket(np.array(price), np.array(available, dtype=np.int64), dear)


@st.composite
def any_forecasts(draw: st.DrawFn, num_slots: int, most: int = 5) -> ForecastTable:
    """Forecasts that need not be near the truth, quantiles included."""
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    levels = np.array([0.1, 0.5, 0.9])
    shape = (num_slots, num_slots)
    return ForecastTable(
        price=random.choice([0.0, 0.25, 0.55, 1.0, 1.3], shape),
        available=random.integers(0, most + 1, shape),
        levels=levels,
        price_quantiles=np.sort(random.uniform(0, 1.3, (*shape, 3)), axis=-1),
        available_quantiles=np.sort(random.integers(0, most + 1, (*shape, 3)), axis=-1),
    )


@st.composite
def ahaps(draw: st.DrawFn, max_window: int = 5) -> Ahap:
    """AHAP with any parameters."""
    window = draw(st.integers(1, max_window))
    return Ahap(
        window,
        draw(st.integers(1, window)),
        draw(st.sampled_from([0.25, 0.3, 0.6, 1.3])),
        draw(st.booleans()),
        draw(lines),
    )


baselines: st.SearchStrategy[Policy] = st.one_of(
    st.just(OnDemandOnly()),
    st.builds(SpotFirst, st.sampled_from([None, 0, 1, 2])),
    st.builds(UniformProgress, st.sampled_from([0.0, 1.0, 2.0]), st.booleans(), st.booleans()),
    st.builds(
        Ahanp,
        st.sampled_from([0.25, 0.6, 1.3]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from([1.0, 1.5, 2.0, 5.0]),
        lines,
    ),
)
policies: st.SearchStrategy[Policy] = st.one_of(
    baselines,
    ahaps(),
    st.builds(
        Robust,
        st.sampled_from([0.0, 0.01, 0.2, 1.0]),
        st.sampled_from([None, 0.5, 3.0, 20.0]),
        st.sampled_from([0.0, 0.5, 0.9]),
    ),
)


def perfect(market: SpotMarket) -> ForecastTable:
    """What will be, in each slot up to the last; zeros beyond."""
    num = market.num_slots
    price = np.zeros((num, num))
    available = np.zeros((num, num), dtype=np.int64)
    for slot in range(num - 1):
        price[slot, : num - slot - 1] = market.price[slot + 1 :]
        available[slot, : num - slot - 1] = market.available[slot + 1 :]
    return ForecastTable(price, available, np.array([0.5]), price[..., None], available[..., None])


@st.composite
def chain_forecasts(draw: st.DrawFn, market: SpotMarket) -> ForecastTable:
    """Forecasts of a Markov chain with two states, of which each slot has the one nearer to it."""
    chance = st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0])
    come, stay = draw(chance), draw(chance)
    transition = np.array([[1.0 - come, come], [1.0 - stay, stay]])
    price = np.array([draw(prices), draw(prices)])
    count = np.array([0, draw(st.integers(1, 5))])
    plain = perfect(market)
    chains = tuple(
        MarketChain(price, count, transition, int(available > 0)) for available in market.available
    )
    return replace(plain, chains=chains)


def forecast_of(price: list[float], available: list[int]) -> Forecast:
    """A point forecast."""
    empty = np.empty((len(price), 0))
    return Forecast(
        np.array(price), np.array(available), np.empty(0), empty, empty.astype(np.int64)
    )
