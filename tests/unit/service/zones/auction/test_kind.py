"""What a zone opens with."""

from dataclasses import replace
from pathlib import Path

import pytest

from auctune.engine.base_facts import BaseFacts
from auctune.files.device_profile import Profile
from auctune.service.config.auction import AuctionConfig, NodeTypeConfig
from auctune.service.zones.auction.kind import auction_record, build_supply, training_settings
from auctune.service.zones.auction.startup import synthetic_cluster, warm_up
from auctune.service.zones.core.worker import DataDirs

PROFILE = Path(__file__).parents[5] / "examples" / "first-market" / "cpu-core.json"


def compute_sold(headroom: float) -> float:
    """Samples a node sells in a slot."""
    profile = Profile.from_json(PROFILE.read_text(), str(PROFILE))
    facts = {"local": BaseFacts(name="tiny", digest="d", context_tokens=128, profile=profile)}
    entry = AuctionConfig(node_types={"local": NodeTypeConfig(headroom=headroom)})
    record = auction_record(entry, facts, now=1_000.0)
    supply = build_supply(entry, record)
    # What a task may be sold comes from the same profile as what a node has.
    ratio = supply.profiles["local"].compute(60.0, 64.0) / profile.compute(60.0, 64.0)
    assert ratio == pytest.approx(1 - headroom, rel=1e-3)
    return supply.cluster.node_types["local"].compute


def test_headroom_is_not_sold() -> None:
    assert compute_sold(0.25) == pytest.approx(0.75 * compute_sold(0.0), rel=1e-3)


def memory_sold(device: str, resources: list[str | None], address: str | None) -> float:
    """GB that each of some nodes of one type sells, where the device has 8."""
    profile = Profile.from_json(PROFILE.read_text(), str(PROFILE))
    profile = replace(profile, memory_gb=8.0)
    facts = {"local": BaseFacts(name="tiny", digest="d", context_tokens=128, profile=profile)}
    nodes = [{"id": f"n{i}", "type": "local", "resource": r} for i, r in enumerate(resources)]
    entry = AuctionConfig.model_validate(
        {
            "node_types": {"local": {"device": device}},
            "nodes": nodes,
            "executor": "local" if address is None else "ray",
            "ray": None if address is None else {"address": address},
        }
    )
    return (
        build_supply(entry, auction_record(entry, facts, now=1_000.0))
        .cluster.node_types["local"]
        .memory_gb
    )


def test_memory_is_divided_among_the_nodes_of_one_device_alone() -> None:
    assert memory_sold("cpu", [None] * 2, None) == 4.0
    # Each has a GPU, or a machine, of its own.
    assert memory_sold("cuda", ["auctune:gpu"] * 8, "head:6379") == 8.0
    assert memory_sold("cpu", [None] * 8, "head:6379") == 8.0
    # Of one group of machines, several may be placed on one of them.
    assert memory_sold("cpu", ["auctune:cpu", "auctune:cpu", None], "head:6379") == 4.0


def test_nodes_compute_as_the_settings_of_their_zone_say(tmp_path: Path) -> None:
    for given, every in ((True, 1), (2, 2), (False, 0)):
        entry = AuctionConfig.model_validate({"gradient_checkpointing": given})
        settings = training_settings(entry, entry.nodes[0].type, DataDirs(tmp_path, tmp_path))
        assert (settings.backend, settings.gradient_checkpointing) == ("auto", every)
        assert type(settings.gradient_checkpointing) is int
    settings = training_settings(AuctionConfig(), entry.nodes[0].type, DataDirs(tmp_path, tmp_path))
    assert (settings.backend, settings.gradient_checkpointing) == ("auto", 0)


def test_kernels_are_warmed_up_once_in_a_process() -> None:
    reported: list[float] = []
    for _ in range(2):
        warm_up("pdftsp", {}, synthetic_cluster(1), reported.append)
    assert reported.count(1.0) <= 1
