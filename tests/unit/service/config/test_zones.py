"""Zones of each kind in auctune.toml: errors are named, and what a zone requires is known."""

from dataclasses import replace
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.edge import ErisParams
from auctune.service.config.auction import AuctionConfig
from auctune.service.config.edge import EdgeConfig, read_supply, supply_record
from auctune.service.config.models import read_config
from auctune.service.config.spot import SpotConfig
from auctune.service.config.zone import DeviceRequirement
from auctune.service.zones.core.worker import DataDirs
from auctune.service.zones.kinds import check_service
from auctune.service.zones.spot.kind import instance_settings
from auctune.spot.job import InstanceStart, Overhead
from support.spot_files import daily_market, write_market

EDGE_EXAMPLE = Path(__file__).parents[4] / "examples" / "edge" / "zone.toml"
SPOT_ZONE = """
[[zones]]
kind = "spot"
market = "market.csv"
"""


def write_spot(folder: Path, more: str = "") -> Path:
    write_market(folder / "market.csv", daily_market(40, 60.0))
    file = folder / "auctune.toml"
    file.write_text(SPOT_ZONE + more)
    return file


def test_paths_of_a_spot_zone_start_from_the_folder_of_the_file(tmp_path: Path) -> None:
    file = read_config(write_spot(tmp_path, 'profile = "p.json"\n'))
    (zone,) = file.zones
    assert isinstance(zone, SpotConfig)
    assert (zone.market, zone.profile) == (str(tmp_path / "market.csv"), str(tmp_path / "p.json"))
    (need,) = zone.requirements().devices
    assert (need.device, need.profile, need.num_nodes) == ("cpu", zone.profile, 4)
    assert (zone.num_slots, zone.replayed_seconds) == (96, 60.0)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ("scaling = [1.0]\n", r"zones\[0\].scaling"),
        ("fixed_price = 1.0\nprices = 'a.csv'\n", r"zones\[0\].fixed_price"),
        ("nodes = []\n", r"zones\[0\].nodes"),
        ("[zones.ray]\n", r"zones\[0\].ray: is given with provider 'local'"),
        ("instance_start_seconds = 9e9\n", r"zones\[0\].instance_start_seconds"),
        ("device = 'cuda'\n", r"zones\[0\].device: 'cuda' would be shared by 16 instances"),
        (
            "provider = 'ray'\ndevice = 'cuda:1'\n[zones.ray]\naddress = 'a:1'\n",
            r"zones\[0\].device",
        ),
    ],
)
def test_an_invalid_spot_zone_is_named_by_its_key(tmp_path: Path, more: str, place: str) -> None:
    with pytest.raises(InputError, match=place):
        read_config(write_spot(tmp_path, more))


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ("policy = 'greedy'\n", r"zones\[0\].policy"),
        ("forecast = 'perfect'\n", r"zones\[0\].forecast"),
        ("start = 40\n", r"zones\[0\].start"),
        ("prices = 'nowhere.csv'\n", r"zones\[0\].prices: .*nowhere.csv: "),
    ],
)
def test_what_a_spot_zone_refers_to_is_checked_before_a_start(
    tmp_path: Path, more: str, place: str
) -> None:
    with pytest.raises(InputError, match=place):
        check_service(read_config(write_spot(tmp_path, more)))


def test_instances_on_a_cluster_require_nothing_of_this_machine(tmp_path: Path) -> None:
    ray = 'provider = "ray"\n[zones.ray]\naddress = "10.0.0.1:6379"\n'
    (zone,) = read_config(write_spot(tmp_path, ray)).zones
    assert isinstance(zone, SpotConfig)
    assert zone.requirements().devices == ()
    assert zone.cluster is not None
    assert (zone.cluster.address, zone.cluster.spot) == ("10.0.0.1:6379", "auctune:spot")
    # Jobs wait slot by slot for a cluster that is not reachable.
    assert zone.cluster.reach_seconds == 86_400.0
    (own,) = read_config(write_spot(tmp_path, 'provider = "ray"\n')).zones
    assert isinstance(own, SpotConfig)
    assert len(own.requirements().devices) == 1
    assert own.cluster is not None
    assert own.cluster.address is None
    (here,) = read_config(write_spot(tmp_path)).zones
    assert isinstance(here, SpotConfig)
    assert here.cluster is None


@pytest.mark.parametrize(
    ("more", "overhead"),
    [
        ("", InstanceStart(0.1)),
        ("instance_start_seconds = 15\n", InstanceStart(0.25)),
        ("n_max = 32\n", InstanceStart(0.1)),
        # Plans by instance would be coarse, unless a start is known.
        ("n_max = 33\n", Overhead(0.9, 0.95)),
        ("n_max = 33\ninstance_start_seconds = 15\n", InstanceStart(0.25)),
    ],
)
def test_a_change_of_gpus_costs_the_start_of_an_instance_or_a_share_of_a_slot(
    tmp_path: Path, more: str, overhead: InstanceStart | Overhead
) -> None:
    (zone,) = read_config(write_spot(tmp_path, more)).zones
    assert isinstance(zone, SpotConfig)
    assert zone.overhead == overhead


def test_a_zone_with_gpus_on_a_cluster_and_a_profile_asks_no_gpu_of_its_own_machine(
    tmp_path: Path,
) -> None:
    more = "provider = 'ray'\ndevice = 'cuda'\n{}[zones.ray]\naddress = 'head:1'\n"
    place = DataDirs(tmp_path, tmp_path)
    devices = []
    for profile in ("profile = 'p.json'\n", ""):
        (zone,) = read_config(write_spot(tmp_path, more.format(profile))).zones
        assert isinstance(zone, SpotConfig)
        devices.append(instance_settings(zone, place).device)
    # Without a profile there is nothing but this machine to measure.
    assert devices == ["cpu", "cuda"]


def read_edge(folder: Path, *lines: str) -> EdgeConfig:
    path = folder / "auctune.toml"
    path.write_text("\n".join(("[[zones]]", 'kind = "edge"', *lines)))
    (entry,) = read_config(path).zones
    assert isinstance(entry, EdgeConfig)
    return entry


def test_an_edge_zone_is_the_market_that_its_log_makes_again(tmp_path: Path) -> None:
    entry = read_edge(tmp_path, "pricing = { reserve_value = 3.0 }")
    assert read_supply(entry.record()) == (entry.market, entry.params)
    assert entry.market.site_ids == ("site-a", "site-b")
    assert entry.params == ErisParams("share", 3.0, 0.12, 10.0)
    # As zones could be opened once.
    market = replace(entry.market, price_base={"cpu": 50.0, "data": 20.0})
    params = ErisParams("paper", 10.0, 0.5, 2.0)
    assert read_supply(supply_record(market, params)) == (market, params)


def test_the_example_is_an_edge_zone() -> None:
    (entry,) = read_config(EDGE_EXAMPLE).zones
    assert isinstance(entry, EdgeConfig)
    assert entry.market.site_ids == ("north", "south")
    assert entry.required_base == "tiny"


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        (('dtype = "int8"',), "dtype"),
        (("nodes = []",), "nodes"),
        (("sites = []",), "sites"),
        (('sites = [{ id = "a", capacity = { cpu = -1.0 } }]',), "capacity"),
        (('sites = [{ id = "a/b", capacity = { cpu = 1.0 } }]',), "id"),
        (
            ('sites = [{ id = "a", capacity = { x = 1 } }, { id = "a", capacity = { x = 1 } }]',),
            "sites[1].id",
        ),
        (("worker = { gpu = 1.0 }",), "worker.gpu"),
        (("worker = { cpu = 0.0 }",), "worker"),
        (("server = { gpu = 1.0 }",), "server.gpu"),
        (("pricing = { reserve_value = -1.0 }",), "pricing.reserve_value"),
        (("headroom = 1.0",), "headroom"),
        (('ray = { address = "nowhere" }',), "address"),
        (('ray = { address = "head:1" }', 'device = "cuda:1"'), "device"),
        (('ray = { address = "head:1" }', 'device = "cuda"'), "worker.gpu"),
        (('device = "cuda"',), "device"),
    ],
)
def test_an_invalid_edge_zone_is_named_by_its_key(
    lines: tuple[str, ...], place: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as refused:
        read_edge(tmp_path, *lines)
    assert place in refused.value.place


def test_an_auction_requires_the_devices_of_its_nodes_and_no_others() -> None:
    entry = AuctionConfig.model_validate(
        {
            "node_types": {"gpu": {"device": "cuda:1", "profile": "p.json"}, "unused": {}},
            "nodes": [{"id": "a", "type": "gpu"}],
            "vendors": [{"name": "far", "url": "https://far.example", "token_file": "s"}],
        }
    )
    requirements = entry.requirements()
    assert requirements.devices == (DeviceRequirement("node_types.gpu", "cuda:1", "p.json", 1),)
    assert requirements.vendors == {"far": "https://far.example"}


def test_nodes_of_several_devices_have_a_process_for_each() -> None:
    entry = AuctionConfig.model_validate(
        {
            "node_types": {"pair": {"devices": 2}, "one": {}},
            "nodes": [{"id": "a", "type": "pair"}, {"id": "b", "type": "one"}],
        }
    )
    pair, one = entry.requirements().devices
    assert (pair.num_devices, pair.num_processes, one.num_processes) == (2, 2, 1)
    assert entry.num_cpu_workers == 3
    # Those of one node share its part of the memory, which was measured so.
    assert entry.nodes_per_device("pair") == 2
