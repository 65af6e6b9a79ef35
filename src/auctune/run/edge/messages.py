"""Messages between a zone and the process of its sites: JSON, one message a line.

| to the process | from it |
| --- | --- |
| slot {slot, open, requests} | ready {lost}, alive |
| next {open, requests} | trained {job, slot, outcome}, broken {job, why} |
| prefetch {requests} | torn {job, slot, why, out_of_memory}, slot_done {slot} |
| stop | lost {site}, back {site} |
| | failed {place, found, expected} |

`requests` are `SlotRequest`s: of a slot that has begun, or of the one that comes next, whose actors
may be started: all of them by `next`, in the room beside a running slot by `prefetch`. `open` are
the jobs that have not ended: the process releases all others. After `slot` it answers for each job
of it, and sends slot_done last; a slot that was trained before is reported again. A job that is
torn trained nothing of the slot, and `why` is for its owner; `out_of_memory`, whether memory was
too small.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter

from auctune.edge.market import Site
from auctune.run.edge.records import JobField, SlotField
from auctune.run.edge.training import EdgeTraining
from auctune.run.runtime.channel import OnMessage
from auctune.run.runtime.local import WorkerProcess

WORKER = "auctune.run.edge.worker"


@dataclass(frozen=True, slots=True)
class SitesSettings:
    """Settings of the process.

    Attributes:
        folder: an `EdgeFolder`.
        sites: units by resource type, by site.
        ray: address of an existing cluster; empty: one is started on this machine.
        device: of workers.
    """

    folder: str
    sites: Mapping[str, Mapping[str, float]]
    ray: str = ""
    device: str = "cpu"

    def to_sites(self) -> list[Site]:
        """Return the sites, in order."""
        return [Site(name, capacity) for name, capacity in self.sites.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """A slot of a job.

    Attributes:
        job: as it was decided on.
        training: how it trains.
        part: what is trained in the slot, and where.
        taken: chunks of each site that were trained before it.
        steps: of the optimizer before it.
        is_last: whether nothing remains after it: the adapter is exported then.
        until: unix time from which on what is not trained yet comes too late.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"ser_json_inf_nan": "constants"}

    job: JobField
    training: EdgeTraining
    part: SlotField
    taken: Mapping[str, int] = field(default_factory=dict)
    steps: int = 0
    is_last: bool = False
    until: float = math.inf


_REQUESTS = TypeAdapter(list[SlotRequest])


def requests_record(requests: Iterable[SlotRequest]) -> list[dict[str, Any]]:
    """Return requests as JSON values."""
    found: list[dict[str, Any]] = _REQUESTS.dump_python(list(requests), mode="json")
    return found


def read_requests(records: Sequence[Mapping[str, Any]]) -> list[SlotRequest]:
    """Return what `requests_record` made."""
    return _REQUESTS.validate_python(records)


class SitesProcess(WorkerProcess):
    """Child process that trains at sites; it ends at once when its parent does.

    Args:
        settings: of the process.
        on_message, lock, log: as of `WorkerProcess`.
        module: of the worker.
    """

    def __init__(
        self,
        settings: SitesSettings,
        on_message: OnMessage,
        *,
        lock: int | None = None,
        log: Path | None = None,
        module: str = WORKER,
    ) -> None:
        super().__init__(module, asdict(settings), on_message, lock=lock, log=log, fork=True)

    def train(self, slot: int, jobs: Collection[str], requests: Iterable[SlotRequest]) -> None:
        """Train a slot; `jobs` are those that have not ended."""
        plain = requests_record(requests)
        self.send({"do": "slot", "slot": slot, "open": list(jobs), "requests": plain})

    def expect(self, jobs: Collection[str], requests: Iterable[SlotRequest]) -> None:
        """Prepare the next slot, and release the jobs that have ended."""
        self.send({"do": "next", "open": list(jobs), "requests": requests_record(requests)})

    def prefetch(self, requests: Iterable[SlotRequest]) -> None:
        """Prepare the next slot while one is trained."""
        self.send({"do": "prefetch", "requests": requests_record(requests)})
