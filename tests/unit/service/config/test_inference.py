"""Settings of the processes that generate answers."""

from pathlib import Path
from typing import Any

import pytest

from auctune.domain import InputError
from auctune.domain.base_name import BaseDtype
from auctune.service.config.auction import AuctionConfig
from auctune.service.config.inference import InferenceConfig, VllmConfig


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
    assert (found.niceness, found.sold_share) == (19, 0.25)


def vllm(**settings: Any) -> InferenceConfig:
    table = {"python": "/opt/vllm-env/bin/python"} | settings
    return InferenceConfig(vllm=VllmConfig(**table))


def test_vllm_answers_for_the_bases_that_are_named_with_the_digests_of_the_zones(
    tmp_path: Path,
) -> None:
    (tmp_path / "chat").mkdir()
    zones = [AuctionConfig(name="a"), AuctionConfig(name="b", base=str(tmp_path / "chat"))]
    settings = vllm(bases=[zones[1].base], max_rank=16)
    found = settings.bases(zones, Path("cache"), {"a": "1", "b": "2"})
    assert found["tiny"].vllm is None
    own = found[zones[1].base].vllm
    assert own is not None
    assert (str(own.python), own.base_digest, own.max_rank) == (settings.vllm.python, "2", 16)  # type: ignore[union-attr]
    everywhere = vllm().bases(zones, Path("cache"), {"a": "1", "b": "2"})
    assert all(one.vllm is not None for one in everywhere.values())


@pytest.mark.parametrize(
    ("settings", "zone", "place"),
    [
        (vllm(), AuctionConfig(), r"inference\.vllm\.bases: the base 'tiny' is a GPT-2"),
        (vllm(), AuctionConfig(base="org/chat", dtype="nf4"), "'org/chat' is of dtype nf4"),
        (vllm(bases=["far"]), AuctionConfig(), "no zone has the base 'far'"),
        (vllm(python="none"), AuctionConfig(base="org/chat"), r"inference\.vllm\.python: none "),
    ],
)
def test_what_vllm_cannot_do_is_refused_before_a_start(
    settings: InferenceConfig, zone: AuctionConfig, place: str
) -> None:
    with pytest.raises(InputError, match=place):
        settings.check_vllm([zone])


def test_without_vllm_or_answers_there_is_nothing_to_check() -> None:
    assert InferenceConfig().check_vllm([AuctionConfig()]) is None
    off = vllm().model_copy(update={"enabled": False})
    assert off.check_vllm([AuctionConfig()]) is None
