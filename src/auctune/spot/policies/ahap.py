"""AHAP: renting with a forecast (Kong et al., arXiv 2512.20967, Algorithm 1).

In each slot t a plan is made for the window t..e-1, e = min(t + w, d); slot t is seen, the others
are forecast.

- Progress at or above the line: in each slot of the window where price <= sigma, min(A, N_max) spot
  GPUs, none if that is under N_min; no on-demand. The line is Z_exp(t) = L (t + 1) / d, even
  progress at the end of slot t = 0, 1, ...: the paper counts its slots from 1. With
  `line="slot_start"` it is L t / d; every job is then ahead in its first slot.
- Else the window program (10), `auctune.spot.window`.

Slot t gets the mean of what the last c plans say of it (those there are, when fewer), each kind
rounded half up. Then spot is cut to what is there, and not replaced; a total over N_max, which
rounding two halves up can make, loses on-demand GPUs; a total between 0 and N_min becomes 0 when
ahead, else N_min with on-demand GPUs.
"""

from dataclasses import dataclass

import numpy as np

from auctune.domain import InputError
from auctune.domain.checks import check_positive
from auctune.numerics.arrays import Floats, Ints
from auctune.numerics.jit import kernel
from auctune.spot.account import JobConstants, job_constants
from auctune.spot.deadline import ProgressLine, check_line, is_ahead, line_code, usable_spot
from auctune.spot.forecasts.forecast import Forecast, check_forecast
from auctune.spot.job import SpotJob
from auctune.spot.policies.baselines import progress_and_state
from auctune.spot.policy import SpotAllocation, SpotObservation
from auctune.spot.window.program import (
    WindowScratch,
    fill_window,
    follow,
    make_scratch,
    window_end,
)
from auctune.spot.window.table import units_done


@kernel
def plan_cheap_spot(
    terms: JobConstants, sigma: float, prices: Floats, available: Ints, num_slots: int, plan: Ints
) -> None:
    """Write the plan of a job that is ahead: all spot where it is cheap."""
    for h in range(num_slots):
        plan[h, 0] = 0
        plan[h, 1] = usable_spot(terms, available[h]) if prices[h] <= sigma else 0


@kernel
def rounded_mean(total: int, count: int) -> int:
    """total / count, rounded half up."""
    return (2 * total + count) // (2 * count)


@kernel
def combine(
    terms: JobConstants, plans: Ints, commitment: int, slot: int, ahead: bool, available: int
) -> tuple[int, int]:
    """Return the (on-demand, spot) GPUs of a slot, from the last plans.

    Args:
        terms: the job.
        plans: [c, h, 2] the plan made in slot t lies at t % c.
        commitment: c.
        slot: t.
        ahead: whether the progress has reached the line.
        available: A_t.
    """
    count = min(commitment, slot + 1)
    on_demand, spot = 0, 0
    for age in range(count):
        made = (slot - age) % commitment
        on_demand += plans[made, age, 0]
        spot += plans[made, age, 1]
    spot = min(rounded_mean(spot, count), available)
    on_demand = min(rounded_mean(on_demand, count), terms.n_max - spot)
    if 0 < on_demand + spot < terms.n_min:
        if ahead:
            return 0, 0
        on_demand = terms.n_min - spot
    return on_demand, spot


_LINE: ProgressLine = "slot_end"


@dataclass(frozen=True, slots=True)
class Ahap:
    """AHAP.

    Attributes:
        window: w, slots that a plan covers, the present one included.
        commitment: c, of 1..w: plans that have a say in each slot.
        sigma: the price, in units of the on-demand price, up to which spot is cheap.
        plan_always: plan when ahead too. With perfect forecasts, a window up to the deadline and
            commitment 1 the policy is then optimal.
        line: where the line of even progress is read in a slot, at its end or at its start.
    """

    window: int = 5
    commitment: int = 1
    sigma: float = 0.6
    plan_always: bool = False
    line: ProgressLine = _LINE

    def __post_init__(self) -> None:
        if self.window < 1:
            raise InputError("window", f"{self.window!r}", "a whole number of slots >= 1")
        if not 1 <= self.commitment <= self.window:
            raise InputError(
                "commitment",
                f"{self.commitment!r}",
                f"a whole number within 1 and window = {self.window}",
            )
        check_positive(self.sigma, "sigma", "a number > 0")
        check_line(self.line)

    @property
    def name(self) -> str:
        always = ",plan_always" if self.plan_always else ""
        line = f",line={self.line}" if self.line != _LINE else ""
        return f"ahap(w={self.window},c={self.commitment},sigma={self.sigma:g}{always}{line})"

    @property
    def horizon(self) -> int:
        return self.window - 1

    def start(self, job: SpotJob) -> "AhapRun":
        return AhapRun(self, job)


class AhapRun:
    """AHAP at work: it keeps its last c plans."""

    def __init__(self, params: Ahap, job: SpotJob) -> None:
        self._params = params
        self._job = job
        self._line = line_code(params.line)
        self._terms: JobConstants | None = None
        self._scratch: WindowScratch | None = None
        # A job has no more slots to plan for, and no more plans that have a say.
        self._window = min(params.window, job.deadline)
        self._commitment = min(params.commitment, job.deadline)
        self._plans = np.zeros((self._commitment, self._window, 2), dtype=np.int64)

    def allocate(self, observation: SpotObservation) -> SpotAllocation:
        terms, scratch = self._prepared(observation.on_demand_price)
        params, slot = self._params, observation.slot
        end = window_end(terms, slot, self._window)
        forecast = check_forecast(observation.forecast, end - slot - 1) if end > slot + 1 else None
        prices, available = seen_and_forecast(observation, forecast)
        progress, last = progress_and_state(terms, observation)
        ahead = bool(is_ahead(terms, progress, slot, self._line))
        plan = self._plans[slot % self._commitment]
        if ahead and not params.plan_always:
            sigma = params.sigma * observation.on_demand_price
            plan_cheap_spot(terms, sigma, prices, available, end - slot, plan)
        else:
            done = units_done(terms, progress)
            high = fill_window(terms, scratch, prices, available, slot, end, done)
            follow(terms, scratch, prices, available, end - slot, done, high, last, plan)
        on_demand, spot = combine(
            terms, self._plans, self._commitment, slot, ahead, observation.available
        )
        return SpotAllocation(on_demand, spot)

    def _prepared(self, on_demand_price: float) -> tuple[JobConstants, WindowScratch]:
        if self._terms is None or self._scratch is None:
            self._terms = job_constants(self._job, on_demand_price)
            self._scratch = make_scratch(self._terms, self._window)
        return self._terms, self._scratch


def seen_and_forecast(
    observation: SpotObservation, forecast: Forecast | None
) -> tuple[Floats, Ints]:
    """[h] prices and counts from the present slot on."""
    if forecast is None:
        return np.array([observation.price]), np.array([observation.available], dtype=np.int64)
    return (
        np.concatenate(([observation.price], forecast.price)),
        np.concatenate(([observation.available], forecast.available)).astype(np.int64),
    )
