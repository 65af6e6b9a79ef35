"""What a job is likely to come to, by what was seen of a market; as of `auctune spot advise`."""

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

# Each is a job played to its end; a tail of one in ten needs some.
_FUTURES = 30
# A future is a stretch of the past; so many moments more than that are to be alike.
_MOMENTS = 8


@dataclass(frozen=True, slots=True)
class Renting:
    """A way to rent, and to forecast.

    Attributes:
        policy, forecast: NAME[:KEY=VALUE...].
    """

    policy: str
    forecast: str

    def __post_init__(self) -> None:
        self.read_policy()
        if self.read_foretelling().knows_future:
            raise InputError("forecast", "knows the future", "seasonal or arima")

    def read_policy(self) -> Policy:
        """The policy.

        Raises:
            InputError: naming `policy` or the setting.
        """
        name, settings = parse_label(self.policy, "policy", "policy")
        return spot_policy(name, settings)

    def read_foretelling(self) -> ForecasterSpec:
        """The way to forecast.

        Raises:
            InputError: naming `forecast` or the setting.
        """
        return parse_forecaster(self.forecast, "forecast")


def longest_deadline(seen: SpotMarket) -> int:
    """Of how many slots a job may be, so that the past tells what may come of it."""
    return max(0, seen.num_slots - _MOMENTS)


def estimate(
    job: SpotJob,
    renting: Renting,
    seen: SpotMarket,
    delay: int = 0,
    speeds: Sequence[float] = (1.0,),
) -> Advice:
    """Advise on a job that begins some slots after the present one.

    Args:
        job: its deadline, with the delay, at most `longest_deadline`.
        renting: how.
        seen: the market, its last slot the present one.
        delay, speeds: see `advise`.
    """
    policy, foretelling = renting.read_policy(), renting.read_foretelling()
    present = seen.num_slots - 1
    return advise(
        job, policy, foretelling, seen, present, most_futures=_FUTURES, delay=delay, speeds=speeds
    )
