"""Policy and forecaster of a spot job, and estimates of what the job will cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from auctune.domain import InputError
from auctune.parameter_text import parse_label
from auctune.registry import spot_policy
from auctune.sim.spot.advice import Advice, advise
from auctune.sim.spot.forecasts import ForecasterSpec, parse_forecaster
from auctune.spot.job import SpotJob
from auctune.spot.market import SpotMarket
from auctune.spot.policy import Policy

# Each is a job simulated to its end; the 90th percentile needs some.
_NUM_FUTURES = 30
# A future is a stretch of the past: this many more slots of it are needed to choose among.
_SPARE_SLOTS = 8


@dataclass(frozen=True, slots=True)
class SpotStrategy:
    """How a job rents: its policy and its forecaster.

    Attributes:
        policy, forecast: as `NAME[:KEY=VALUE...]`.
    """

    policy: str
    forecast: str

    def __post_init__(self) -> None:
        self.read_policy()
        if self.read_forecaster().knows_future:
            raise InputError("forecast", "knows the future", "seasonal or arima")

    def read_policy(self) -> Policy:
        """Return the policy.

        Raises:
            InputError: naming `policy` or the setting.
        """
        return read_policy(self.policy)

    def read_forecaster(self) -> ForecasterSpec:
        """Return the source of forecasts.

        Raises:
            InputError: naming `forecast` or the setting.
        """
        return parse_forecaster(self.forecast, "forecast")


def read_policy(label: str) -> Policy:
    """Return the policy of a label `NAME[:KEY=VALUE...]`.

    Raises:
        InputError: naming `policy` or the setting.
    """
    name, settings = parse_label(label, "policy", "policy")
    return spot_policy(name, settings)


def max_deadline(history: SpotMarket) -> int:
    """Return the latest deadline, in slots, for which the history allows an estimate."""
    return max(0, history.num_slots - _SPARE_SLOTS)


def estimate(
    job: SpotJob,
    strategy: SpotStrategy,
    history: SpotMarket,
    delay: int = 0,
    speeds: Sequence[float] = (1.0,),
) -> Advice:
    """Estimate cost and finish of a job as `auctune spot advise` does.

    Args:
        job: its deadline, with the delay, at most `max_deadline`.
        strategy: how it rents.
        history: the market, its last slot the present one.
        delay: slots until the job begins.
        speeds: see `advise`.
    """
    return advise(
        job,
        strategy.read_policy(),
        strategy.read_forecaster(),
        history,
        history.num_slots - 1,
        most_futures=_NUM_FUTURES,
        delay=delay,
        speeds=speeds,
    )
