"""The process on an instance: computes one micro-batch after the other at the weights it is told.

| to the worker | from the worker |
| --- | --- |
| weights {} + values | ready {base_digest, data_digest, num_parameters} |
| part {first, stop} | gradient {loss} + values |
| | failed {place, found, expected} |

It writes nothing to disk. When the coordinator's end closes, whoever closed it, the process ends at
once, whatever it is at (auctune.run.tether).
"""

import json
import os
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from auctune.domain import AuctuneError
from auctune.run.runtime.channel import error_record
from auctune.run.spot.link import Link, LinkClosedError, SocketLink
from auctune.train.data_parallel.batches import RowRange
from auctune.train.data_parallel.gradients import GradientWorker
from auctune.train.job import LoraJob


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What a worker is started with.

    Attributes:
        base: the base model's name.
        cache: folder of bases that are built here.
        job: to train; its data are read by the worker.
        device, dtype: where and how it computes.
        threads: of torch on a CPU.
    """

    base: str
    cache: str
    job: LoraJob
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1

    def to_json(self) -> str:
        """As one argument of a process."""
        record = asdict(self)
        record["job"] |= {"data": str(self.job.data), "validation": None, "patience": 0}
        return json.dumps(record)

    @classmethod
    def from_json(cls, text: str) -> "WorkerSettings":
        """What `to_json` wrote."""
        record: dict[str, Any] = json.loads(text)
        job = record.pop("job")
        job |= {"data": Path(job["data"]), "target_modules": tuple(job["target_modules"])}
        return cls(job=LoraJob(**job), **record)


@dataclass(frozen=True)
class Bench:
    """All that a worker needs to begin.

    Attributes:
        maker: computes.
        base_digest: of the base that it computes with.
    """

    maker: GradientWorker
    base_digest: str


def set_up(settings: WorkerSettings) -> Bench:
    """Load base and data.

    Raises:
        InputError: if one of them cannot be used.
    """
    import torch

    from auctune.train.base import load_base

    torch.set_num_threads(settings.threads)
    base = load_base(
        settings.base,
        cache=Path(settings.cache),
        device=settings.device,
        dtype=settings.dtype,
    )
    return Bench(GradientWorker(base, settings.job, threads=settings.threads), base.digest)


def serve(link: Link, bench: Bench) -> None:
    """Do what is asked until the other side is gone."""
    maker = bench.maker
    link.send(
        {
            "kind": "ready",
            "base_digest": bench.base_digest,
            "data_digest": maker.data_digest,
            "num_parameters": maker.num_parameters,
        }
    )
    while True:
        parcel = link.receive()
        if parcel.words["kind"] == "weights":
            maker.set_weights(parcel.numbers)
            continue
        contribution = maker.compute(RowRange(parcel.words["first"], parcel.words["stop"]))
        link.send({"kind": "gradient", "loss": contribution.loss}, contribution.gradient)


def run(link: Link, settings: WorkerSettings, bench: Bench | None = None) -> int:
    """A worker's whole life; returns the code to exit with."""
    try:
        serve(link, bench or set_up(settings))
    except LinkClosedError:
        return 0
    except AuctuneError as error:
        link.send({"kind": "failed", **error_record(error)})
        return 1
    raise AssertionError("serves until the link is closed")


def main() -> None:
    """Begin on the socket that was inherited: arguments are its number and the settings."""
    link = SocketLink(socket.socket(fileno=int(sys.argv[1])))
    code = run(link, WorkerSettings.from_json(sys.argv[2]))
    sys.stderr.flush()
    os._exit(code)
