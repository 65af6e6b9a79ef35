"""Every mechanism, by a name that says with which options.

A quick run has every pair of options; a thorough one all combinations.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import get_args

from auctune.auction import Pdftsp, PdftspParams, Titan, TitanParams, make_eft, make_ntm
from auctune.auction.params import Aggregate, CapacityCheck, Payment
from auctune.domain import Admission, Cluster
from support.thorough import THOROUGH

Make = Callable[[Cluster], Admission]

PRICINGS: Mapping[str, dict[str, float | str]] = {
    "revealed-range": {"pricing": "exponential"},
    "set-range": {
        "pricing": "exponential",
        "compute_low": 0.05,
        "compute_high": 2.0,
        "memory_low": 0.02,
        "memory_high": 1.0,
    },
    "paper": {"pricing": "paper", "alpha": 0.7, "beta": 0.4},
}


# Every pair of options stands in one of these.
PAIRS = (
    "critical-masked-sum-set-range",
    "critical-masked-sum-paper",
    "critical-masked-max-revealed-range",
    "critical-masked-max-set-range",
    "critical-checked-sum-set-range",
    "critical-checked-sum-revealed-range",
    "critical-checked-max-paper",
    "paper-masked-sum-paper",
    "paper-masked-max-set-range",
    "paper-checked-sum-revealed-range",
)

# Learning takes its time, and its prices know nothing of payments: every option once, not all
# combinations.
LEARNED = (
    PdftspParams(pricing="learned"),
    PdftspParams(pricing="learned", capacity="checked", aggregate="max", payment="paper"),
)
LEARNED_THOROUGHLY = (
    *LEARNED,
    PdftspParams(pricing="learned", capacity="checked", aggregate="max"),
    PdftspParams(pricing="learned", payment="paper"),
)


def params_by_name(payments: tuple[Payment, ...] = get_args(Payment)) -> dict[str, PdftspParams]:
    """The auction's options, those that this run is to test."""
    combined = {
        "-".join((payment, capacity, aggregate, name)): PdftspParams(
            payment=payment,
            capacity=capacity,
            aggregate=aggregate,
            **pricing,  # type: ignore[arg-type]  # a mapping of settings of several types
        )
        for payment, capacity, aggregate, (name, pricing) in itertools.product(
            payments, get_args(CapacityCheck), get_args(Aggregate), PRICINGS.items()
        )
    }
    if not THOROUGH:
        combined = {name: params for name, params in combined.items() if name in PAIRS}
    return combined | {
        f"{params.payment}-{params.capacity}-{params.chosen_aggregate}-learned": params
        for params in (LEARNED_THOROUGHLY if THOROUGH else LEARNED)
        if params.payment in payments
    }


def maker(params: PdftspParams) -> Make:
    """Builds the auction with these options."""
    return lambda cluster: Pdftsp(cluster, params)


AUCTIONS: Mapping[str, Make] = {name: maker(params) for name, params in params_by_name().items()}
TRUTHFUL: Mapping[str, Make] = {
    name: maker(params) for name, params in params_by_name(("critical",)).items()
}
MECHANISMS: Mapping[str, Make] = {
    **AUCTIONS,
    "titan": lambda cluster: Titan(cluster, TitanParams(seed=3)),
    "eft": make_eft,
    "ntm": lambda cluster: make_ntm(cluster, seed=3),
}
