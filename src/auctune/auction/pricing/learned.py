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
from dataclasses import replace

import numpy as np

from auctune.auction.dual.columns import Supply, TaskColumns
from auctune.auction.dual.scenarios import descend_scenarios, usual_prices
from auctune.auction.horizon import Shift
from auctune.auction.ledger import CapacityLedger
from auctune.auction.pricing.base import PriceUpdate, Pricing
from auctune.auction.pricing.demand_history import (
    DayRecord,
    DemandHistory,
    load_day,
    read_days,
    save_day,
)
from auctune.auction.pricing.demand_profile import fit_profile, known_profile, value_statistics
from auctune.auction.pricing.forecast import CountForecast, ForecastState, forecast
from auctune.auction.pricing.learned_params import LearnedParams
from auctune.domain import InputError, Saved, Task
from auctune.domain.snapshot import read_finite
from auctune.numerics.arrays import Floats

_DAY_SECONDS = 86_400
# Binary digits of money that prices are computed with.
_DIGITS = 30


class LearnedPricing(Pricing):
    """Prices by node type and slot that follow a forecast.

    Args:
        ledger: the cells.
        history: bids of earlier days, the earliest first, each with slots from 0 on.
        params: constants.
    """

    def __init__(
        self,
        ledger: CapacityLedger,
        history: Sequence[Sequence[Task]] = (),
        params: LearnedParams | None = None,
    ) -> None:
        super().__init__(ledger)
        cluster, params = ledger.cluster, params or LearnedParams()
        self._num_day = max(1, round(_DAY_SECONDS / cluster.slot_seconds))
        num_slots = min(self._num_day, ledger.horizon.num_slots)
        self._constants = params
        self._params = params.in_slots(cluster.slot_seconds, num_slots, len(ledger.type_names))
        horizon = self._num_day if ledger.horizon.rolls else ledger.horizon.num_slots
        days = [
            day
            for bids in history
            for day in read_days(bids, cluster, self._num_day, horizon, params)
        ]
        self._days: list[DayRecord] = days[-params.max_days :]
        self._profile = fit_profile(self._days, params)
        self._history = DemandHistory(cluster, self._num_day, self._params.recent, params)
        # Number of bids of the current slot at which prices are updated again.
        self._enough: float = params.min_bids
        # The slot of the last update; before the first one there are no prices to start from.
        self._last_update: int | None = None
        # What money is counted in: the median bid; 0 before there was one above 0.
        self._unit = self._profile.values.median_bid if self._profile is not None else 0.0
        # Who knows more of a day than the days before: a yardstick.
        self._counts: CountForecast | None = None
        # [S, T, K] duals of each scenario, money
        shape = (self._params.scenarios, ledger.horizon.num_rows, len(ledger.type_names))
        self._lam: Floats = np.zeros(shape)
        self._phi: Floats = np.zeros(shape)

    def know_day(self, tasks: Sequence[Task], *, which: bool = False) -> None:
        """Forecast a market's only day from its own bids: a yardstick of what can be attained.

        Args:
            tasks: of the day.
            which: whether the forecast knows each bid; if not, it knows how many come in each
                slot, and draws them from those of the hours around it.
        """
        (day,) = read_days(
            tasks, self._ledger.cluster, self._num_day, self._num_day, self._constants
        )
        self._profile = known_profile(day)
        if self._profile is not None:
            self._unit = self._profile.values.median_bid
        self._params = replace(self._params, constants=replace(self._constants, recent_share=0.0))
        if which:
            # Two scenarios, both of half of all bids or more: few slots bring more than 100.
            self._params = replace(self._params, width=0, scenarios=2, samples=50)
            self._lam, self._phi = self._lam[:2], self._phi[:2]

    def know_law(self, counts: CountForecast) -> None:
        """Forecast how many bids come by a law that is known: a yardstick of what can be learned.

        What kinds of bids come is learned as ever, so a day before must be known.
        """
        assert self._profile is not None
        self._counts = counts

    def begin_slot(self, now: int) -> None:
        ended = self._history.begin(now)
        if ended:
            self._days = [*self._days, *ended][-self._constants.max_days :]
            self._profile = fit_profile(self._days, self._constants)
        self._enough = self._constants.min_bids

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
        first = now - self._ledger.horizon.origin
        last = self._ledger.horizon.rows.stop
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
        rows = self._ledger.horizon.rows
        return {
            "enough": self._enough,
            "last_update": self._last_update,
            "unit": self._unit,
            "lam": self._lam[:, rows].copy(),
            "phi": self._phi[:, rows].copy(),
            "history": self._history.save(),
            "days": [save_day(day) for day in self._days],
        }

    def load(self, saved: Saved) -> None:
        rows = self._ledger.horizon.rows
        shape = self._lam[:, rows].shape
        read = {name: read_finite(saved, name, shape) for name in ("lam", "phi")}
        for name, prices in read.items():
            if np.any(prices < 0):
                raise InputError(f"snapshot.{name}", "has prices below 0", "prices >= 0")
        enough, unit = (float(read_finite(saved, name)) for name in ("enough", "unit"))
        days = [load_day(day, self._num_day, shape[2]) for day in saved["days"]]
        last_update = saved["last_update"]
        self._history.load(saved["history"])
        # All of it can be read: from here on nothing fails.
        self._enough, self._unit, self._last_update = enough, unit, last_update
        self._lam[:, rows], self._phi[:, rows] = read["lam"], read["phi"]
        self._days, self._profile = days, fit_profile(days, self._constants)
        self._price_between(rows.start, rows.stop)

    def _can_learn(self) -> bool:
        known = self._history.num_recent
        if self._profile is not None:
            known += self._profile.columns.num_tasks
        return known >= self._constants.min_bids and self._unit > 0.0

    def _learn(self) -> PriceUpdate | None:
        """Forecast, descend from the prices of the last update, and price at the mean."""
        slot = self._history.now
        first = slot - self._ledger.horizon.origin
        ahead = min(self._num_day, self._ledger.horizon.rows.stop - first)
        if ahead <= 0 or not self._can_learn():
            return None
        now = ForecastState(slot, self._history.recent())
        num_rows = min(ahead, self._num_rows(slot))
        expected = forecast(self._profile, now, num_rows, self._params, self._counts)
        if expected is None:
            return None
        unit = value_statistics(now.recent.columns).median_bid or self._unit
        scenarios = expected.scenarios._replace(pool=_in_units(expected.scenarios.pool, unit))
        window = slice(first, first + ahead)
        lam, phi = self._prices_before(slot, window, usual_prices(scenarios.pool)[0] * unit)
        lam_in_units, phi_in_units = _coarse(lam / unit), _coarse(phi / unit)
        descend_scenarios(
            self._supply(window, unit),
            scenarios,
            lam_in_units,
            phi_in_units,
            num_rows=num_rows,
            shares=self._constants.step_shares(is_first=self._last_update is None),
            least_supply=self._constants.least_supply,
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

    def _prices_before(self, slot: int, window: slice, usual: float) -> tuple[Floats, Floats]:
        """Return copies of the scenarios' prices of a window, as the last update left them.

        Before the first one a sample costs `usual` everywhere. Slots that have entered a rolling
        window since then have no price yet: they get that of the last one which has.
        """
        lam, phi = self._lam[:, window].copy(), self._phi[:, window].copy()
        if self._last_update is None:
            lam[:] = usual
        elif self._ledger.horizon.rolls:
            entered = slot - self._last_update
            last = self._ledger.horizon.rows.stop - entered - window.start
            priced = max(1, min(lam.shape[1], last))
            lam[:, priced:], phi[:, priced:] = lam[:, priced - 1, None], phi[:, priced - 1, None]
        return lam, phi

    def _num_rows(self, slot: int) -> int:
        """Return how many slots ahead prices are renewed: always a few, seldom all of them."""
        if self._last_update is None:
            return self._num_day
        grid = self._params.grid
        # The highest bit that changed: of slots one by one each bit changes half as often as the
        # one before it, and a slot that was left out makes up for what it would have renewed.
        changed = (slot // grid) ^ (self._last_update // grid)
        return (self._constants.near_slots * grid) << max(0, changed.bit_length() - 1)

    def _price_between(self, first: int, last: int) -> None:
        """Price the rows [first, last) at the mean of the scenarios."""
        types = self._ledger.capacity.type_of
        lam, phi = _mean(self._lam[:, first:last]), _mean(self._phi[:, first:last])
        self.lam[first:last] = lam[:, types]
        self.phi[first:last] = phi[:, types]

    def _supply(self, window: slice, unit: float) -> Supply:
        """Return what is free in these rows, less what stays free since tasks do not fit it."""
        ledger, capacity = self._ledger, self._ledger.capacity
        energy = ledger.energy_cost[:, window].T / capacity.compute / unit
        return Supply(
            self._free(ledger.usage.compute[window], capacity.compute),
            self._free(ledger.usage.memory[window], capacity.memory),
            np.ascontiguousarray(_coarse(energy)),
            np.where(np.diff(capacity.first_of) > 0, capacity.compute, 0.0),
            capacity.memory,
        )

    def _free(self, used: Floats, held: Floats) -> Floats:
        """[W, N] used and [K] a node's capacity -> [W, K] free."""
        capacity = self._ledger.capacity
        free = np.zeros((len(used), len(held)))
        for k, most in enumerate(held):
            nodes = capacity.nodes_of[capacity.first_of[k] : capacity.first_of[k + 1]]
            of_type = used[:, nodes]
            # A lost node is used without end: it has nothing left, and nothing to spare.
            unused = np.maximum(0.0, most - of_type).sum(axis=1)
            spare = self._constants.spare * most * np.isfinite(of_type).sum(axis=1)
            free[:, k] = np.maximum(0.0, unused - spare)
        return free


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
