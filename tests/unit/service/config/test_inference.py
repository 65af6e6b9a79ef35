"""Settings of the processes that generate answers."""

from pathlib import Path

import pytest

from auctune.domain.base_name import BaseDtype
from auctune.service.config.auction import AuctionConfig
from auctune.service.config.inference import InferenceConfig


@pytest.mark.parametrize(
    ("trained", "device", "answers", "checks_base"),
    [
        # Its adapters are of a base with another digest then.
        ("nf4", "cpu", "bfloat16", False),
        ("nf4", "cuda", "nf4", True),
        ("bfloat16", "cpu", "bfloat16", True),
    ],
)
def test_a_base_answers_in_the_number_type_in_which_it_is_trained_if_it_can(
    trained: BaseDtype, device: str, answers: str, checks_base: bool
) -> None:
    zone = AuctionConfig(dtype=trained)
    found = InferenceConfig(device=device).bases([zone], Path("cache"), {zone.name: "d"})[zone.base]
    assert (found.dtype, found.checks_base) == (answers, checks_base)
