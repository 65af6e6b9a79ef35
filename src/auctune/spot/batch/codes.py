"""Policies as rows of numbers, for the kernels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from auctune.spot.arrays import Floats, Ints
from auctune.spot.policies import (
    Ahanp,
    Ahap,
    OnDemandOnly,
    Robust,
    SpotFirst,
    UniformProgress,
)
from auctune.spot.policy import Policy
from auctune.spot.terms import line_code

AHAP, AHANP, ON_DEMAND_ONLY, SPOT_FIRST, UNIFORM_PROGRESS, ROBUST = range(6)


class Codes(NamedTuple):
    """Policies of the kinds that have kernels.

    Attributes:
        kind: [m].
        window, commitment, plan_always: [m] of AHAP; 0 for others.
        line: [m] of AHAP and AHANP, `SLOT_END` or `SLOT_START`; 0 for others.
        numbers: [m, 4] AHAP: sigma; AHANP: sigma, drop, shrink, growth; UP: hysteresis;
            robust: risk, cap on cost (infinite: none), persistence.
    """

    kind: Ints
    window: Ints
    commitment: Ints
    plan_always: Ints
    line: Ints
    numbers: Floats


def is_coded(policy: Policy) -> bool:
    """Whether a kernel plays this policy."""
    return isinstance(policy, Ahap | Ahanp | OnDemandOnly | SpotFirst | UniformProgress | Robust)


def encode(policies: Sequence[Policy]) -> Codes:
    """The rows of policies, all of which must have a kernel."""
    rows = [_row(policy) for policy in policies]
    whole = np.array([row[0] for row in rows], dtype=np.int64).reshape(len(rows), 5)
    numbers = np.array([row[1] for row in rows], dtype=np.float64).reshape(len(rows), 4)
    kind, window, commitment, plan_always, line = map(np.ascontiguousarray, whole.T)
    return Codes(kind, window, commitment, plan_always, line, numbers)


def within(codes: Codes, num_slots: int) -> Codes:
    """The codes that do the same in a job of so many slots, with no wider windows than that."""
    return codes._replace(
        window=np.minimum(codes.window, num_slots),
        commitment=np.minimum(codes.commitment, num_slots),
    )


def _row(policy: Policy) -> tuple[tuple[int, ...], tuple[float, ...]]:
    none = (0.0, 0.0, 0.0, 0.0)
    match policy:
        case Ahap(window, commitment, sigma, plan_always, line):
            row = (AHAP, window, commitment, int(plan_always), line_code(line))
            return row, (sigma, 0.0, 0.0, 0.0)
        case Ahanp(sigma, drop, shrink, growth, line):
            return (AHANP, 0, 0, 0, line_code(line)), (sigma, drop, shrink, growth)
        case OnDemandOnly():
            return (ON_DEMAND_ONLY, 0, 0, 0, 0), none
        case SpotFirst():
            return (SPOT_FIRST, 0, 0, 0, 0), none
        case UniformProgress(hysteresis):
            return (UNIFORM_PROGRESS, 0, 0, 0, 0), (hysteresis, 0.0, 0.0, 0.0)
        case Robust(risk, cost_cap, persistence):
            cap = np.inf if cost_cap is None else cost_cap
            return (ROBUST, 0, 0, 0, 0), (risk, cap, persistence, 0.0)
    raise AssertionError(policy)
