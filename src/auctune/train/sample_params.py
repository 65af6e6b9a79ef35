"""How text is drawn from a model; needs no torch."""

import math
from dataclasses import dataclass

from auctune.domain.checks import check_count
from auctune.domain.errors import InputError


@dataclass(frozen=True, slots=True)
class SampleParams:
    """How tokens are chosen.

    Attributes:
        max_tokens: to be drawn at most, >= 1.
        temperature: divides the logits, >= 0; 0: always the likeliest token.
        seed: of the draws, >= 0.
    """

    max_tokens: int = 64
    temperature: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(self.max_tokens, "max_tokens", 1)
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise InputError("temperature", f"{self.temperature!r}", "a number >= 0")
        check_count(self.seed, "seed", 0)
