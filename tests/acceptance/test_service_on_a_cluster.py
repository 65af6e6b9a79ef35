"""A service whose nodes are on a Ray cluster, of which nodes and head are taken away at work."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from auctune.train.base import Base
from support.executor_kinds import LEASE_SECONDS
from support.one_job import adapter, beyond, check_charged_once, rows_of_job, submit
from support.ray_nodes import RayNodes
from support.service_process import Answer, ServiceProcess, rows_of, running, write_service
from support.waits import poll

pytest_plugins = ["support.tiny_bases", "support.executor_fixtures"]
pytestmark = [pytest.mark.slow, pytest.mark.ray]

ZONE = "/v1/zones/default/state"
_LAUNCHER = "auctune.engine.runtime.ray.launcher.RayLauncher"
CONSTANTS = {f"{_LAUNCHER}.lease_seconds": LEASE_SECONDS, f"{_LAUNCHER}.missing_seconds": 10.0}


def write_cluster_service(folder: Path, architecture: str, address: str) -> Path:
    """A zone with a node on each of the cluster's: alpha and beta."""
    config = write_service(
        folder,
        architecture,
        slot_seconds=3.0,
        tokens_per_second=200,
        slots=300,
        executor="ray",
        more=f"""
[[zones.nodes]]
id = "beta"
type = "local"
[zones.ray]
address = "{address}"
""",
    )
    config.write_text(config.read_text().replace("local-0", "alpha"))
    return config


def state_of(service: ServiceProcess, node: str) -> str:
    nodes = service.ask("GET", ZONE)[1]["nodes"]
    return str(next(one["state"] for one in nodes if one["id"] == node))


def wait_until_up(service: ServiceProcess, *nodes: str) -> None:
    poll(lambda: all(state_of(service, node) == "up" for node in nodes), "nodes to be up")


def node_at_work(job: Answer) -> str:
    """Where a job is planned next."""
    return str(job["market"]["plan"]["cells"][-1]["node"])


def test_a_job_outlives_its_node_a_new_head_and_the_service_and_replays(
    nodes: RayNodes, tiny_base: Base, tmp_path: Path
) -> None:
    config = write_cluster_service(tmp_path, tiny_base.architecture, nodes.address)
    with running(config, tmp_path / "data", CONSTANTS) as service:
        file = service.upload(rows_of(40))
        # What there is no node for is not sold.
        wait_until_up(service, "alpha", "beta")
        undisturbed = adapter(service, submit(service, file, "+880s"))
        job = submit(service, file, "+880s")
        disturb: list[Callable[[], None]] = [
            lambda: _cut_power(service, nodes, node_at_work(service.job(job))),
            lambda: _replace_head(nodes),
            lambda: _restart(service),
        ]
        rows = 0
        for one in disturb:
            rows = rows_of_job(service.wait_for_job(job, beyond(rows)))
            one()
            assert rows_of_job(service.job(job)) >= rows
        assert adapter(service, job) == undisturbed
        assert service.stop() == 0
    check_charged_once(tmp_path / "data", job)
    again = [sys.executable, "-m", "auctune", "replay", "--data", str(tmp_path / "data"), "--json"]
    assert subprocess.run(again, capture_output=True, check=False).returncode == 0


def test_a_service_is_there_again_while_a_node_of_its_cluster_is_not(
    nodes: RayNodes, tiny_base: Base, tmp_path: Path
) -> None:
    config = write_cluster_service(tmp_path, tiny_base.architecture, nodes.address)
    with running(config, tmp_path / "data", CONSTANTS) as service:
        service.kill()
        nodes.tell("kill", "alpha")
        service.start()
        poll(lambda: state_of(service, "alpha") == "lost", "a node to be missed")
        wait_until_up(service, "beta")
        adapter(service, submit(service, service.upload(rows_of(6))))
        nodes.tell("start", "alpha")
        wait_until_up(service, "alpha")
        assert service.stop() == 0


def _cut_power(service: ServiceProcess, nodes: RayNodes, node: str) -> None:
    nodes.tell("kill", node)
    poll(lambda: state_of(service, node) == "lost", "a node to be missed")
    nodes.tell("start", node)


def _replace_head(nodes: RayNodes) -> None:
    nodes.tell("head")


def _restart(service: ServiceProcess) -> None:
    service.kill()
    service.start()
