"""A Ray cluster on one machine: a node for the driver, and one for each site, side by side.

They end with the process that started them, however it ends: the kernel sees to that on Linux.
Nothing but the loopback interface is used, and no dashboard or usage report is started.
"""

import contextlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from auctune.edge.market import Site
from auctune.run.edge.resources import offered

_PREFIX = "auctune-ray-"
_STORE_BYTES = 80_000_000
_LOOPBACK = "127.0.0.1"
_ENVIRONMENT = {
    # Loopback stays loopback, which Ray otherwise replaces by the machine's address.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# A node that is gone is to be noticed within two seconds, not within half a minute.
_HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}


def hush() -> None:
    """Keep off this process's standard output what befalls nodes: Ray has no option for it.

    The driver sees it by itself, and tells it in its own words.
    """
    import ray

    ray._private.worker.print_to_stdstream = _say_nothing


def _say_nothing(*_arguments: object, **_options: object) -> None:
    pass


class LocalCluster:
    """A context: nodes of sites, and this process as their driver.

    Args:
        sites: a node each.

    Attributes:
        folder: of sockets and logs; goes with the cluster, unless that was killed.
    """

    def __init__(self, sites: Iterable[Site]) -> None:
        self._sites = tuple(sites)
        self._nodes: dict[str, Any] = {}
        self._cluster: Any = None
        # Paths of sockets are short: not in a folder of the user's.
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))

    def __enter__(self) -> "LocalCluster":
        # Where it writes which cluster is the newest.
        (self.folder / "ray").mkdir()
        # To be said before Ray is imported; its processes inherit it.
        os.environ |= _ENVIRONMENT | {"RAY_TMPDIR": str(self.folder)}
        import ray
        from ray.cluster_utils import Cluster

        # Somebody may have imported it before.
        ray._private.ray_constants.ENABLE_RAY_CLUSTER = False
        common: dict[str, Any] = {
            "node_ip_address": _LOOPBACK,
            "object_store_memory": _STORE_BYTES,
            "num_cpus": 0,
            "include_log_monitor": False,
        }
        try:
            self._cluster = Cluster()
            self._cluster.add_node(
                **common,
                temp_dir=str(self.folder),
                include_dashboard=False,
                _system_config=_HEALTH,
            )
            for site in self._sites:
                self._nodes[site.id] = self._cluster.add_node(
                    wait=False, resources=offered(site), **common
                )
            self._cluster.wait_for_nodes()
            hush()
            ray.init(
                address=self._cluster.address,
                _node_ip_address=_LOOPBACK,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all nodes."""
        import ray

        ray.shutdown()
        if self._cluster is not None:
            self._cluster.shutdown()
            self._cluster = None
        os.environ.pop("RAY_TMPDIR", None)
        drop_folder(self.folder)

    def process_of(self, site: str) -> int:
        """The process whose end is the site's."""
        processes = self._nodes[site].live_processes()
        return next(int(process.pid) for name, process in processes if name == "raylet")

    def kill(self, site: str) -> None:
        """Lose a site, its actors with it, as by a power cut."""
        node = self.process_of(site)
        actors = Path(f"/proc/{node}/task/{node}/children").read_text().split()
        self._cluster.remove_node(self._nodes.pop(site), allow_graceful=False)
        for actor in actors:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(actor), signal.SIGKILL)


def drop_folder(folder: Path) -> None:
    """Remove what a cluster that is gone has left."""
    if folder.name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
