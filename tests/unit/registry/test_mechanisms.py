from dataclasses import replace
from decimal import Decimal

import pytest

from auctune.auction import GreedyAdmission, Pdftsp, PdftspParams, Titan
from auctune.domain import Cluster, InputError, Node, NodeType, Task
from auctune.files.parameter_text import parse_params
from auctune.registry.mechanisms import (
    build,
    check_settings,
    clairvoyant_params,
    mechanism_names,
    setting_names,
)
from auctune.registry.policies import SPOT_POLICIES
from auctune.spot import Ahanp, Ahap, OnDemandOnly, Robust, SpotFirst, UniformProgress

CLUSTER = Cluster(2, 60.0, 1.0, {"gpu": NodeType(10.0, 8.0, (0.1, 0.2))}, (Node("n", "gpu"),))
TASK = Task("t", 0, 1, 5.0, 2.0, Decimal("3.0000"), {"gpu": 5.0})
TASKS = (TASK, replace(TASK, id="u", work=2.0, memory_gb=0.0, bid=Decimal("2.0000")))


def test_every_mechanism_is_built_by_its_name() -> None:
    kinds = {"pdftsp": Pdftsp, "titan": Titan, "eft": GreedyAdmission, "ntm": GreedyAdmission}
    assert {name: type(build(name, CLUSTER)) for name in mechanism_names()} == kinds


def test_settings_are_the_parameters_of_the_mechanism() -> None:
    assert "payment" in setting_names("pdftsp")
    assert setting_names("eft") == ()
    assert setting_names("ntm") == ("seed",)


def test_settings_reach_the_mechanism() -> None:
    made = build(
        "pdftsp", CLUSTER, {"payment": "paper", "compute_low": "1e-3", "compute_high": "2"}
    )
    assert isinstance(made, Pdftsp)
    assert made.params == PdftspParams(
        payment="paper", pricing="exponential", compute_low=1e-3, compute_high=2.0
    )


def test_the_papers_alpha_and_beta_are_scaled_maxima_over_all_bids() -> None:
    settings = {"pricing": "paper", "scale": "0.5"}
    made = build("pdftsp", CLUSTER, settings, TASKS)
    assert isinstance(made, Pdftsp)
    # The greatest bid per sample is the second task's, which says nothing of memory.
    assert (made.params.alpha, made.params.beta) == (0.5 * 1.0, 0.5 * 1.5)


def test_alpha_or_beta_that_is_given_stands() -> None:
    params = clairvoyant_params(PdftspParams(pricing="paper", beta=7.0), TASKS)
    assert (params.alpha, params.beta) == (1.0, 7.0)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("fifo", {}, "mechanism: 'fifo' is not offered; expected one of pdftsp, titan, eft, ntm"),
        ("titan", {"gap": "1"}, "gap: 1.0; expected a share of welfare, 0 <= gap < 1"),
        ("titan", {"max_nodes": "0"}, "max_nodes: 0; expected a whole number >= 1"),
        ("titan", {"time_limit": "0"}, "time_limit: 0.0; expected seconds > 0"),
        ("titan", {"seed": "-1"}, "seed: -1; expected a whole number >= 0"),
        (
            "eft",
            {"seed": "1"},
            "seed: is not a setting of this mechanism; expected no setting",
        ),
        ("ntm", {"seed": "1.5"}, "seed: '1.5'; expected a whole number"),
        ("ntm", {"seed": "-1"}, "seed: -1; expected a whole number >= 0"),
        ("ntm", {"seed": "9" * 19}, "seed: .*; expected a whole number"),
        (
            "pdftsp",
            {"payement": "paper"},
            "payement: is not a setting of this mechanism; expected one",
        ),
        ("pdftsp", {"payment": "Paper"}, "payment: 'Paper'; expected one of critical, paper"),
        ("pdftsp", {"pricing": ""}, "pricing: ''; expected one of learned, exponential, paper"),
        (
            "pdftsp",
            {"alpha": "1", "pricing": "exponential"},
            "alpha: says nothing to pricing=exponential; expected pricing=",
        ),
        (
            "pdftsp",
            {"pricing": "paper", "memory_low": "1", "memory_high": "2"},
            "memory_low: says nothing to pricing=paper; expected pricing=exponential",
        ),
        ("pdftsp", {"pricing": "paper", "alpha": "x"}, "alpha: 'x'; expected a number"),
        ("pdftsp", {"pricing": "paper", "alpha": "nan"}, "alpha: 'nan'; expected a number"),
        ("pdftsp", {"pricing": "paper", "alpha": "1_0"}, "alpha: '1_0'; expected a number"),
        ("pdftsp", {"pricing": "paper", "alpha": " 1"}, "alpha: ' 1'; expected a number"),
        ("pdftsp", {"pricing": "paper", "alpha": "-1"}, "alpha: -1.0; expected a number >= 0"),
        ("pdftsp", {"pricing": "paper"}, "alpha: is not set; expected alpha and beta, where bids"),
        ("pdftsp", {"compute_low": "1"}, "compute_low: is set without compute_high; expected both"),
        (
            "pdftsp",
            {"compute_low": "2", "compute_high": "1"},
            "compute_low: 2.0; expected 0 < compute_low <= compute_high = 1.0",
        ),
    ],
)
def test_a_bad_setting_is_refused_by_name(
    name: str, settings: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        build(name, CLUSTER, settings)


def test_whole_numbers_and_choices_are_parsed() -> None:
    params = parse_params(
        PdftspParams, {"seed": "12", "aggregate": "sum", "pricing": "paper", "scale": "2"}
    )
    assert params == PdftspParams(seed=12, aggregate="sum", pricing="paper", scale=2.0)


@pytest.mark.parametrize(
    ("name", "settings", "what"),
    [
        ("lots", {}, "mechanism: 'lots' is not offered"),
        ("eft", {"seed": "1"}, "seed: is not a setting of this mechanism; expected no setting"),
        (
            "pdftsp",
            {"alpha": "1", "pricing": "learned"},
            "alpha: says nothing to pricing=learned",
        ),
    ],
)
def test_wrong_settings_show_without_a_cluster(
    name: str, settings: dict[str, str], what: str
) -> None:
    with pytest.raises(InputError, match=what):
        check_settings(name, settings)
    check_settings("pdftsp", {"pricing": "paper"})


def test_every_policy_of_renting_is_made_by_its_name() -> None:
    kinds = {
        "ahap": Ahap,
        "ahanp": Ahanp,
        "od-only": OnDemandOnly,
        "msu": SpotFirst,
        "up": UniformProgress,
        "robust": Robust,
    }
    made = {name: SPOT_POLICIES.build(name, {}) for name in SPOT_POLICIES.names()}
    assert {name: type(policy) for name, policy in made.items()} == kinds
    assert made == {name: kind() for name, kind in kinds.items()}


def test_settings_reach_a_policy_of_renting() -> None:
    given = {"window": "3", "commitment": "2", "plan_always": "true"}
    assert SPOT_POLICIES.build("ahap", given) == Ahap(3, 2, plan_always=True)
    assert SPOT_POLICIES.build("ahap", {"line": "slot_start"}) == Ahap(line="slot_start")
    assert SPOT_POLICIES.build("robust", {"cost_cap": "40", "risk": "0.1"}) == Robust(0.1, 40.0)
    with pytest.raises(InputError, match="window: 'wide'; expected a whole number"):
        SPOT_POLICIES.build("ahap", {"window": "wide"})
    with pytest.raises(InputError, match="is not a setting"):
        SPOT_POLICIES.build("od-only", {"sigma": "0.5"})
    with pytest.raises(InputError, match="'ahap2' is not offered"):
        SPOT_POLICIES.build("ahap2", {})
