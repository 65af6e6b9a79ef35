"""Workers as actors of a Ray cluster, and the provider that rents them.

The coordinator's process is the driver: it puts the weights into the object store once a step, and
has an actor on each instance compute micro-batches with them. Gradients come back as results, in
any order; the trainer adds them in a fixed one. Ray ends a driver that has lost its cluster: such a
run is resumed like one that was killed.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from auctune.domain import AuctuneError, InputError
from auctune.engine.runtime.ray.cluster import EnsureNode, open_cluster
from auctune.engine.runtime.ray.params import check_ray
from auctune.engine.spot.job_config import SpotRayParams
from auctune.engine.spot.provider import (
    Capacity,
    ClusterCapacity,
    InstanceProvider,
    PurchaseOption,
    TraceCapacity,
    check_trace_length,
)
from auctune.engine.spot.traces import MarketTrace
from auctune.engine.spot.worker import (
    GradientActor,
    Weights,
    WorkerExited,
    WorkerFailed,
    WorkerMessage,
    WorkerSettings,
)
from auctune.spot.job import SpotJob
from auctune.train.data_parallel.batches import Contribution, RowRange

# An actor may die a little before its node: the node has to answer this often.
_NODE_CHECKS, _CHECK_SECONDS = 6, 0.4
_NODE_TIMEOUT = 5.0
# Sums of fractions of resources.
_SLACK = 1e-6


class RayWorker:
    """A `WorkerHandle` of an actor.

    Args:
        actor: a `GradientActor`.
        settings: that it loads.
        put: puts weights into the object store.
        missing_seconds: time without a place after which its instance counts as lost.
        log: file to which its errors are appended.
    """

    def __init__(
        self,
        actor: Any,
        settings: WorkerSettings,
        put: Callable[[Weights], Any],
        missing_seconds: float,
        log: Path,
    ) -> None:
        self._actor, self._put, self._log = actor, put, log
        self._missing_at = time.monotonic() + missing_seconds
        self._on_message: Callable[[WorkerMessage], None] = lambda _: None
        self._node: str | None = None
        self._exited = threading.Event()
        self._killed = False
        self._is_lost: bool | None = None
        actor.node_id.remote().future().add_done_callback(self._on_placed)
        self._ready = actor.load.remote(settings)

    def start(self, on_message: Callable[[WorkerMessage], None]) -> None:
        self._on_message = on_message
        self._ready.future().add_done_callback(self._on_result)

    def compute(self, part: RowRange, weights: Weights) -> None:
        reference = self._actor.compute.remote(self._put(weights), weights.step, part)
        reference.future().add_done_callback(self._on_result)

    def is_lost(self) -> bool:
        if self._node is None:
            return self._exited.is_set() or time.monotonic() > self._missing_at
        if not self._exited.is_set():
            return False
        if self._is_lost is None:
            self._is_lost = _is_node_lost(self._node)
        return self._is_lost

    def kill(self) -> None:
        import ray

        self._killed = True
        ray.kill(self._actor)

    def _on_placed(self, future: "Future[str]") -> None:
        if future.exception() is None:
            self._node = future.result()

    def _on_result(self, future: "Future[WorkerMessage]") -> None:
        """Deliver a message; called on Ray's thread, which must not wait for Ray."""
        from ray.exceptions import RayTaskError

        error: BaseException | None = future.exception()
        if error is None:
            message = future.result()
            if isinstance(message, Contribution):
                # Ray's arrays are read-only views of shared memory.
                message = replace(message, gradient=np.array(message.gradient))
            self._on_message(message)
            return
        cause = error.cause if isinstance(error, RayTaskError) else error
        if isinstance(cause, AuctuneError):
            self._on_message(WorkerFailed(cause))
            return
        if not self._killed:
            with self._log.open("a") as log:
                log.write(f"{error}\n")
        self._exited.set()
        self._on_message(WorkerExited())


def _is_node_lost(node_id: str) -> bool:
    """Return whether a node is gone, or goes within the next seconds."""
    import ray

    for _ in range(_NODE_CHECKS):
        node = next((one for one in ray.nodes() if one["NodeID"] == node_id), None)
        if node is None or not node["Alive"]:
            return True
        address = node["NodeManagerAddress"], node["NodeManagerPort"]
        try:
            socket.create_connection(address, _NODE_TIMEOUT).close()
        except OSError:
            return True
        time.sleep(_CHECK_SECONDS)
    return False


class RayLauncher:
    """A `Launcher` of actors; connected to its cluster until it is closed.

    Args:
        settings: of the workers.
        log: file to which their errors are appended.
        params: of the cluster.
        max_instances: of each kind at once, for which a cluster of its own has room.

    Raises:
        InputError: if the cluster cannot be used.
    """

    def __init__(
        self, settings: WorkerSettings, log: Path, params: SpotRayParams, max_instances: int
    ) -> None:
        self._settings = _portable(settings, params)
        self._log, self._params = log, params
        self._requirements = {
            option: params.requirements(resource, settings.device, settings.threads)
            for option, resource in (
                (PurchaseOption.SPOT, params.spot),
                (PurchaseOption.ON_DEMAND, params.on_demand),
            )
        }
        # The weights that are in the object store.
        self._step, self._reference = -1, None
        self._connection = ExitStack()
        try:
            ensure_node = self._connection.enter_context(_connect(params, log.parent))
            if params.address is None:
                for option, needs in self._requirements.items():
                    # A node of a cluster of its own has room for all instances of a kind.
                    has = {name: max(1.0, need * max_instances) for name, need in needs.items()}
                    ensure_node(str(option), has)
        except BaseException:
            self.close()
            raise

    def launch(self, option: PurchaseOption) -> RayWorker:
        import ray

        resources = dict(self._requirements[option])
        actor_class = ray.remote(GradientActor).options(
            num_cpus=resources.pop("CPU", 0),
            num_gpus=resources.pop("GPU", 0),
            resources=resources,
            max_restarts=0,
            max_task_retries=0,
        )
        return RayWorker(
            actor_class.remote(),
            self._settings,
            self._put,
            self._params.missing_seconds,
            self._log,
        )

    def num_free(self) -> int:
        """Return how many more spot instances fit on the cluster."""
        from ray._private.state import available_resources_per_node

        needs = self._requirements[PurchaseOption.SPOT]
        return sum(_num_fitting(has, needs) for has in available_resources_per_node().values())

    def close(self) -> None:
        self._connection.close()

    def _put(self, weights: Weights) -> Any:
        """Return a reference to weights in the object store, where they are put once a step."""
        import ray

        if weights.step != self._step:
            self._step, self._reference = weights.step, ray.put(weights.values)
        return self._reference


def _num_fitting(has: Mapping[str, float], needs: Mapping[str, float]) -> int:
    return min(int(has.get(kind, 0.0) / amount + _SLACK) for kind, amount in needs.items())


@contextmanager
def _connect(params: SpotRayParams, work: Path) -> Iterator[EnsureNode]:
    """Connect to a cluster, for which a while is waited, or start one.

    Raises:
        InputError: if it cannot be reached.
    """
    give_up_at = time.monotonic() + params.reach_seconds
    give_up = threading.Event()
    reasons = [""]

    def on_unreachable(why: str) -> None:
        reasons.append(why)
        if time.monotonic() > give_up_at:
            give_up.set()

    with open_cluster(params.address, work, give_up, on_unreachable) as ensure_node:
        if ensure_node is None:
            raise InputError("ray address", reasons[-1], "a cluster that answers")
        yield ensure_node


def _portable(settings: WorkerSettings, params: SpotRayParams) -> WorkerSettings:
    """Return settings that do not depend on where a worker is started."""
    base, job = Path(settings.base), settings.job
    validation = None if job.validation is None else job.validation.absolute()
    # On a cluster that exists already, an instance sees the one GPU that Ray assigns to it.
    assigned = params.address is not None and settings.device.startswith("cuda")
    return replace(
        settings,
        base=str(base.absolute()) if base.is_dir() else settings.base,
        cache=str(Path(settings.cache).absolute()),
        job=replace(job, data=job.data.absolute(), validation=validation),
        device="cuda" if assigned else settings.device,
    )


@dataclass(frozen=True, slots=True, eq=False)
class RayProvider:
    """A `ProviderFactory`: actors of a cluster as instances, at the prices of a recorded market.

    Attributes:
        trace: prices, and counts unless the cluster's capacity is used; slot 0 is the job's first.
        params: of the cluster.
        max_instances: that the job can use at once.
    """

    trace: MarketTrace
    params: SpotRayParams
    max_instances: int

    def check(self, job: SpotJob) -> None:
        check_ray("provider 'ray'")
        check_trace_length(self.trace, job)

    def identity(self) -> dict[str, Any]:
        # A resumed run may use another cluster.
        counts = "cluster" if self.params.use_cluster_capacity else "market"
        return {"provider": "ray", "availability": counts, "trace": self.trace.digest}

    def open(self, settings: WorkerSettings, log: Path) -> InstanceProvider:
        launcher = RayLauncher(settings, log, self.params, self.max_instances)
        capacity: Capacity = TraceCapacity(self.trace)
        if self.params.use_cluster_capacity:
            capacity = ClusterCapacity(launcher.num_free)
        return InstanceProvider(self.trace, launcher, capacity)
