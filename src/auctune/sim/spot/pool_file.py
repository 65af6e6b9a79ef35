"""Pools of policies from TOML; docs/reference/spot-files.md.

Each table stands for all combinations of its lists, in the order of the keys, the last one
fastest. A policy may be in a pool only once.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from auctune.domain import InputError
from auctune.files.schema import STRICT, check_schema
from auctune.files.toml_file import read_toml
from auctune.spot import Ahanp, Ahap, OnDemandOnly, Policy, Robust, SpotFirst, UniformProgress
from auctune.spot.deadline import ProgressLine

_EXPECTED = "a pool of policies in TOML"
_MOST = 10_000

# In a pool: each of them is played on each job.
_MOST_POLICIES = 10_000


def _several(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _within(place: str, policies: Iterator[Policy]) -> list[Policy]:
    try:
        # One more than is allowed is enough to refuse them.
        return list(itertools.islice(policies, _MOST_POLICIES + 1))
    except InputError as error:
        raise InputError(f"{place}.{error.place}", error.found, error.expected) from None


Counts = Annotated[
    list[Annotated[int, Field(ge=1, le=_MOST)]], BeforeValidator(_several), Field(min_length=1)
]
Switches = Annotated[
    list[Annotated[int, Field(ge=0, le=_MOST)]], BeforeValidator(_several), Field(min_length=1)
]
Numbers = Annotated[list[float], BeforeValidator(_several), Field(min_length=1)]
Lines = Annotated[list[ProgressLine], BeforeValidator(_several), Field(min_length=1)]


class AhapEntry(BaseModel):
    """[[ahap]]: no commitment stands for all from 1 to each window."""

    model_config = STRICT

    window: Counts = [5]
    commitment: Counts | None = None
    sigma: Numbers = [0.6]
    plan_always: bool = False
    line: Lines = ["slot_end"]

    def policies(self) -> Iterator[Policy]:
        """By window, commitment, sigma, line."""
        for window in self.window:
            commitments = self.commitment or range(1, window + 1)
            for values in itertools.product(commitments, self.sigma, self.line):
                commitment, sigma, line = values
                yield Ahap(window, commitment, sigma, self.plan_always, line)


class AhanpEntry(BaseModel):
    """[[ahanp]]."""

    model_config = STRICT

    sigma: Numbers = [0.6]
    drop: Numbers = [0.5]
    shrink: Numbers = [0.5]
    growth: Numbers = [2.0]
    line: Lines = ["slot_start"]

    def policies(self) -> Iterator[Policy]:
        """By sigma, drop, shrink, growth, line."""
        for values in itertools.product(self.sigma, self.drop, self.shrink, self.growth, self.line):
            yield Ahanp(*values)


class UniformProgressEntry(BaseModel):
    """[[up]]."""

    model_config = STRICT

    hysteresis: Numbers = [2.0]
    top_up: bool = True
    safety_net: bool = True

    def policies(self) -> Iterator[Policy]:
        """By hysteresis."""
        for hysteresis in self.hysteresis:
            yield UniformProgress(hysteresis, self.top_up, self.safety_net)


class SpotFirstEntry(BaseModel):
    """[[msu]]: without `switch` it turns to on-demand when the deadline presses."""

    model_config = STRICT

    switch: Switches | None = None

    def policies(self) -> Iterator[Policy]:
        """By switch."""
        switches: Sequence[int | None] = self.switch or [None]
        return map(SpotFirst, switches)


class RobustEntry(BaseModel):
    """[[robust]]."""

    model_config = STRICT

    risk: Numbers = [0.0]
    cost_cap: Numbers | None = None
    persistence: Numbers = [0.5]

    def policies(self) -> Iterator[Policy]:
        """By risk, cost cap, persistence."""
        caps: Sequence[float | None] = self.cost_cap or [None]
        for risk, cap, persistence in itertools.product(self.risk, caps, self.persistence):
            yield Robust(risk, cap, persistence)


class PoolFile(BaseModel):
    """The whole file; policies come in the order of these keys."""

    model_config = STRICT

    ahap: list[AhapEntry] = []
    ahanp: list[AhanpEntry] = []
    up: list[UniformProgressEntry] = []
    robust: list[RobustEntry] = []
    msu: list[SpotFirstEntry] = []
    od_only: bool = False

    def pool(self) -> tuple[Policy, ...]:
        """Return all policies.

        Raises:
            InputError: naming the key's path, or the policy that is there twice.
        """
        policies: list[Policy] = []
        for kind in ("ahap", "ahanp", "up", "robust", "msu"):
            for index, entry in enumerate(getattr(self, kind)):
                policies += _within(f"{kind}[{index}]", entry.policies())
        policies += [OnDemandOnly()] * self.od_only
        _check_different(policies)
        return tuple(policies)


def read_pool(path: Path) -> tuple[Policy, ...]:
    """Return the policies in a file.

    Raises:
        InputError: `FILE: ahap[0].sigma[2]: found; expected ...`, for the first thing that is
            wrong.
    """
    file = check_schema(PoolFile, read_toml(path, _EXPECTED), str(path))
    try:
        return file.pool()
    except InputError as error:
        raise error.within(str(path)) from None


def _check_different(policies: list[Policy]) -> None:
    if not policies:
        raise InputError("the pool", "is empty", "one policy at least")
    if len(policies) > _MOST_POLICIES:
        raise InputError("the pool", f"has more than {_MOST_POLICIES} policies", "fewer")
    # By name, which is what tables and charts tell them apart by.
    seen: set[str] = set()
    for name in (policy.name for policy in policies):
        if name in seen:
            raise InputError("the pool", f"has {name} twice", "each policy once")
        seen.add(name)
