"""Learned prices: the shadow prices of what is left to sell, against a forecast of bids to come.

Scenario-based certainty equivalence, re-solved as time goes on:
 1. `DemandHistory` records bids; `forecast` turns them into S scenarios of weighted bids.
 2. For each scenario a few subgradient steps are made on the Lagrangian dual of the welfare program
    (auction/dual) over the free capacity, from that scenario's prices before.
 3. The mean of the scenarios' prices, one a slot and node type, is what a cell costs: little in a
    slot that will pass half empty, much in one that better bids will want. The prices of a mean
    day would be lower: a slot that a burst may fill has a value although it is free in the mean.

This is done at the beginning of a slot, and again once the slot has brought more bids than were
expected: never by the bid being priced. An update renews the prices of the next slots, and every
so often those further ahead. All money is counted in units of the recent median bid and
with 30 binary digits, so that neither the currency nor a single absurd bid changes anything.
"""

from collections.abc import Sequence

import numpy as np

from auctune.auction.dual.columns import Supply, TaskColumns
from auctune.auction.dual.scenarios import descend_scenarios, usual_prices
from auctune.auction.horizon import Shift
from auctune.auction.ledger import CapacityLedger
from auctune.auction.pricing.base import PriceUpdate, Pricing
from auctune.auction.pricing.demand_history import (
    MAX_DAYS,
    DayRecord,
    DemandHistory,
    load_day,
    read_days,
    save_day,
)
from auctune.auction.pricing.forecast import (
    ForecastParams,
    ForecastState,
    fit_profile,
    forecast,
    value_statistics,
)
from auctune.domain import Saved, Task
from auctune.domain.snapshot import read_array
from auctune.numerics.arrays import Floats

_DAY_SECONDS = 86_400
# Tasks do not fill nodes to the brim: what is left in a node is too little for the next one.
_SPARE = 0.03
# Steps of the first update, and of the others: the prices of the slot before are close.
_FIRST_STEPS, _STEPS = np.maximum(0.3 / np.arange(1, 101), 0.01), np.full(3, 0.05)
# Slots ahead whose prices every update renews; every second one renews twice as many, every fourth
# four times as many, and so on.
_NEAR = 24
# Fewer bids than these say nothing of a market.
_TOO_FEW = 8
# Moments that a forecast has samples for: with shorter slots than this leaves, several go together,
# so that learning a day takes about as long whatever its slots.
_MOST_MOMENTS = 144
_DIGITS = 30


class LearnedPricing(Pricing):
    """Prices by node type and slot that follow a forecast.

    Args:
        book: the cells.
        history: bids of earlier days, the earliest first, each with slots from 0 on.
    """

    def __init__(self, book: CapacityLedger, history: Sequence[Sequence[Task]] = ()) -> None:
        super().__init__(book)
        self._num_day = max(1, round(_DAY_SECONDS / book.cluster.slot_seconds))
        self._params = _forecast_params(book, self._num_day)
        horizon = self._num_day if book.horizon.rolls else book.horizon.num_slots
        days = [
            day for bids in history for day in read_days(bids, book.cluster, self._num_day, horizon)
        ]
        self._days: list[DayRecord] = days[-MAX_DAYS:]
        self._profile = fit_profile(self._days)
        self._history = DemandHistory(book.cluster, self._num_day, self._params.recent)
        # Number of bids of the current slot at which prices are updated again.
        self._enough: float = _TOO_FEW
        # The slot of the last update; before the first one there are no prices to start from.
        self._last_update: int | None = None
        # What money is counted in: the median bid; 0 before there was one above 0.
        self._unit = self._profile.values.median_bid if self._profile is not None else 0.0
        # [S, T, K] duals of each scenario, money
        shape = (self._params.scenarios, book.horizon.num_rows, len(book.type_names))
        self._lam: Floats = np.zeros(shape)
        self._phi: Floats = np.zeros(shape)

    def begin_slot(self, now: int) -> None:
        ended = self._history.begin(now)
        if ended:
            self._days = [*self._days, *ended][-MAX_DAYS:]
            self._profile = fit_profile(self._days)
        self._enough = _TOO_FEW

    def update(self, now: int) -> PriceUpdate | None:
        """Learn from what earlier slots brought, unless the last update is recent enough."""
        if self._last_update is not None and now - self._last_update < self._params.grid:
            return None
        return self._learn()

    def update_within_slot(self) -> PriceUpdate | None:
        return self._learn() if self.needs_update() else None

    def needs_update(self) -> bool:
        """Return whether this slot brought more bids than expected, and there are enough."""
        return self._history.num_seen >= self._enough and self._can_learn()

    def apply_update(self, now: int, update: PriceUpdate) -> None:
        """Price what is left to sell by the mean of these scenarios."""
        first = now - self._book.horizon.origin
        last = self._book.horizon.rows.stop
        # Beyond a day ahead prices are those of the same time before.
        same_time = np.arange(last - first) % update["lam"].shape[1]
        self._lam[:, first:last] = update["lam"][:, same_time]
        self._phi[:, first:last] = update["phi"][:, same_time]
        self._enough, self._unit = float(update["enough"]), float(update["unit"])
        self._last_update = now
        self._price_between(first, last)

    def on_window_shift(self, shift: Shift) -> None:
        for rows in (self.lam, self.phi, *self._lam, *self._phi):
            shift.move(rows, 0.0)

    def on_bid(self, task: Task) -> None:
        if self._unit == 0.0:
            self._unit = float(task.bid)
        self._history.add(task)

    def save(self) -> Saved:
        rows = self._book.horizon.rows
        return {
            "enough": self._enough,
            "taught": self._last_update,
            "unit": self._unit,
            "lam": self._lam[:, rows].copy(),
            "phi": self._phi[:, rows].copy(),
            "diary": self._history.save(),
            "days": [save_day(day) for day in self._days],
        }

    def load(self, saved: Saved) -> None:
        rows = self._book.horizon.rows
        self._enough, self._last_update = float(saved["enough"]), saved["taught"]
        self._unit = float(saved["unit"])
        shape = self._lam[:, rows].shape
        self._lam[:, rows] = read_array(saved, "lam", shape)
        self._phi[:, rows] = read_array(saved, "phi", shape)
        self._days = [load_day(day, self._num_day, shape[2]) for day in saved["days"]]
        self._profile = fit_profile(self._days)
        self._history.load(saved["diary"])
        self._price_between(rows.start, rows.stop)

    def _can_learn(self) -> bool:
        known = self._history.num_recent
        if self._profile is not None:
            known += self._profile.columns.num_tasks
        return known >= _TOO_FEW and self._unit > 0.0

    def _learn(self) -> PriceUpdate | None:
        slot = self._history.now
        first = slot - self._book.horizon.origin
        ahead = min(self._num_day, self._book.horizon.rows.stop - first)
        if ahead <= 0 or not self._can_learn():
            return None
        now = ForecastState(slot, self._history.recent())
        unit = value_statistics(now.recent.columns).median_bid or self._unit
        num_rows = min(ahead, self._num_rows(slot))
        expected = forecast(self._profile, now, num_rows, self._params)
        if expected is None:
            return None
        window = slice(first, first + ahead)
        lam, phi = self._lam[:, window].copy(), self._phi[:, window].copy()
        pool = _in_units(expected.scenarios.pool, unit)
        if self._last_update is None:
            lam[:] = usual_prices(pool)[0] * unit
        elif self._book.horizon.rolls:
            # Slots that entered since the last update have no price yet.
            entered = slot - self._last_update
            priced = max(1, min(ahead, self._book.horizon.rows.stop - entered - first))
            lam[:, priced:], phi[:, priced:] = lam[:, priced - 1, None], phi[:, priced - 1, None]
        lam_in_units, phi_in_units = _coarse(lam / unit), _coarse(phi / unit)
        descend_scenarios(
            self._supply(window, unit),
            expected.scenarios._replace(pool=pool),
            lam_in_units,
            phi_in_units,
            num_rows=num_rows,
            shares=_FIRST_STEPS if self._last_update is None else _STEPS,
        )
        lam[:, :num_rows] = lam_in_units[:, :num_rows] * unit
        phi[:, :num_rows] = phi_in_units[:, :num_rows] * unit
        update = {
            "lam": lam,
            "phi": phi,
            "enough": np.array(max(expected.total, now.num_seen + 1.0)),
            "unit": np.array(unit),
        }
        self.apply_update(slot, update)
        return update

    def _num_rows(self, slot: int) -> int:
        """Return how many slots ahead prices are renewed: always a few, seldom all of them."""
        if self._last_update is None:
            return self._num_day
        grid = self._params.grid
        # The highest bit that changed: of slots one by one each bit changes half as often as the
        # one before it, and a slot that was left out makes up for what it would have renewed.
        changed = (slot // grid) ^ (self._last_update // grid)
        return (_NEAR * grid) << max(0, changed.bit_length() - 1)

    def _price_between(self, first: int, last: int) -> None:
        """Price the rows [first, last) at the mean of the scenarios."""
        types = self._book.capacity.type_of
        lam, phi = _mean(self._lam[:, first:last]), _mean(self._phi[:, first:last])
        self.lam[first:last] = lam[:, types]
        self.phi[first:last] = phi[:, types]

    def _supply(self, window: slice, unit: float) -> Supply:
        """Return what is free in these rows, less what stays free since tasks do not fit it."""
        book, capacity = self._book, self._book.capacity
        energy = book.energy_cost[:, window].T / capacity.compute / unit
        return Supply(
            self._free(book.usage.compute[window], capacity.compute),
            self._free(book.usage.memory[window], capacity.memory),
            np.ascontiguousarray(_coarse(energy)),
            np.where(np.diff(capacity.first_of) > 0, capacity.compute, 0.0),
            capacity.memory,
        )

    def _free(self, used: Floats, held: Floats) -> Floats:
        """[W, N] used and [K] a node's capacity -> [W, K] free."""
        capacity = self._book.capacity
        free = np.zeros((len(used), len(held)))
        for k, most in enumerate(held):
            nodes = capacity.nodes_of[capacity.first_of[k] : capacity.first_of[k + 1]]
            of_type = used[:, nodes]
            # A lost node is used without end: it has nothing left, and nothing to spare.
            left = np.maximum(0.0, most - of_type).sum(axis=1)
            spare = _SPARE * most * np.isfinite(of_type).sum(axis=1)
            free[:, k] = np.maximum(0.0, left - spare)
        return free


def _forecast_params(book: CapacityLedger, num_day: int) -> ForecastParams:
    hour = max(1.0, 3600 / book.cluster.slot_seconds)
    # Answers of tasks that several types can run take longer.
    scenarios, samples, recent = (8, 5, 2) if len(book.type_names) == 1 else (6, 4, 1)
    return ForecastParams(
        recent=max(1, round(6 * hour)),
        half_life=4 * hour,
        fresh=0.5,
        fading=3 * hour,
        scenarios=scenarios,
        samples=samples,
        recent_samples=recent,
        grid=max(1, round(min(num_day, book.horizon.num_slots) / _MOST_MOMENTS)),
    )


def _in_units(columns: TaskColumns, unit: float) -> TaskColumns:
    return columns._replace(
        bid=_coarse(columns.bid / unit), quote_price=_coarse(columns.quote_price / unit)
    )


def _mean(by_scenario: Floats) -> Floats:
    """[S, W, K] -> [W, K], added one after the other: few rows give the bits that all rows do."""
    total = np.zeros_like(by_scenario[0])
    for one in by_scenario:
        total += one
    mean: Floats = total / len(by_scenario)
    return mean


def _coarse(numbers: Floats) -> Floats:
    """The leading binary digits: what rounding does to the rest, in another currency, is gone."""
    mantissa, exponent = np.frexp(numbers)
    rounded: Floats = np.ldexp(np.round(mantissa * 2**_DIGITS), exponent - _DIGITS)
    return rounded
