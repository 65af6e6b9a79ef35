"""Workers as actors of a Ray cluster, and the provider that rents them.

The coordinator's process is the driver. Ray ends a driver that has lost its cluster: such a run is
resumed like one that was killed.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from auctune.domain import InputError
from auctune.engine.elastic.gradient_worker import WorkerSettings, gradient_worker
from auctune.engine.runtime.channel import OnMessage
from auctune.engine.runtime.ray.cluster import EnsureNode, open_cluster
from auctune.engine.runtime.ray.driver import ActorSpec, RayDriver, RayWorker
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
from auctune.spot.job import SpotJob

# Sums of fractions of resources.
_SLACK = 1e-6
_LEASE_SECONDS = 60.0


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
        self._log = log.absolute()
        self._worker = gradient_worker(_portable(settings, params), self._log)
        self._params = params
        self._needs: dict[str, dict[str, float]] = {
            option: params.requirements(resource, settings.device, settings.threads)
            for option, resource in (
                (PurchaseOption.SPOT, params.spot),
                (PurchaseOption.ON_DEMAND, params.on_demand),
            )
        }
        self._spot: list[RayWorker] = []
        self._connection = ExitStack()
        try:
            ensure_node = self._connection.enter_context(_connect(params, log.parent))
            if params.address is None:
                for option, needs in self._needs.items():
                    # A node of a cluster of its own has room for all instances of a kind.
                    has = {name: max(1.0, need * max_instances) for name, need in needs.items()}
                    ensure_node(option, has)
            self._driver = RayDriver()
            self._connection.callback(self._driver.close)
        except BaseException:
            self.close()
            raise

    def start(self, name: str, on_message: OnMessage) -> RayWorker:
        spec = ActorSpec.of(
            self._worker,
            self._needs[name],
            lease_seconds=_LEASE_SECONDS,
            missing_seconds=self._params.missing_seconds,
        )

        def deliver(message: object) -> None:
            if message is None and not worker.is_killed:
                with self._log.open("a") as file:
                    file.write(f"the worker {worker.exit_reason()}\n")
            on_message(message)

        worker = self._driver.worker(spec, self._worker.messages, deliver)
        if name == PurchaseOption.SPOT:
            self._spot.append(worker)
        worker.start()
        return worker

    def num_free(self) -> int:
        """Return how many more spot instances fit on the cluster.

        Ray publishes what is free for the cluster as a whole alone, so that the run's own instances
        are subtracted from what its nodes have. Those of others count only once they use up the
        whole cluster; an instance that finds no place is preempted as missing.
        """
        import ray

        needs = self._needs[PurchaseOption.SPOT]
        self._spot = [worker for worker in self._spot if not worker.is_gone]
        room = sum(_num_fitting(node["Resources"], needs) for node in ray.nodes() if node["Alive"])
        return max(0, min(room - len(self._spot), _num_fitting(ray.available_resources(), needs)))

    def close(self) -> None:
        self._connection.close()


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
    start = None if job.start_from is None else job.start_from.absolute()
    # On a cluster that exists already, an instance sees the one GPU that Ray assigns to it.
    assigned = params.address is not None and settings.device.startswith("cuda")
    return replace(
        settings,
        base=str(base.absolute()) if base.is_dir() else settings.base,
        cache=str(Path(settings.cache).absolute()),
        job=replace(job, data=job.data.absolute(), validation=validation, start_from=start),
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

    def is_warm(self, settings: WorkerSettings) -> bool:
        return False

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
