"""A Ray cluster on one machine: a node for the driver, and others side by side.

They end with the process that started them, however it ends: the kernel sees to that on Linux.
Nothing but the loopback interface is used, and no dashboard or usage report is started. A driver of
a cluster runs code as the user who owns the processes of its nodes. So all who connect must have a
random token, and sockets and logs are in a folder that no other user may enter.
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

_PREFIX = "auctune-ray-"
_STORE_BYTES = 80_000_000
_START_TRIES = 3
_DROP_TRIES = 20
_DROP_PAUSE_SECONDS = 0.1
_LOOPBACK = "127.0.0.1"
_TOKEN_BYTES = 32
_ENVIRONMENT = {
    # Loopback stays loopback, which Ray otherwise replaces by the machine's address.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_SYSTEM: dict[str, Any] = {
    # Ray has its workers give way to all else, such as the jobs of other zones.
    "worker_niceness": 0,
    # A node that is gone is to be noticed within two seconds, not within half a minute.
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
    """Keep what Ray reports of lost nodes off standard output: it has no option for that."""
    import ray

    ray._private.worker.print_to_stdstream = _print_nothing


def _print_nothing(*_arguments: object, **_options: object) -> None:
    pass


def reread_token() -> None:
    """Have Ray use the token in the environment; it would keep what it read at its import."""
    if "ray" in sys.modules:
        import ray

        raylet: Any = ray._raylet
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


class LocalCluster:
    """A context: nodes with resources, and this process as their driver.

    Nodes end with the thread that added them, as the kernel has it.

    Args:
        nodes: what each has, by its name; `CPU` and `GPU` are Ray's own.
        namespace: of the driver's named actors.
        port: of its head; 0: any that is free.
        token: asked of all who connect; None: a random one.

    Attributes:
        folder: of sockets and logs; goes with the cluster, unless that was killed.
    """

    def __init__(
        self,
        nodes: Mapping[str, Mapping[str, float]],
        namespace: str = "",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        self._resources = {name: dict(has) for name, has in nodes.items()}
        self._namespace = namespace
        self._port = port
        self._token = secrets.token_hex(_TOKEN_BYTES) if token is None else token
        self._before: dict[str, str | None] = {}
        self._nodes: dict[str, Any] = {}
        self._cluster: Any = None
        # Paths of sockets are short: not in a folder of the user's. Ray opens what is below to all.
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))

    @property
    def address(self) -> str:
        """HOST:PORT of its head."""
        return str(self._cluster.address)

    def __enter__(self) -> "LocalCluster":
        session = self.folder / "s"
        # Where it writes which cluster is the newest.
        (session / "ray").mkdir(parents=True)
        # To be said before Ray is imported; its processes inherit it.
        os.environ |= _ENVIRONMENT | {"RAY_TMPDIR": str(session)}
        own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self._token}
        self._before = {name: os.environ.get(name) for name in own}
        os.environ |= own
        reread_token()
        import ray
        from ray.cluster_utils import Cluster

        # Somebody may have imported it before.
        ray._private.ray_constants.ENABLE_RAY_CLUSTER = False
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
            silence_ray_output()
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
        for name, value in self._before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        reread_token()
        drop_folder(self.folder)

    def has(self, name: str) -> bool:
        """Whether a node is there."""
        node = self._nodes.get(name)
        return node is not None and any(kind == "raylet" for kind, _ in node.live_processes())

    def start_node(self, name: str, resources: Mapping[str, float]) -> None:
        """Start a node, again if it is gone; returns before the cluster knows it."""
        if name in self._nodes:
            self._cluster.remove_node(self._nodes.pop(name), allow_graceful=False)
        self._add(name, resources)

    def process_of(self, name: str) -> int:
        """The process whose end is the node's."""
        processes = self._nodes[name].live_processes()
        return next(int(process.pid) for name, process in processes if name == "raylet")

    def kill(self, name: str) -> None:
        """Lose a node, its actors with it, as by a power cut."""
        node = self.process_of(name)
        actors = Path(f"/proc/{node}/task/{node}/children").read_text().split()
        self._cluster.remove_node(self._nodes.pop(name), allow_graceful=False)
        for actor in actors:
            _kill(int(actor))

    def _add(self, name: str, resources: Mapping[str, float]) -> None:
        own = dict(resources)
        cpus, gpus = int(own.pop("CPU", 0)), int(own.pop("GPU", 0))
        for left in reversed(range(_START_TRIES)):
            before = _children()
            try:
                self._nodes[name] = self._cluster.add_node(
                    wait=False, resources=own, num_cpus=cpus, num_gpus=gpus, **_COMMON
                )
                return
            except Exception:
                # Of half a minute's silence, for which Ray has no error of its own. The node may
                # still come, as one too many of its name.
                for process in _children() - before:
                    _kill(process)
                if not left:
                    raise


def _children() -> set[int]:
    """Processes that this thread has started; none where the system does not tell."""
    try:
        thread = threading.get_native_id()
        return {int(pid) for pid in Path(f"/proc/self/task/{thread}/children").read_text().split()}
    except OSError:
        return set()


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def drop_folder(folder: Path) -> None:
    """Remove what a cluster that is gone, or is going, has left."""
    if not folder.name.startswith(_PREFIX):
        return
    # What is ended last still writes its last lines.
    for _ in range(_DROP_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_DROP_PAUSE_SECONDS)
