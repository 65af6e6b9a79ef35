"""Pools of policies to select from."""

from auctune.spot.policies import Ahanp, Ahap
from auctune.spot.policy import Policy

WINDOWS = (1, 2, 3, 4, 5)
SIGMAS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def default_pool() -> tuple[Policy, ...]:
    """Return the 112 policies of Kong et al. (arXiv 2512.20967, section VI-A).

    AHAP with w in 1..5, c in 1..w and seven thresholds, by w, c, sigma; then AHANP with the seven.
    """
    with_forecast = [
        Ahap(window, commitment, sigma)
        for window in WINDOWS
        for commitment in range(1, window + 1)
        for sigma in SIGMAS
    ]
    return (*with_forecast, *(Ahanp(sigma) for sigma in SIGMAS))
