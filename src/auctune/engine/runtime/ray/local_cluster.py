"""A Ray cluster on one machine: a node for the driver, and others side by side.

On Linux the kernel ends them with the process that started them. Only the loopback interface is
used, and no dashboard or usage report is started. A driver of a cluster runs code as the user who
owns the processes of its nodes: drivers need a token, a random one unless the environment has one,
and sockets and logs are in a folder that no other user may enter.

Nodes are started by `ray.cluster_utils`, which Ray has for several nodes on one machine. The
command `ray start` would not do: for a node that joins, it replaces the loopback address by the
machine's, and Ray then listens on all interfaces.
"""

import contextlib
import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from auctune.domain import InputError

_PREFIX = "auctune-ray-"
_STORE_BYTES = 80_000_000
_START_TRIES = 3
_DROP_TRIES = 20
_DROP_PAUSE_SECONDS = 0.1
_LOOPBACK = "127.0.0.1"
_TOKEN_BYTES = 32
_TOKEN = "RAY_AUTH_TOKEN"
# Ray prints messages about lost nodes on standard output, unless a line matches this pattern.
_QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": "^"}
_ENVIRONMENT = _QUIET | {
    # Loopback stays loopback, which Ray otherwise replaces by the machine's address.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AUTH_MODE": "token",
}
_SYSTEM: dict[str, Any] = {
    # By default Ray lowers the priority of its workers below that of other zones' jobs.
    "worker_niceness": 0,
    # A lost node is noticed within two seconds instead of half a minute.
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}

_COMMON: dict[str, Any] = {
    "node_ip_address": _LOOPBACK,
    "object_store_memory": _STORE_BYTES,
    "include_log_monitor": False,
}


def silence_ray_output() -> None:
    """Keep Ray's messages about lost nodes off standard output; called before Ray is imported."""
    os.environ |= _QUIET


def set_ray_environment() -> None:
    """Set the variables with which this process is the driver of local clusters, and their token.

    Ray reads them once, at its import, so that they are set until the process ends, and all its
    clusters have one token: that of the environment, or a random one.

    Raises:
        InputError: if Ray has been imported without them.
    """
    variables = {_TOKEN: os.environ.get(_TOKEN) or secrets.token_hex(_TOKEN_BYTES), **_ENVIRONMENT}
    missing = [name for name, value in variables.items() if os.environ.get(name) != value]
    if missing and "ray" in sys.modules:
        found = f"has been imported without {', '.join(missing)} in the environment"
        raise InputError("ray", found, "to be imported by auctune, or after they are set")
    os.environ |= variables


class LocalCluster:
    """Context manager of a cluster on this machine, with this process as its driver.

    The kernel ends a node with the thread that added it.

    Args:
        nodes: resources of each node, by its name; `CPU` and `GPU` are Ray's own.
        namespace: of the driver's named actors.
        port: of the head; 0: any free port.

    Attributes:
        folder: of sockets and logs; removed with the cluster, unless that was killed.
    """

    def __init__(
        self,
        nodes: Mapping[str, Mapping[str, float]],
        namespace: str = "",
        port: int = 0,
    ) -> None:
        self._resources = {name: dict(has) for name, has in nodes.items()}
        self._namespace = namespace
        self._port = port
        self._nodes: dict[str, Any] = {}
        self._cluster: Any = None
        # Paths of sockets must be short, so the folder is not in the data folder. Ray makes the
        # folders within it accessible to all users.
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))

    @property
    def address(self) -> str:
        """Return HOST:PORT of the head."""
        return str(self._cluster.address)

    def __enter__(self) -> "LocalCluster":
        set_ray_environment()
        session = self.folder / "s"
        # Ray writes the address of its newest cluster there.
        (session / "ray").mkdir(parents=True)
        os.environ["RAY_TMPDIR"] = str(session)
        import ray
        from ray.cluster_utils import Cluster

        try:
            self._cluster = Cluster()
            self._cluster.add_node(
                **_COMMON,
                num_cpus=0,
                temp_dir=str(session),
                include_dashboard=False,
                gcs_server_port=self._port,
                _system_config=_SYSTEM,
            )
            for name, resources in self._resources.items():
                self._add(name, resources)
            self._cluster.wait_for_nodes()
            ray.init(
                address=self._cluster.address,
                namespace=self._namespace or None,
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

    def has(self, name: str) -> bool:
        """Return whether a node is alive."""
        node = self._nodes.get(name)
        return node is not None and any(kind == "raylet" for kind, _ in node.live_processes())

    def start_node(self, name: str, resources: Mapping[str, float]) -> None:
        """Start a node, or restart a lost one; does not wait until it has joined the cluster."""
        if name in self._nodes:
            self._cluster.remove_node(self._nodes.pop(name), allow_graceful=False)
        self._add(name, resources)

    def process_of(self, name: str) -> int:
        """Return the id of a node's raylet, with which the node ends."""
        processes = self._nodes[name].live_processes()
        return next(int(process.pid) for name, process in processes if name == "raylet")

    def kill(self, name: str) -> None:
        """Kill a node and its actors, as a power cut would."""
        node = self.process_of(name)
        actors = Path(f"/proc/{node}/task/{node}/children").read_text().split()
        self._cluster.remove_node(self._nodes.pop(name), allow_graceful=False)
        for actor in actors:
            _kill(int(actor))

    def _add(self, name: str, resources: Mapping[str, float]) -> None:
        own = dict(resources)
        cpus, gpus = int(own.pop("CPU", 0)), int(own.pop("GPU", 0))
        for remaining in reversed(range(_START_TRIES)):
            before = _children()
            try:
                self._nodes[name] = self._cluster.add_node(
                    wait=False, resources=own, num_cpus=cpus, num_gpus=gpus, **_COMMON
                )
                return
            except Exception:
                # A timeout of half a minute, for which Ray has no error of its own. The node could
                # still join, as a second one of its name.
                for process in _children() - before:
                    _kill(process)
                if not remaining:
                    raise


def _children() -> set[int]:
    """Return the processes that this thread has started; none where the system has no list."""
    try:
        thread = threading.get_native_id()
        return {int(pid) for pid in Path(f"/proc/self/task/{thread}/children").read_text().split()}
    except OSError:
        return set()


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def drop_folder(folder: Path) -> None:
    """Remove the folder of a cluster that has ended or is ending."""
    if not folder.name.startswith(_PREFIX):
        return
    # Processes that are ending still write their last lines.
    for _ in range(_DROP_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_DROP_PAUSE_SECONDS)
