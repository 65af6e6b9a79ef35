"""A zone that rents, in auctune.toml."""

from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.service.settings.check import check_service
from auctune.service.settings.service_file import read_service_file
from auctune.service.settings.spot_entry import SpotEntry
from auctune.service.zones.premises import Place
from auctune.service.zones.spot.kind import instance_settings
from support.spot_files import daily_market, write_market

ZONE = """
[[zones]]
kind = "spot"
market = "market.csv"
"""


def written(folder: Path, more: str = "") -> Path:
    write_market(folder / "market.csv", daily_market(40, 60.0))
    file = folder / "auctune.toml"
    file.write_text(ZONE + more)
    return file


def test_paths_start_from_the_folder_of_the_file(tmp_path: Path) -> None:
    file = read_service_file(written(tmp_path, 'profile = "p.json"\n'))
    (zone,) = file.zones
    assert isinstance(zone, SpotEntry)
    assert (zone.market, zone.profile) == (str(tmp_path / "market.csv"), str(tmp_path / "p.json"))
    (need,) = zone.needs().devices
    assert (need.device, need.profile, need.num_nodes) == ("cpu", zone.profile, 4)
    assert (zone.num_slots, zone.replayed_seconds) == (96, 60.0)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ("n_min = 5\n", r"zones\[0\].n_min"),
        ("scaling = [1.0]\n", r"zones\[0\].scaling"),
        ("fixed_price = 1.0\nprices = 'a.csv'\n", r"zones\[0\].fixed_price"),
        ("nodes = []\n", r"zones\[0\].nodes"),
        ("[zones.ray]\nspot_resource = 'a'\n", r"zones\[0\].ray"),
        ("provider = 'ray'\nwarm = true\n", r"zones\[0\].warm"),
        ("device = 'cuda'\n", r"zones\[0\].device: 'cuda' would be shared by 16 instances"),
        (
            "provider = 'ray'\ndevice = 'cuda:1'\n[zones.ray]\naddress = 'a:1'\n",
            r"zones\[0\].device",
        ),
    ],
)
def test_what_is_wrong_in_itself_is_named(tmp_path: Path, more: str, place: str) -> None:
    with pytest.raises(InputError, match=place):
        read_service_file(written(tmp_path, more))


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ("policy = 'greedy'\n", r"zones\[0\].policy"),
        ("forecast = 'perfect'\n", r"zones\[0\].forecast"),
        ("start = 40\n", r"zones\[0\].start"),
        ("prices = 'nowhere.csv'\n", r"zones\[0\].prices: .*nowhere.csv: "),
    ],
)
def test_what_it_names_is_looked_up_before_a_start(tmp_path: Path, more: str, place: str) -> None:
    with pytest.raises(InputError, match=place):
        check_service(read_service_file(written(tmp_path, more)))


def test_instances_on_a_cluster_need_nothing_of_this_machine(tmp_path: Path) -> None:
    ray = 'provider = "ray"\n[zones.ray]\naddress = "10.0.0.1:6379"\nspot_resource = "cheap"\n'
    (zone,) = read_service_file(written(tmp_path, ray)).zones
    assert isinstance(zone, SpotEntry)
    assert zone.needs().devices == ()
    assert zone.cluster is not None
    assert (zone.cluster.address, zone.cluster.spot) == ("10.0.0.1:6379", "cheap")
    (own,) = read_service_file(written(tmp_path, 'provider = "ray"\n')).zones
    assert isinstance(own, SpotEntry)
    assert len(own.needs().devices) == 1
    (here,) = read_service_file(written(tmp_path)).zones
    assert isinstance(here, SpotEntry)
    assert here.cluster is None


def test_a_zone_with_gpus_on_a_cluster_and_a_profile_asks_no_gpu_of_its_own_machine(
    tmp_path: Path,
) -> None:
    more = "provider = 'ray'\ndevice = 'cuda'\n{}[zones.ray]\naddress = 'head:1'\n"
    place = Place(tmp_path, tmp_path)
    devices = []
    for profile in ("profile = 'p.json'\n", ""):
        (zone,) = read_service_file(written(tmp_path, more.format(profile))).zones
        assert isinstance(zone, SpotEntry)
        devices.append(instance_settings(zone, place).device)
    # Without a profile there is nothing but this machine to measure.
    assert devices == ["cpu", "cuda"]
