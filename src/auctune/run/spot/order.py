"""What is to be run: the job as the market sees it, and as the trainer does."""

from dataclasses import asdict, dataclass
from typing import Any

from auctune.domain import InputError
from auctune.domain.checks import check_count
from auctune.spot.job import SpotJob
from auctune.train.job import LoraJob


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotOrder:
    """One job.

    Attributes:
        job: workload, deadline, value and bounds; all rows of all epochs are its workload.
        training: the adapter; a batch is that of all instances.
        base: the base model's name.
        micro_batch: rows that go through the model together on one instance.
        device, dtype: where and how workers compute; the coordinator computes on the CPU.
        threads: of torch on a CPU, in each process.
    """

    job: SpotJob
    training: LoraJob
    base: str
    micro_batch: int
    device: str = "cpu"
    dtype: str = "float32"
    threads: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.micro_batch <= self.training.batch_size:
            expected = f"1 to batch_size = {self.training.batch_size} rows"
            raise InputError("micro_batch", f"{self.micro_batch!r}", expected)
        check_count(self.threads, "threads", 1)

    def lasting(self) -> dict[str, Any]:
        """What a run that goes on must find as it was, as JSON can hold it."""
        training = asdict(self.training)
        # Where files lie may change; what is in them is known by digests.
        for name in ("data", "validation"):
            del training[name]
        return {
            "job": repr(self.job),
            "training": training | {"target_modules": list(self.training.target_modules)},
            "base": self.base,
            "micro_batch": self.micro_batch,
            "dtype": self.dtype,
            "threads": self.threads,
        }
