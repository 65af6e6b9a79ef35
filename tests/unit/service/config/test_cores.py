"""Cores that zones share: what is sold is what there is."""

import os
import queue
from pathlib import Path

import pytest

from auctune.domain import InputError
from auctune.engine.messages.node import NODE_MESSAGES
from auctune.engine.runtime.local import WorkerProcess
from auctune.service.config.auction import AuctionConfig, NodeConfig
from auctune.service.config.edge import EdgeConfig
from auctune.service.config.models import ServiceConfig, read_config
from auctune.service.config.spot import SpotConfig
from auctune.service.config.timeshare import TimeshareConfig
from auctune.service.config.zone import (
    LanguageZoneConfig,
    core_warnings,
    divide_cores,
    usable_cores,
)
from auctune.service.zones.kinds import check_service

EXAMPLES = Path(__file__).parents[4] / "examples"


def sold_cores(zones: list[LanguageZoneConfig]) -> float:
    """Return the cores that the workers of all zones would use, each at the speed that is sold."""
    return sum(zone.num_cpu_workers * zone.worker_threads * zone.worker_share for zone in zones)


def language_zones(config: ServiceConfig) -> list[LanguageZoneConfig]:
    return [zone for zone in config.zones if isinstance(zone, LanguageZoneConfig)]


def test_the_zones_of_the_demo_sell_no_more_cores_than_there_are() -> None:
    config = read_config(EXAMPLES / "service" / "all-kinds.toml")
    zones = language_zones(config)
    divide_cores(zones, 2.0)
    assert sum(zone.num_cpu_workers * zone.worker_cores for zone in zones) <= 2.0
    assert 1.9 < sold_cores(zones) <= 2.0
    assert [zone.niceness for zone in zones] == [0] * len(zones)
    assert len(core_warnings(zones)) == len(zones)


def test_zones_on_more_cores_than_workers_are_sold_at_the_measured_speed() -> None:
    zones = language_zones(read_config(EXAMPLES / "service" / "all-kinds.toml"))
    divide_cores(zones, 64.0)
    assert [zone.worker_share for zone in zones] == [1.0] * len(zones)
    assert core_warnings(zones) == []


def test_a_stated_number_of_cores_is_kept_and_the_rest_is_divided_by_workers() -> None:
    pool = TimeshareConfig(name="pool", cores=0.5)
    nodes = AuctionConfig(
        name="nodes", nodes=[NodeConfig(id="a", type="local"), NodeConfig(id="b", type="local")]
    )
    sites = EdgeConfig(name="sites", worker={"cpu": 2.0})
    divide_cores([pool, nodes, sites], 2.5)
    assert (pool.worker_cores, pool.worker_share) == (0.5, 0.5)
    assert (nodes.num_cpu_workers, sites.num_cpu_workers) == (2, 2)
    assert nodes.worker_cores == sites.worker_cores == 0.5
    divide_cores([pool, nodes], 2.5)
    # Half the share of the others: a niceness of 3 has half the weight.
    assert (nodes.worker_share, pool.worker_share) == (1.0, 0.5)
    assert (nodes.niceness, pool.niceness) == (0, 3)


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        (1.5, 1.0, r"have 2.5 of the 2 cores of this machine \(a 1.5, b 1\)"),
        (2.0, None, r"have 2 of the 2 cores of this machine \(a 2\)"),
    ],
)
def test_zones_that_would_sell_more_cores_than_there_are_are_refused(
    first: float, second: float | None, what: str
) -> None:
    zones = [TimeshareConfig(name="a", cores=first), TimeshareConfig(name="b", cores=second)]
    with pytest.raises(InputError, match=what):
        divide_cores(zones, 2.0)


def test_a_service_that_sells_more_cores_than_there_are_does_not_start() -> None:
    config = ServiceConfig(zones=[TimeshareConfig(name="pool", cores=usable_cores() + 1)])
    with pytest.raises(InputError, match="cores of this machine"):
        check_service(config)


def test_cores_of_a_zone_without_a_worker_on_this_machine_are_refused() -> None:
    zone = TimeshareConfig(name="pool", device="cuda", cores=1.0)
    with pytest.raises(InputError, match=r"zones\[0\].cores"):
        divide_cores([zone], 2.0)


def test_rented_instances_of_all_jobs_share_the_cores() -> None:
    zone = SpotConfig(name="rented", market="m.csv", n_max=4, max_jobs=2)
    divide_cores([zone], 2.0)
    assert (zone.num_cpu_workers, zone.worker_cores, zone.worker_threads) == (8, 0.25, 1)


def test_a_worker_has_the_niceness_of_its_zone() -> None:
    inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
    worker = WorkerProcess(
        "support.environment", "NAMED_BY_A_TEST", inbox.put, NODE_MESSAGES, niceness=5
    )
    try:
        assert os.getpriority(os.PRIO_PROCESS, worker.pid) == 5
    finally:
        worker.kill()
