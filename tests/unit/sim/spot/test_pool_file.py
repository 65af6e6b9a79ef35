from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.sim.spot.pool_file import read_pool
from auctune.spot import (
    Ahanp,
    Ahap,
    OnDemandOnly,
    Robust,
    SpotFirst,
    UniformProgress,
    default_pool,
)

PAPER = """
[[ahap]]
window = [1, 2, 3, 4, 5]
sigma = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]

[[ahanp]]
sigma = [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "pool.toml"
    path.write_text(text)
    return path


def test_the_papers_pool_is_two_tables(tmp_path: Path) -> None:
    assert read_pool(write(tmp_path, PAPER)) == default_pool()


def test_every_policy_can_be_in_a_pool(tmp_path: Path) -> None:
    text = """
    od_only = true
    [[ahap]]
    window = 10
    commitment = [1, 3]
    sigma = 0.9
    plan_always = true
    [[ahap]]
    window = 1
    line = ["slot_end", "slot_start"]
    [[ahanp]]
    growth = [2, 3]
    line = "slot_end"
    [[up]]
    hysteresis = [1, 2]
    [[up]]
    top_up = false
    safety_net = false
    [[msu]]
    [[msu]]
    switch = [0, 2]
    [[robust]]
    risk = 0.05
    cost_cap = 90
    [[robust]]
    """
    assert read_pool(write(tmp_path, text)) == (
        Ahap(10, 1, 0.9, True),
        Ahap(10, 3, 0.9, True),
        Ahap(1, 1, 0.6),
        Ahap(1, 1, 0.6, line="slot_start"),
        Ahanp(growth=2.0, line="slot_end"),
        Ahanp(growth=3.0, line="slot_end"),
        UniformProgress(1.0),
        UniformProgress(2.0),
        UniformProgress(top_up=False, safety_net=False),
        Robust(risk=0.05, cost_cap=90.0),
        Robust(),
        SpotFirst(),
        SpotFirst(0),
        SpotFirst(2),
        OnDemandOnly(),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"pool\.toml: the pool: is empty"),
        ("[[ahap]]\nwindow = [1, 0]", r"pool\.toml: ahap\[0\]\.window\[1\]: 0"),
        ("[[ahap]]\nwindow = []", r"ahap\[0\]\.window: a list"),
        ("[[ahap]]\nwindow = 1.5", r"ahap\[0\]\.window: 1\.5"),
        ("[[ahap]]\n[[ahap]]\nwindow = 2\ncommitment = 3", r"ahap\[1\]\.commitment: 3; .* = 2"),
        ("[[ahanp]]\nsigma = -0.5", r"ahanp\[0\]\.sigma: -0\.5"),
        ("[[ahanp]]\nsigma = [0.5, inf]", r"ahanp\[0\]\.sigma\[1\]: inf"),
        ("[[ahanp]]\nwindow = 3", r"ahanp\[0\]\.window: is an unknown key; expected one of sigma"),
        ("[[robust]]\nrisk = 2", r"robust\[0\]\.risk: 2"),
        ("[[up]]\nhysteresis = -1", r"up\[0\]\.hysteresis: -1"),
        ("[[best]]", r"pool\.toml: best: is an unknown key; expected one of ahap, ahanp"),
        ("[[msu]]\nswitch = -1", r"msu\[0\]\.switch: -1"),
        ("[[ahap]]\nline = 'end'", r"ahap\[0\]\.line: 'end'"),
        ("[[ahanp]]\nsigma = [0.5, 0.5]", r"the pool: has ahanp\(sigma=0\.5.*\) twice"),
        ("[[up]]\n[[up]]", r"the pool: has up.* twice"),
        ("[[ahap]]\nwindow = [9998, 9999]", r"the pool: has more than 10000 policies; expected"),
        ("[[up]]\nhysteresis = [0.3, 0.3000000001]", r"has up\(hysteresis=0\.3\) twice"),
    ],
)
def test_a_wrong_pool_is_refused_by_the_keys_path(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_pool(write(tmp_path, text))
