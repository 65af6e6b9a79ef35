"""Workers of one job on a cluster: launched through a bridge, each as an instance of its own."""

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from auctune.domain import InputError
from auctune.run.runtime.channel import Message
from auctune.run.runtime.local import WorkerProcess as LocalWorker
from auctune.run.spot.cluster.door import Door
from auctune.run.spot.cluster.late_link import LateLink
from auctune.run.spot.errors import SpotRunError
from auctune.run.spot.kind import Kind
from auctune.run.spot.launcher import WorkerProcess
from auctune.run.spot.worker import WorkerSettings
from auctune.run.spot_ray_params import SpotRayParams

BRIDGE = "auctune.run.instances.bridge"

# A bridge that was heard to load Ray and start a cluster of its own, on a busy machine.
_START_SECONDS = 180.0
# Ray needs two seconds to see that a machine is gone; a cluster that is gone says nothing.
_VERDICT_SECONDS = 15.0
_STOP_SECONDS = 5.0


class PlacedWorker:
    """A `WorkerProcess` on a cluster.

    Args:
        link: to the worker, once it has called.
        missing_seconds: after which it is gone if it has no place.
        let_go: has the instance ended, and its worker shut out.
    """

    pid = 0

    def __init__(
        self, link: LateLink, missing_seconds: float, let_go: Callable[[], object]
    ) -> None:
        self.link = link
        self._let_go = let_go
        self._missing_at = time.monotonic() + missing_seconds
        self._over = threading.Event()
        self._is_lost = False

    def is_gone(self) -> bool:
        """See `WorkerProcess`: Ray's word is waited for once the worker says nothing any more."""
        if not self.link.has_begun:
            return self._is_lost or time.monotonic() > self._missing_at
        if not self.link.is_closed:
            return False
        # Who says nothing for so long is not there either.
        is_said = self._over.wait(_VERDICT_SECONDS)
        return self._is_lost or not is_said

    def kill(self) -> None:
        """See `WorkerProcess`."""
        self._let_go()
        self.link.close()

    def end(self, *, is_lost: bool) -> None:
        """It was said to have ended."""
        self._is_lost = is_lost
        self._over.set()
        self.link.close()


class _Bridge:
    """A bridge process, ready, with the instances that it carries.

    Args:
        plan: what it is started with.
        log: file for its standard error.
        reach_seconds: that a cluster may not answer.

    Raises:
        InputError: if the cluster cannot be used.
        SpotRunError: if it ends before it is ready.
    """

    def __init__(self, plan: Message, log: Path, reach_seconds: float) -> None:
        self._changed = threading.Condition()
        self._workers: dict[int, PlacedWorker] = {}
        self.host = ""
        self._failure: InputError | None = None
        self._why_silent = ""
        self.free: int | None = None
        self.has_ended = False
        self._process = LocalWorker(BRIDGE, plan, self._hear, log=log)
        try:
            self._wait(reach_seconds)
            self.door = Door(self.host)
        except BaseException:
            self._process.kill()
            raise

    def launch(
        self, number: int, worker: PlacedWorker, needs: Mapping[str, float], call: Message
    ) -> None:
        """Have an instance placed, and its worker started."""
        with self._changed:
            self._workers[number] = worker
            is_over = self.has_ended
        if is_over:
            worker.end(is_lost=True)
        launch = {"do": "launch", "number": number, "needs": dict(needs)}
        self._process.send({**launch, "call": call})

    def end(self, number: int) -> None:
        """Have an instance ended."""
        with self._changed:
            is_known = self._workers.pop(number, None) is not None
        if is_known:
            self._process.send({"do": "end", "number": number})

    def count_free(self) -> int:
        """So many more spot instances would fit, by the newest word."""
        with self._changed:
            self._changed.wait_for(lambda: self.free is not None or self.has_ended)
            return self.free or 0

    def close(self) -> None:
        """End it, and all instances with it."""
        self.door.close()
        self._process.stop(_STOP_SECONDS)

    def _wait(self, reach_seconds: float) -> None:
        begun = time.monotonic()
        with self._changed:
            while not self.host:
                self._changed.wait(0.5)
                if self._failure is not None:
                    raise self._failure
                if self.has_ended:
                    raise SpotRunError(
                        f"there is no way to the cluster: {self._process.exit_reason()}"
                    )
                waited = time.monotonic() - begun
                if self._why_silent and waited > reach_seconds:
                    raise InputError("ray address", self._why_silent, "a cluster that answers")
                if not self._why_silent and waited > _START_SECONDS:
                    raise SpotRunError("no way to the cluster within three minutes")

    def _hear(self, message: Message | None) -> None:
        """On a thread of the process's."""
        with self._changed:
            if message is None:
                self.has_ended = True
                over, self._workers = self._workers, {}
            else:
                over = self._take(message)
            self._changed.notify_all()
        for worker in over.values():
            worker.end(is_lost=message is None or message["is_lost"])

    def _take(self, message: Message) -> dict[int, PlacedWorker]:
        """Those that are over."""
        kind = message["kind"]
        if kind == "ready":
            self.host = message["host"]
        elif kind == "free":
            self.free = message["count"]
        elif kind == "unreachable":
            self._why_silent = message["why"]
        elif kind == "failed":
            self._failure = InputError(*(message[part] for part in ("place", "found", "expected")))
        elif kind == "gone" and message["number"] in self._workers:
            return {message["number"]: self._workers.pop(message["number"])}
        return {}


class RayLauncher:
    """A `Launcher` of workers on a cluster.

    Args:
        settings: of the workers.
        log: file to which they write, which all machines see.
        params: of the cluster.
        most: instances of a kind that are there at once; of a cluster of its own.

    Raises:
        InputError: if the cluster cannot be used.
        SpotRunError: if there is no way to it.
    """

    def __init__(
        self, settings: WorkerSettings, log: Path, params: SpotRayParams, most: int
    ) -> None:
        settings = _anywhere(settings, adopts=params.address is not None)
        self._settings, self._log, self._params = settings, log.absolute(), params
        self._numbers = itertools.count(1)
        self._needs = {
            kind: params.needs(mark, settings.device, settings.threads)
            for kind, mark in ((Kind.SPOT, params.spot), (Kind.ON_DEMAND, params.on_demand))
        }
        # Of one's own cluster a Ray node has room for all of a kind, and its mark as a whole.
        rooms = {
            str(kind): {name: max(1.0, need * most) for name, need in needs.items()}
            for kind, needs in self._needs.items()
        }
        self._plan = {
            "address": params.address,
            "work": str(log.parent.absolute()),
            "rooms": rooms if params.address is None else {},
            "spot": self._needs[Kind.SPOT],
        }
        self._bridge = self._open()

    def launch(self, kind: Kind) -> WorkerProcess:
        """See `Launcher`; a cluster that was lost is waited for."""
        if self._bridge.has_ended:
            self._bridge.close()
            self._bridge = self._open()
        link, bridge = LateLink(), self._bridge
        token = bridge.door.expect(link.begin)
        number = next(self._numbers)

        def let_go() -> None:
            bridge.door.forget(token)
            bridge.end(number)

        worker = PlacedWorker(link, self._params.missing_seconds, let_go)
        call = {
            "host": bridge.host,
            "port": bridge.door.port,
            "token": token,
            "settings": self._settings.to_json(),
            "log": str(self._log),
        }
        bridge.launch(number, worker, self._needs[kind], call)
        return worker

    def free(self) -> int:
        """How many more spot instances the cluster has room for."""
        return self._bridge.count_free()

    def close(self) -> None:
        """End the bridge, and with it the cluster if it is its own."""
        self._bridge.close()

    def _open(self) -> _Bridge:
        return _Bridge(self._plan, self._log.with_name("ray.log"), self._params.reach_seconds)


def _anywhere(settings: WorkerSettings, *, adopts: bool) -> WorkerSettings:
    """Settings that do not depend on where a worker is started."""
    base, data = Path(settings.base), settings.job.data.absolute()
    # Of a cluster that is adopted, an instance sees the one GPU that Ray gives it.
    is_gpu = adopts and settings.device.startswith("cuda")
    return replace(
        settings,
        base=str(base.absolute()) if base.is_dir() else settings.base,
        cache=str(Path(settings.cache).absolute()),
        job=replace(settings.job, data=data),
        device="cuda" if is_gpu else settings.device,
    )
